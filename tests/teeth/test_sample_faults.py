"""A weakened contract is red in the sample of mutants; and each fault planted in the sample is killed by its check."""

import importlib
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.mutation import draw, generate, judge, plan, rerun, results, sample, session, table
from harness.mutation.source import Module
from tests.teeth.mutation_faults import EngineFault
from tests.teeth.test_mutation_faults import COPY, api_with
from tests.teeth.test_mutation_faults import engine as engine  # a fixture
from tests.unit.mutation_sample import CHECKS

MODULES = {
    "draw": draw, "judge": judge, "plan": plan, "rerun": rerun, "results": results, "sample": sample,
    "session": session, "table": table,
}  # fmt: skip
VICTIM = Path(__file__).parents[1] / "unit" / "mutation_victim.py"

FAULTS = (
    EngineFault(
        "units are asked from the first", "rerun.py",
        "outcome = session.first_kill(name, made[one.mark], [unit], math.inf)",
        "outcome = session.first_kill(name, made[one.mark], session.units(name), math.inf)",
        "what_killed_a_mutant_is_asked_alone",
    ),
    EngineFault(
        "a survivor is counted as killed", "rerun.py",
        "        if outcome.status.killed:\n            killed += 1", "        if outcome:\n            killed += 1",
        "a_survivor_is_named_with_what_killed_it",
    ),
    EngineFault(
        "no other unit is asked", "rerun.py",
        "if unit is None or not outcome.status.killed:", "if unit is None:",
        "another_unit_may_kill_instead",
    ),
    EngineFault(
        "a case is taken for drawn", "rerun.py",
        'words = "nothing pins or draws it"', 'words = "all its checks pass"',
        "a_case_that_nothing_draws_any_more_is_not_made_up",
    ),
    EngineFault(
        "mutants that are gone are passed over", "rerun.py",
        "for one in entries if one.mark and one.mark not in made]", "for one in entries if not one.mark]",
        "what_is_out_of_date_is_red_with_the_command",
    ),
    EngineFault(
        "a kernel may have no sample", "rerun.py",
        "    if not entries:\n", "    if entries is None:\n",
        "what_is_out_of_date_is_red_with_the_command",
    ),
    EngineFault(
        "the last of two alike is taken", "sample.py",
        " if mark not in twice}", "}",
        "a_change_that_a_function_has_twice_is_in_no_sample",
    ),
    EngineFault(
        "features of one kill are needed", "draw.py",
        "common = _features(unit) if common is None else common & _features(unit)", "common = _features(unit)",
        "a_feature_that_all_kills_have_is_needed",
    ),
    EngineFault(
        "mutants are taken as they come", "draw.py",
        "best = max(found, key=lambda one: (_gain(levels, one.outcome.needs), label(_unit(one)) not in cases))",
        "best = found[0]",
        "what_one_feature_alone_finds_is_taken_first",
    ),
    EngineFault(
        "what other operators need is taken for known", "draw.py",
        "for one in kept if not operators or one.operator in operators])", "for one in kept])",
        "what_other_operators_need_stands_for_none_that_is_asked_for",
    ),
    EngineFault(
        "values alone judge", "draw.py",
        "if not _is_values(unit)], until):", "if False], until):",
        "a_check_that_alone_kills_is_needed_too",
    ),
    EngineFault(
        "a record judges, too", "draw.py",
        '_RECORDED = ("traffic",)', "_RECORDED = ()",
        "what_compares_with_a_record_draws_nothing",
    ),
    EngineFault(
        "what triton refuses is drawn", "draw.py",
        ' or (mutant.device and outcome.check == "raises")', "",
        "a_launch_that_triton_may_refuse_is_not_drawn",
    ),
    EngineFault(
        "what differs from the baseline is a kill like others", "table.py",
        "result.status.killed and not _by_baseline(result) for", "result.status.killed for",
        "kills_by_what_is_committed_are_told_apart",
    ),
    EngineFault(
        "the fastest kills are named", "table.py",
        "kills[::-1][:_SLOWEST]", "kills[:_SLOWEST]",
        "the_slowest_kills_are_named",
    ),
    EngineFault(
        "what survived takes part in the time of kills", "table.py",
        "if r.status is Status.KILLED and r.in_order is in_order", "if r.in_order is in_order",
        "the_slowest_kills_are_named",
    ),
    EngineFault(
        "survivors are kept", "draw.py",
        "            return replace(one, check=outcome.check, case=label(unit), deep=unit.deep)\n    return None",
        "            return replace(one, check=outcome.check, case=label(unit), deep=unit.deep)\n    return one",
        "what_still_holds_is_kept",
    ),
)  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_check(name, tmp_path):
    CHECKS[name](SimpleNamespace(**MODULES), tmp_path)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path, engine):
    (tmp_path / "files").mkdir()
    with api_with(fault, tmp_path, engine):
        modules = {name: module.__name__.replace("harness.mutation", COPY) for name, module in MODULES.items()}
        api = SimpleNamespace(**{name: importlib.import_module(copy) for name, copy in modules.items()})
        with pytest.raises((AssertionError, TypeError)):
            CHECKS[fault.check](api, tmp_path / "files")


def test_no_two_planted_faults_are_the_same():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)


def test_a_weakened_contract_is_red_and_the_mutant_named(tmp_path, monkeypatch, capsys):
    """Values of a length that fills its blocks are all that is left: nothing sees a mask that lets one lane more in."""
    sound = VICTIM.read_text().replace('"side": x * 3', '"side": x * 4').replace("mutation_victim", "weakened")
    weak = sound.replace("n=st.integers(1, 40)", "n=st.just(16)").replace("(Case(n=3), Case(n=17))", "(Case(n=16),)")
    assert weak.count("16") == sound.count("16") + 2
    (tmp_path / "weakened.py").write_text(weak)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    made = generate.mutants([Module("weakened", "weakened.py", weak)])
    killed = {"x * 2.0": "x", "place < n": "place <= n"}
    chosen = [one for one in made if killed.get(one.before) == one.after]
    assert len(chosen) == 2
    case = "weakened-triton: Case(n=17)"
    entries = [sample.entry("weakened", one, check="oracle:out", case=case, deep=False, needs=()) for one in chosen]
    sample.write(tmp_path / rerun.SAMPLE, entries)
    options = Namespace(kernels=[], jobs=1, renew=False, limit=None)
    assert not rerun.run(options, ["weakened"], tmp_path)
    shown = capsys.readouterr().out
    assert "SURVIVED weakened: weakened.py double comparison: place < n -> place <= n" in shown
    assert "killed by oracle:out on weakened-triton: Case(n=17); now nothing pins or draws it" in shown
    assert "1 of 2 mutants of ci/mutants.jsonl killed" in shown
