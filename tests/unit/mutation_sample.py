"""What must hold of the sample of mutants; a check is called with the modules to judge, and a folder to write to."""

from dataclasses import replace
from types import SimpleNamespace

from harness.contract import Contract, Implementation
from harness.mutation.source import Mutant
from harness.outcome import Violation
from harness.tolerance import Exact

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


CONTRACT = Contract(
    name="merge", cases=lambda: None, inputs=None, oracle=None, tolerance={"out": Exact()}, features=frozenset
)


def mutant(before, after="pass", *, device=False):
    return Mutant(
        module="kernels.merge", file="kernels/merge.py", line=1, operator="bound", function="kernel", device=device,
        before=before, after=after, source=after, original=before,
    )  # fmt: skip


class Judge:
    """A session, and what judges in it: of units that are (features, deep) those kill whose number ``kills`` names."""

    def __init__(self, api, units, kills, *, unsound=(), name="merge", check="oracle:out"):
        implementation = Implementation(contract="merge", name="triton", launch=lambda: None)
        self.api, self.kills, self.unsound, self.check = api, kills, unsound, check
        self.own = [
            api.plan.Unit(CONTRACT, implementation, tuple(features), deep, number)
            for number, (features, deep) in enumerate(units)
        ]
        self.targets, self.made, self.asked = {name: None}, [mutant(before) for before in kills], []

    def mutants(self, name):
        return self.made

    def units(self, name):
        return self.own

    def unit(self, name, case, *, deep):
        return next((unit for unit in self.own if (self.api.plan.label(unit), unit.deep) == (case, deep)), None)

    def sound(self, unit):
        return unit.number not in self.unsound

    def _kill(self, mutant, unit):
        self.asked.append((mutant.before, unit.number))
        return unit.number in self.kills[mutant.before]

    def first_kill(self, name, mutant, units, seconds):
        for unit in units:
            if self._kill(mutant, unit) and self.sound(unit):
                return self._outcome(status="KILLED", unit=unit, check=self.check)
        return self._outcome(status="SURVIVED")

    def tried(self, name, mutant, units, work):
        def run(units, trusted, progress):
            for unit in units:
                if self._kill(mutant, unit):
                    return self.api.judge.Kill(unit, Violation(self.check, "wrong"))
            return None

        plain = work(SimpleNamespace(run=run), units, lambda unit: None)
        unit = self.own[plain.pop("unit")] if "unit" in plain else None
        return self._outcome(**{**plain, "unit": unit, "needs": tuple(plain.get("needs", ()))})

    def _outcome(self, *, status, **fields):
        return self.api.session.Outcome(status=self.api.results.Status(status), **fields)


def _entry(api, judge, before, number, **fields):
    found = next(one for one in judge.made if one.before == before)
    unit = judge.own[number]
    plain = {"check": "oracle:out", "case": api.plan.label(unit), "deep": unit.deep, "needs": (), **fields}
    return api.sample.entry("merge", found, **plain)


def _again(api, judge, entries):
    api.rerun._sessions[:] = [judge]
    return api.rerun.try_again("merge", entries)


@check
def what_killed_a_mutant_is_asked_alone(api, folder):
    judge = Judge(api, [((), False), (("wide",), False)], {"a": {1}})
    tried = _again(api, judge, [_entry(api, judge, "a", 1)])
    assert (tried.killed, tried.survived, tried.stale) == (1, (), ())
    assert judge.asked == [("a", 1)]


@check
def a_survivor_is_named_with_what_killed_it(api, folder):
    judge = Judge(api, [((), False), (("wide",), False)], {"a": set()})
    tried = _again(api, judge, [_entry(api, judge, "a", 1, needs=("merge: wide",))])
    assert (tried.killed, len(tried.survived)) == (0, 1)
    line = tried.survived[0]
    assert "SURVIVED merge: kernels/merge.py kernel bound: a -> pass" in line
    assert "merge-triton: ('wide',)" in line
    assert "merge: wide" in line


@check
def another_unit_may_kill_instead(api, folder):
    judge = Judge(api, [((), False), (("wide",), False)], {"a": {0}})
    tried = _again(api, judge, [_entry(api, judge, "a", 1)])
    assert (tried.killed, tried.survived) == (1, ())


@check
def a_case_that_nothing_draws_any_more_is_not_made_up(api, folder):
    judge = Judge(api, [((), False), (("wide",), False)], {"a": {1}})
    entry = _entry(api, judge, "a", 1)
    del judge.own[1]
    (line,) = _again(api, judge, [entry]).survived
    assert "nothing pins or draws it" in line


@check
def what_the_original_fails_kills_nothing(api, folder):
    judge = Judge(api, [((), False)], {"a": {0}}, unsound={0})
    assert len(_again(api, judge, [_entry(api, judge, "a", 0)]).survived) == 1
    assert [one.mark for one in api.draw.renewed(judge, "merge", [], None)] == [""]


@check
def what_is_out_of_date_is_red_with_the_command(api, folder):
    judge = Judge(api, [((), False)], {"a": {0}})
    entry = _entry(api, judge, "a", 0)
    judge.made = [mutant("b")]
    tried = _again(api, judge, [entry])
    assert tried.stale == ("merge: no such mutant now: kernels/merge.py kernel bound: a -> pass",)
    assert _again(api, judge, []).stale == ("merge: no mutant in the sample",)
    assert _again(api, judge, [api.sample.none("merge", 1)]).stale == ()


@check
def a_change_that_a_function_has_twice_is_in_no_sample(api, folder):
    judge = Judge(api, [((), False)], {"a": {0}, "b": {0}})
    judge.made.append(mutant("a", "pass"))
    assert set(api.sample.once(judge.made)) == {mutant("b").mark}


@check
def a_feature_that_all_kills_have_is_needed(api, folder):
    units = [((), False), (("wide", "strided"), False), (("wide", "plain"), False), (("strided",), False)]
    judge = Judge(api, units, {"wide": {1, 2}, "both": {1}, "any": {0, 1, 2, 3}})
    found = {one.change: one.needs for one in api.draw.renewed(judge, "merge", [], None)}
    assert found.get("wide -> pass") == ("merge: wide",)
    judge = Judge(api, units, {"both": {1}, "any": {0, 1, 2, 3}})
    found = {one.change: one.needs for one in api.draw.renewed(judge, "merge", [], None)}
    assert found == {"both -> pass": ("merge: strided", "merge: wide"), "any -> pass": ()}


@check
def what_one_feature_alone_finds_is_taken_first(api, folder):
    units = [((), False), (("a", "b"), False), (("a",), False), (("b",), False), (("c",), True)]
    kills = {"a": {1, 2}, "b": {1, 3}, **{f"plain {n}": {0} for n in range(7)}}
    found = api.draw.renewed(Judge(api, units, kills), "merge", [], None)
    assert len(found) == api.draw.size(9) == 2
    assert {one.change for one in found} == {"a -> pass", "b -> pass"}


@check
def what_other_operators_need_stands_for_none_that_is_asked_for(api, folder):
    units = [((), False), (("a", "b"), False), (("b",), False)]
    judge = Judge(api, units, {"kept": {1}, "new": {1}})
    judge.made[1] = replace(judge.made[1], operator="rescale")
    kept = [_entry(api, judge, "kept", 1, needs=("merge: a", "merge: b"))]
    found = api.draw.renewed(judge, "merge", kept, None, ["rescale"])
    assert [one.change for one in found] == ["kept -> pass", "new -> pass"]
    judge.made[1] = replace(judge.made[1], operator="bound")
    assert api.draw.renewed(judge, "merge", kept, None, ["bound"]) == kept


@check
def a_check_that_alone_kills_is_needed_too(api, folder):
    judge = Judge(api, [((), False), ((), True)], {"a": {1}}, check="race:out")
    (found,) = api.draw.renewed(judge, "merge", [], None)
    assert (found.deep, found.check, found.needs) == (True, "race:out", ("merge: check race:out",))


@check
def what_compares_with_a_record_draws_nothing(api, folder):
    judge = Judge(api, [((), False), ((), True)], {"a": {0, 1}}, check="traffic")
    assert [one.mark for one in api.draw.renewed(judge, "merge", [], None)] == [""]


@check
def a_launch_that_triton_may_refuse_is_not_drawn(api, folder):
    judge = Judge(api, [((), False)], {"a": {0}}, check="raises")
    judge.made = [mutant("a", device=True)]
    assert [one.mark for one in api.draw.renewed(judge, "merge", [], None)] == [""]


@check
def what_still_holds_is_kept(api, folder):
    judge = Judge(api, [((), False), (("wide",), False)], {name: {0} for name in "abcdefgh"})
    kept = [_entry(api, judge, "g", 0), _entry(api, judge, "h", 1)]
    judge.kills["h"] = {0}
    found = api.draw.renewed(judge, "merge", kept, None)
    assert [one.change for one in found] == ["g -> pass", "h -> pass"]
    assert found[1].case == api.plan.label(judge.own[0])
    judge.kills["g"] = set()
    assert "g -> pass" not in {one.change for one in api.draw.renewed(judge, "merge", kept, None)}


def _results(api, *fields):
    plain = {
        "kernel": "merge", "file": "kernels/merge.py", "line": 3, "operator": "bound", "function": "kernel",
        "before": "a", "after": "b", "diff": "", "status": api.results.Status.KILLED, "lane": "virtual GPU",
    }  # fmt: skip
    return [api.results.Result(**{**plain, "key": f"k{number}", **own}) for number, own in enumerate(fields)]


@check
def kills_by_what_is_committed_are_told_apart(api, folder):
    found = _results(api, {}, {"lane": "baseline"}, {"status": api.results.Status.SURVIVED})
    assert api.table.headline(found).startswith("2 of 3 mutants killed (66.7%), 1 (33.3%) without the baseline; ")
    assert "without" not in api.table.headline(found[::2])


@check
def the_slowest_kills_are_named(api, folder):
    slow = [{"cpu": float(n), "units": 100 + n} for n in range(1, 21)]
    found = _results(api, *slow, {"cpu": 99.0, "status": api.results.Status.SURVIVED})
    shown = api.table.render(found)
    told = "20 kills: median 10.50 s of a processor and 110 units, 90% within 18.00 s, all within 20.00 s; slowest:\n"
    assert f"{told}  20.00 s, unit 120:" in shown
    assert "11.00 s, unit 111" in shown
    assert "10.00 s, unit 110" not in shown


@check
def a_file_is_read_as_it_was_written(api, folder):
    judge = Judge(api, [((), False)], {"b": {0}, "a": {0}})
    entries = [_entry(api, judge, name, 0, needs=("merge: wide",)) for name in "ab"]
    api.sample.write(folder / "ci" / "mutants.jsonl", entries)
    assert set(api.sample.read(folder / "ci" / "mutants.jsonl")) == set(entries)
    assert api.sample.read(folder / "nothing.jsonl") == []
