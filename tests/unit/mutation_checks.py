"""What must hold of the mutation engine; a check is called with the package to judge, ``harness.mutation``."""

import json
import re
from types import SimpleNamespace

import pytest

from harness.discover import SetupError
from harness.outcome import CaseResult, Violation

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def result(api, key="k", **fields):
    plain = {
        "key": key,
        "kernel": "merge",
        "file": "kernels/merge.py",
        "line": 3,
        "operator": "bound",
        "function": "kernel",
        "before": "a < b",
        "after": "a < b - 1",
        "diff": "--- f\n+++ f\n@@ -3 +3 @@\n-  a < b\n+  a < b - 1\n",
        "status": "KILLED",
        "lane": "virtual GPU",
        **fields,
    }
    return api.results.Result.from_dict(plain)


def results_of(api, **counts):
    return [result(api, f"{status}{n}", status=status) for status, count in counts.items() for n in range(count)]


@check
def only_checks_green_on_the_original_kill(api):
    trusted = api.judge.Trusted()
    place = ("merge-triton", "Case()")
    of_the_original = CaseResult(
        checks_run={"oracle:out", "repeat", "poison:gaps"}, violations=[Violation("repeat", "")]
    )
    trusted.add(place, of_the_original)
    assert trusted.counts(place, "oracle:out")
    assert not trusted.counts(place, "repeat"), "fails on the original too"
    assert not trusted.counts(place, "relation:flip"), "never ran on the original"
    assert trusted.counts(place, "poison:several"), "stands for every region"


@check
def a_place_that_was_not_asked_about_is_trusted_until_it_is(api):
    assert api.judge.Trusted().counts(("merge-triton", "Case()"), "oracle:out")


@check
def a_kill_by_a_red_check_is_passed_over(api):
    """The second violation of one unit kills where the first does not count."""
    unit = SimpleNamespace(case=None, contract=None, implementation="merge-triton", deep=False, target=None, number=0)
    judging = api.judge.Judging(lane=None, oracles=None, find=lambda implementation: implementation)
    judging.result = lambda *arguments: CaseResult(violations=[Violation("a", "1"), Violation("b", "2")])
    trusted = api.judge.Trusted()
    trusted.add(("merge-triton", "None"), CaseResult(checks_run={"b"}))
    kill = judging.run([unit], trusted, lambda unit: None)
    assert kill is not None
    assert kill.violation.check == "b"
    trusted.add(("merge-triton", "None"), CaseResult(checks_run={"a"}, violations=[Violation("a", "")]))
    assert judging.run([unit], trusted, lambda unit: None) is None


@check
def a_kill_that_the_original_shares_is_tried_again(api):
    """A fork says what killed; only then is the original asked, and the next fork knows better."""
    unit = SimpleNamespace(case=1, contract=None, implementation="merge-triton", name="Case()", target=None, number=0)
    trusted = api.judge.Trusted()
    worker = api.worker.Worker(
        pairs=[], units=[unit], lane=None, deadline=9.0, silence=9.0, trusted=trusted, oracles=None,
        order=api.plan.Order(), baseline=None,
    )  # fmt: skip
    told = iter([{"status": "KILLED", "check": "repeat", "unit": 0}, {"status": "SURVIVED"}])
    worker._fork = lambda wanted, function: next(told)
    worker.ask_original = lambda asked: trusted.add(api.judge.place(asked), CaseResult(checks_run={"oracle:out"}))
    mutant = {"key": "k", "module": "m", "function": "f", "device": True, "source": "", "modules": []}
    assert worker.judge(mutant)["status"] == "SURVIVED"
    told = iter([{"status": "KILLED", "check": "oracle:out", "unit": 0}])
    assert worker.judge(mutant)["status"] == "KILLED"


@check
def a_contract_that_fails_on_the_original_is_no_kill(api):
    unit = SimpleNamespace(case=1, contract=None, implementation="merge-triton", name="Case()", target=None, number=0)

    class Broken:
        def result(self, *arguments):
            raise ZeroDivisionError

    worker = api.worker.Worker(
        pairs=[], units=[unit], lane=None, deadline=9.0, silence=9.0, trusted=api.judge.Trusted(), oracles=None,
        order=api.plan.Order(), baseline=Broken,
    )  # fmt: skip
    worker._fork = lambda wanted, function: {"status": "CRASH", "check": "process", "unit": 0}
    mutant = {"key": "k", "module": "m", "function": "f", "device": True, "source": "", "modules": []}
    with pytest.raises(ZeroDivisionError):
        worker.judge(mutant)


@check
def invalid_equivalent_and_skipped_mutants_are_not_counted(api):
    found = results_of(api, KILLED=1, SURVIVED=1, INVALID=5, EQUIVALENT=5, SKIPPED=5)
    assert api.table.rate(found) == 0.5
    assert api.table.headline(found).startswith("1 of 2 mutants killed (50.0%); 5 equivalent, 5 invalid, 5 skipped")


@check
def crashes_and_timeouts_are_kills_of_their_own(api):
    found = results_of(api, CRASH=1, TIMEOUT=2, SURVIVED=1)
    assert api.table.rate(found) == 0.75
    assert re.search(r"^ +all +4 +1 +2 +1 +75\.0%$", api.table.render(found), re.MULTILINE)


@check
def argued_survivors_stay_in_the_denominator(api):
    argument = api.argued.Argument(
        file="kernels/merge.py", function="kernel", before="a  <\n b", after="a < b - 1", reason="b is never reached"
    )
    found = api.argued.explained(results_of(api, KILLED=3, SURVIVED=1), [argument])
    assert [r.reason for r in found if r.status.killed] == ["", "", ""]
    assert [r.argued for r in found] == [False, False, False, True]
    assert api.table.rate(found) == 0.75
    assert "argued: b is never reached" in api.table.render(found)


@check
def an_argument_about_a_killed_mutant_is_stale(api):
    argument = api.argued.Argument(
        file="kernels/merge.py", function="kernel", before="a < b", after="a < b - 1", reason="no"
    )
    assert api.argued.stale(results_of(api, KILLED=1), [argument]) == [argument]
    assert api.argued.stale(results_of(api, SURVIVED=1), [argument]) == []
    assert api.argued.stale(results_of(api, SKIPPED=1), [argument]) == []
    assert api.argued.stale(results_of(api, KILLED=1, SKIPPED=1), [argument]) == [argument]


@check
def merging_keeps_each_mutant_once_and_prefers_what_ran(api):
    first = [result(api, "a", status="SKIPPED"), result(api, "b"), result(api, "a", kernel="other", status="SURVIVED")]
    second = [result(api, "a", status="SURVIVED"), result(api, "b", status="SKIPPED")]
    found = api.results.merged([first, second])
    assert {(r.kernel, r.key, str(r.status)) for r in found} == {
        ("merge", "a", "SURVIVED"),
        ("merge", "b", "KILLED"),
        ("other", "a", "SURVIVED"),
    }


@check
def results_survive_a_file(api, folder):
    found = [result(api, "a", cpu=0.25, units=3), result(api, "b", status="SURVIVED", nearest="Case(n=1)")]
    api.results.write(folder / "results.jsonl", found)
    assert api.results.read(folder / "results.jsonl") == found


@check
def a_file_that_holds_something_else_is_refused_with_its_line(api, folder):
    path = folder / "broken.jsonl"
    path.write_text(json.dumps(result(api).to_dict()) + "\n{}\n")
    with pytest.raises(SetupError, match=r"broken\.jsonl:2: not a result"):
        api.results.read(path)
    with pytest.raises(SetupError, match=r"absent\.jsonl: No such file"):
        api.results.read(folder / "absent.jsonl")


@check
def arguments_are_read_and_incomplete_ones_refused(api, folder):
    path = folder / "equivalents.toml"
    assert api.argued.read(path) == []
    entry = '[[equivalent]]\nfile = "f"\nfunction = ""\nbefore = "a"\nafter = "b"\nreason = "{}"\n'
    path.write_text(entry.format("because"))
    assert [argument.reason for argument in api.argued.read(path)] == ["because"]
    path.write_text(entry.format(" "))
    with pytest.raises(SetupError, match="entry 1"):
        api.argued.read(path)


@check
def an_argument_is_about_one_function_and_one_change(api):
    argument = api.argued.Argument(
        file="kernels/merge.py", function="kernel", before="a < b", after="a < b - 1", reason="x"
    )
    survivor = {"status": "SURVIVED"}
    assert argument.is_about(result(api, **survivor))
    diffs = ("--- f\n+++ f\n@@\n-a < b\n+a <= b\n", "--- f\n+++ f\n@@\n-c < b\n+a < b - 1\n")
    for other in ({"function": "other"}, {"diff": diffs[0]}, {"diff": diffs[1]}, {"file": "kernels/other.py"}):
        assert not argument.is_about(result(api, **survivor, **other))


@check
def shards_are_disjoint_and_complete(api):
    made = [SimpleNamespace(key=f"{n:012x}") for n in range(20)]
    parts = [api.campaign.shard(made, number, 3) for number in (1, 2, 3)]
    assert sorted(mutant.key for part in parts for mutant in part) == [mutant.key for mutant in made]


@check
def a_floor_is_held_by_every_kernel_alone(api, folder):
    path = folder / "kill_rate.toml"
    assert api.floors.below(results_of(api, SURVIVED=1), path) == []
    path.write_text("[rate]\nmerge = 0.75\nother = 0.5\n")
    other = [result(api, "o", kernel="other", status="SURVIVED")]
    assert api.floors.below([*results_of(api, KILLED=3, SURVIVED=1, INVALID=9), *other], path) == [("other", 0.0, 0.5)]
    assert api.floors.below(results_of(api, KILLED=2, SURVIVED=1), path) == [("merge", 2 / 3, 0.75)]


@check
def a_part_of_a_campaign_is_held_to_no_floor(api, folder):
    path = folder / "kill_rate.toml"
    path.write_text("[rate]\nmerge = 0.75\n")
    assert api.floors.below(results_of(api, SURVIVED=4, SKIPPED=1), path) == []


@check
def mutants_are_told_apart_and_say_something_new(api):
    source = "def f(a, b):\n    y = tl.load(a, mask=b, other=-1) > b\n    return a * (2 % 4)\n"
    found = api.generate.mutants([api.source.Module("m", "m.py", source)])
    assert len({mutant.source for mutant in found}) == len(found)
    assert not [mutant for mutant in found if mutant.operator == "division" and mutant.after == "2"]


@check
def units_that_killed_in_the_same_function_come_first(api):
    order = api.plan.Order()
    made = [SimpleNamespace(number=number) for number in range(4)]
    order.killed("f", made[3])
    order.killed("g", made[2])
    order.killed("g", made[2])
    assert [unit.number for unit in order.of("f", made)] == [3, 2, 0, 1]
    assert [unit.number for unit in order.of("g", made)] == [2, 3, 0, 1]


def _units():
    cases = [("illegal calls", None), ("Case(n=1)", 1), ("Case(n=2)", 2)]
    return [
        SimpleNamespace(number=number, implementation="merge-triton", name=name, case=case)
        for number, (name, case) in enumerate(cases)
    ]


@check
def what_killed_earlier_is_asked_first(api):
    order, made = api.plan.Order(), _units()
    order.killed("f", made[1])
    told = api.results.Told(check="oracle:out", case="merge-triton: Case(n=2)")
    assert [unit.number for unit in order.of("f", made, told)] == [2, 1, 0]
    assert [unit.number for unit in order.of("f", made)] == [1, 0, 2]


@check
def an_illegal_call_that_killed_earlier_is_asked_first(api):
    told = api.results.Told(check="rejects:rank", case="Rejection(label='rank', argument='x')")
    order, made = api.plan.Order(), _units()
    order.killed("f", made[2])
    assert [unit.number for unit in order.of("f", made, told)] == [0, 2, 1]


@check
def programs_take_turns_first_where_the_change_is_about_their_order(api):
    text = "def f(a):\n    ready = a + 1\n    ready = wait(a)\n    return ready - 2\n"
    made = api.generate.mutants([api.source.Module("m", "m.py", text)])
    assert {mutant.orders for mutant in made if "wait" in mutant.before} == {True}
    assert {mutant.orders for mutant in made if "wait" not in mutant.before} == {False}
    turns, alone = (SimpleNamespace(interleavings=found) for found in (object(), None))
    units = [
        SimpleNamespace(number=number, deep=deep, implementation=implementation, case=1, name="Case()")
        for number, (deep, implementation) in enumerate([(False, turns), (True, alone), (True, turns)])
    ]
    order = api.plan.Order()
    order.killed("f", units[1])
    assert [unit.number for unit in order.of("f", units, turns=True)] == [2, 1, 0]
    assert [unit.number for unit in order.of("f", units)] == [1, 0, 2]


@check
def a_sample_stays_where_other_functions_change(api):
    text = "def f(a, b):\n    return a * b + a - b\n\n\ndef g(a):\n    return a + {}\n"
    samples = []
    for number in (1, 2):
        made = api.generate.mutants([api.source.Module("m", "m.py", text.format(number))], ["index"])
        assert len({mutant.mark for mutant in made}) == len(made)
        sample = api.campaign.limited(made, len(made) - 2)
        samples.append({mutant.mark for mutant in sample if mutant.function == "f"})
    assert len(samples[0]) >= 2
    assert samples[0] == samples[1]
