"""What must hold of the mutation engine; a check is called with the package to judge, ``harness.mutation``."""

import json
import re
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from harness.contract import Interleavings
from harness.discover import SetupError
from harness.lanes import VirtualLane
from harness.outcome import CaseResult, Violation
from tests.unit import test_interleavings

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
    first = [result(api, "a", status="SKIPPED"), result(api, "b"), result(api, "a", kernel="other")]
    second = [result(api, "a", status="SURVIVED"), result(api, "b", status="SKIPPED")]
    found = api.results.merged([first, second])
    assert {(r.kernel, r.key, str(r.status)) for r in found} == {
        ("merge", "a", "SURVIVED"),
        ("merge", "b", "KILLED"),
        ("other", "a", "KILLED"),
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
    parts = [api.command.shard(made, number, 3) for number in (1, 2, 3)]
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
def a_sample_stays_where_other_functions_change(api):
    text = "def f(a, b):\n    return a * b + a - b\n\n\ndef g(a):\n    return a + {}\n"
    samples = []
    for number in (1, 2):
        made = api.generate.mutants([api.source.Module("m", "m.py", text.format(number))], ["index"])
        assert len({mutant.mark for mutant in made}) == len(made)
        sample = api.command.limited(made, len(made) - 2)
        samples.append({mutant.mark for mutant in sample if mutant.function == "f"})
    assert len(samples[0]) >= 2
    assert samples[0] == samples[1]


def _compiler(api, refused, differs):
    """Stand in for Triton: specialisations in ``refused`` do not compile in the mutant, those in ``differs`` change."""
    state = SimpleNamespace(mutated=False)

    @contextmanager
    def installed(*arguments):
        state.mutated = True
        yield
        state.mutated = False

    child = api.child
    child.installed, child._kernel = installed, lambda one: one
    child.frontend = SimpleNamespace(
        refusal=lambda kernel, one: "no such type" if state.mutated and one in refused else None,
        intermediate=lambda kernel, one, **options: f"{one}{state.mutated and one in differs}",
    )
    return child


@check
def units_that_launch_nothing_of_what_changed_come_last(api):
    """Of a unit that nobody ran yet it is not known; what host code changes is looked at in order."""
    made = [SimpleNamespace(number=n, implementation="merge-triton", case=n, target=None) for n in range(4)]
    kernels = {api.judge.place(made[0]): frozenset({"m.words"}), api.judge.place(made[1]): frozenset()}
    kernels[api.judge.place(made[3])] = frozenset({"m.words", "m.bytes"})
    kept = api.child.frontend
    try:
        now = {"m.words": "1", "m.bytes": "3"}
        api.child.frontend = SimpleNamespace(digests=lambda modules: (list(modules), now)[1])
        bench = SimpleNamespace(units=made, kernels=kernels, digests={"m.words": "1", "m.bytes": "2"})
        wanted = SimpleNamespace(device=True, modules=())
        assert [unit.number for unit in api.child._promising(wanted, bench)] == [2, 3, 0, 1]
        wanted.device = False
        assert [unit.number for unit in api.child._promising(wanted, bench)] == [0, 1, 2, 3]
    finally:
        api.child.frontend = kept


@check
def launches_of_the_compile_lane_have_to_be_the_same_too(api):
    changed = ("installed", "_kernel", "frontend", "launched", "_changed", "_PROOFS")
    kept = {name: getattr(api.child, name) for name in changed}
    wanted = SimpleNamespace(module="m", source="", modules=("m",), device=True)
    bench, recorder = SimpleNamespace(pairs=[]), SimpleNamespace(seen={1: "a", 2: "b"})
    try:
        for compiled, differs, proved in (((), (), True), (("c",), (), True), (("c",), ("c",), False)):
            child = _compiler(api, refused=(), differs=differs)
            child._PROOFS = kept["_PROOFS"][:1]
            child.launched = SimpleNamespace(specialisations=lambda pairs, modules, found=compiled: list(found))
            child._changed = lambda wanted, seen: list(seen)
            found = child._compared(wanted, bench, recorder)
            assert bool(found) == proved, (compiled, differs)
    finally:
        vars(api.child).update(kept)


@check
def a_refusal_anywhere_makes_a_mutant_invalid(api):
    kept = {name: getattr(api.child, name) for name in ("installed", "_kernel", "frontend")}
    wanted = SimpleNamespace(module="m", source="", modules=("m",))
    try:
        child = _compiler(api, refused=("c",), differs=("a",))
        assert child._refused(wanted, ["a", "b", "c"]) == "Triton refuses it: no such type"
        assert child._refused(wanted, ["a", "b"]) == ""
    finally:
        vars(api.child).update(kept)


@check
def programs_in_other_orders_judge_too(api):
    subject, _ = test_interleavings.implementation(Interleavings(seeds=1))
    judging = api.judge.Judging(VirtualLane(), api.judge.Oracles(), lambda implementation: implementation)
    result = judging.result(test_interleavings.CONTRACT, subject, test_interleavings.Case(3))
    assert "interleaving" in result.checks_run


@check
def a_free_worker_goes_where_most_is_left(api):
    few, many, done = (api.pool._Queue(None, list(range(left)), workers) for left, workers in ((3, 0), (40, 4), (0, 0)))
    assert api.pool._neediest([few, many, done]) is many
    many.workers = 16
    assert api.pool._neediest([many, few, done]) is few
    few.workers = 1
    assert api.pool._neediest([many, few, done]) is None, "a worker takes seconds to start"


@check
def judges_are_compared_on_what_counts_for_all(api):
    judged = {
        "contract": {"a": "KILLED", "b": "KILLED", "c": "EQUIVALENT", "d": "SURVIVED"},
        "fixed": {"a": "KILLED", "b": "SURVIVED", "c": "SURVIVED"},
    }
    found = {who: [result(api, key, status=status) for key, status in of.items()] for who, of in judged.items()}
    lines = [line.split() for line in api.peers.render(found).splitlines()]
    assert lines == [
        ["kernel", "mutants", "contract", "fixed"], ["merge", "2", "100.0%", "50.0%"], ["all", "2", "100.0%", "50.0%"]
    ]  # fmt: skip
