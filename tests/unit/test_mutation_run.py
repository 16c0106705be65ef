"""One worker, and every fate that a mutant can have."""

import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from harness import registry
from harness.lanes import VirtualLane
from harness.mutation import plan, pool
from harness.mutation.cache import Cache, digest
from harness.mutation.install import NotImportable, current, installed
from harness.mutation.results import Status
from harness.mutation.source import Mutant
from harness.mutation.targets import Target, source, targets
from harness.run import check_case

ROOT = Path(__file__).parents[2]
MODULE = "tests.unit.mutation_victim"
SETTINGS = pool.Settings(modules=(MODULE,), folder=ROOT, examples=1, silence=5.0, warm=0)

#: Name -> (is it in device code, text, what it becomes).
MUTANTS = {
    "wrong value": (True, "x * 2.0", "x * 3.0"),
    "wrong where the original is wrong": (True, "x * 4.0", "x * 5.0"),
    "refused by the compiler": (True, "x * 2.0", "tl.reshape(x, (3, 5))"),
    "not importable": (False, "@triton.jit", "1 / 0\n@triton.jit"),
    "hangs": (False, "block = 4 * 4", "block = 16\n    import time\n    time.sleep(1000)"),
    "dies": (False, "block = 4 * 4", "block = 16\n    import os\n    os._exit(3)"),
    "same instructions": (False, "block = 4 * 4", "block = 8 * 2"),
    "same IR": (True, "x * 2.0", "x * (1.0 + 1.0)"),
    "masked-off lanes": (True, "other=0.0", "other=7.0"),
    "another way to double": (True, "x * 2.0", "x * 4.0 * 0.5"),
    "same where a stride is 1": (True, "place * stride", "place"),
    "same in small blocks": (True, "BLOCK >= _WIDE", "BLOCK > _WIDE"),
    "more programs": (False, "triton.cdiv(len(x), block)", "triton.cdiv(len(x), block) + 1"),
}


@pytest.fixture(scope="module")
def target():
    registry.load((MODULE,), installed=False)
    contract = registry.contract("mutation_victim")
    pairs = [(contract, implementation) for implementation in registry.implementations(contract.name)]
    (found,) = targets(pairs, pairs)
    return found


def mutant(target, name):
    device, old, new = MUTANTS[name]
    original = source(target.modules[0], ROOT)
    assert original.text.count(old) == 1
    return Mutant(
        module=original.name,
        file=original.file,
        line=1,
        operator="by hand",
        function=name,
        device=device,
        before=old,
        after=new,
        source=original.text.replace(old, new),
        original=original.text,
    )


@pytest.fixture(scope="module")
def red():
    """What failed on the original while ``fates`` were made."""
    return []


@pytest.fixture(scope="module")
def fates(target, red):
    found = {}

    def keep(result):
        found[result.function] = result

    work = [(target, [mutant(target, name) for name in MUTANTS])]
    pool.run_all(work, SETTINGS, until=float("inf"), on_result=keep, on_red=red.append)
    return found


@pytest.mark.parametrize(
    ("name", "status", "check", "says"),
    [
        ("wrong value", Status.KILLED, "oracle:out", "out: "),
        ("wrong where the original is wrong", Status.SURVIVED, "", "side: "),
        ("refused by the compiler", Status.INVALID, "", "Triton refuses it"),
        ("not importable", Status.INVALID, "", "ZeroDivisionError on import"),
        ("hangs", Status.TIMEOUT, "process", "silent for "),
        ("dies", Status.CRASH, "process", "ended with status 3"),
        ("same instructions", Status.EQUIVALENT, "", "the same instructions"),
        ("same IR", Status.EQUIVALENT, "", "Triton's IR is the same"),
        ("masked-off lanes", Status.EQUIVALENT, "", "nothing depends on the lanes"),
        ("same where a stride is 1", Status.SURVIVED, "", "but not where stride is not 1"),
        ("same in small blocks", Status.SURVIVED, "", "but not with BLOCK=64"),
        ("more programs", Status.KILLED, "baseline", ""),
        ("another way to double", Status.SURVIVED, "", "launch it; the shortest: mutation_victim-triton: Case(n=3)"),
    ],
)
def test_each_fate_is_told_apart(fates, name, status, check, says):
    result = fates[name]
    assert (result.status, result.check) == (status, check), result
    assert says in (result.message or result.reason)


def test_a_kill_names_the_case_and_a_survivor_the_nearest_case_that_shows_it(fates):
    assert fates["wrong value"].case == "mutation_victim-triton: Case(n=3)"
    assert fates["wrong where the original is wrong"].nearest == "mutation_victim-triton: Case(n=3)"
    assert fates["another way to double"].nearest == ""


def test_what_fails_on_the_original_is_told_once(fates, red):
    told = [(one.kernel, one.check, one.case) for one in red]
    assert ("mutation_victim", "oracle:side", "mutation_victim-triton: Case(n=3)") in told
    assert {check for _, check, _ in told} == {"oracle:side"}
    assert len(set(told)) == len(told)


def test_the_same_cases_judge_every_time_pinned_ones_first(target):
    contract = target.pairs[0][0]
    found = plan.cases(contract, 5, 0)
    assert found == plan.cases(contract, 5, 0)
    assert found[: len(contract.pinned)] == list(contract.pinned)
    assert len(set(found)) == len(contract.pinned) + 5
    assert plan.cases(contract, 5, 1) != found


def test_every_implementation_runs_every_case_and_drawn_ones_take_turns_with_the_costly_checks(target):
    (contract, implementation) = target.pairs[0]
    other = replace(implementation, name="other")
    units = plan.units([(contract, implementation), (contract, other)], 4, 0)
    here = [unit for unit in units if unit.target is None]
    shallow = [(unit.implementation.name, unit.case) for unit in here if not unit.deep and unit.case is not None]
    assert len(shallow) == len(set(shallow)) == 2 * (len(contract.pinned) + 4)
    deep = Counter((unit.implementation.name, unit.case in contract.pinned) for unit in units if unit.deep)
    assert deep == {("triton", True): 2, ("other", True): 2, ("triton", False): 2, ("other", False): 2}
    assert [unit.number for unit in units] == list(range(len(units)))
    assert sum(unit.case is None for unit in units) == 2
    away = Counter(unit.target.marker for unit in units if unit.target is not None)
    assert away == dict.fromkeys(("sm90", "sm100", "gfx950"), 2 * len(contract.pinned))


def test_without_time_every_mutant_is_skipped(target):
    found = []
    now = time.monotonic()
    pool.run(target, [mutant(target, "wrong value")], SETTINGS, until=now, on_result=found.append)
    assert [result.status for result in found] == [Status.SKIPPED]


def test_a_worker_that_cannot_start_says_why(target):
    broken = pool.Settings(modules=("tests.unit.absent",), folder=ROOT)
    with pytest.raises(pool.WorkerError, match="absent"):
        pool.run(target, [mutant(target, "dies")], broken, until=float("inf"), on_result=print)


def test_an_installed_mutant_is_what_runs_and_the_original_comes_back(target):
    (contract, implementation), module = target.pairs[0], sys.modules[MODULE]
    before, registered = dict(vars(module)), dict(registry._implementations)

    def failures():
        result = check_case(
            contract, current(implementation), contract.pinned[0], lane=VirtualLane(), only="oracle:out"
        )
        return [violation.check for violation in result.violations]

    assert failures() == ["oracle:side"]
    with installed(MODULE, mutant(target, "wrong value").source, target.loaded):
        assert failures() == ["oracle:out", "oracle:side"]
        assert registry._implementations is not registered
    assert failures() == ["oracle:side"]
    assert vars(module) == before
    assert registry._implementations == registered


def test_a_module_that_fails_on_import_leaves_the_original_behind(target):
    before = dict(vars(sys.modules[MODULE]))
    with pytest.raises(NotImportable), installed(MODULE, "1 / 0", target.loaded):
        pass
    assert vars(sys.modules[MODULE]) == before


def test_a_kept_result_is_found_until_something_that_judges_changes(target, fates, tmp_path, monkeypatch):
    wanted = fates["wrong value"]
    Cache(tmp_path, target, SETTINGS).put(wanted)
    assert Cache(tmp_path, target, SETTINGS).get(wanted.key) == wanted
    assert Cache(tmp_path, target, SETTINGS).get("another") is None
    other = pool.Settings(modules=(MODULE,), folder=ROOT, examples=2, silence=10.0)
    assert Cache(tmp_path, target, other).get(wanted.key) is None
    (fewer,) = [Target(name=target.name, modules=target.modules, loaded=(), pairs=target.pairs)]
    assert digest(fewer, SETTINGS) != digest(target, SETTINGS)
