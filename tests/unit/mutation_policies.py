"""What must hold of mutants of what stands around launches, and of kills in order; see ``mutation_checks``."""

import argparse
from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness import registry
from harness.contract import Policy
from harness.discover import SetupError
from tests.unit.mutation_checks import check, result
from tests.unit.mutation_fates import CHECKS

__all__ = ["CHECKS"]

#: What of ``harness.launch`` is mutated, besides the package, which hands things on.
_AROUND = ("harness.launch.grid_barrier", "harness.launch.grids", "harness.launch.sm_budget")


def _pairs(*names):
    registry.load(("kernels",), installed=False)
    return [(registry.contract(name), found) for name in names for found in registry.implementations(name)]


@check
def what_stands_around_launches_is_mutated_where_policies_judge_it(api):
    pairs = _pairs("ep_dispatch_combine", "mega_moe")
    found = {target.name: target for target in api.targets.targets(pairs, pairs)}
    assert {name for name in found if name.startswith("harness.")} == set(_AROUND)
    for name in _AROUND:
        assert found[name].modules == (name,)
        assert found[name].pairs == tuple(pairs)
        loaded = found[name].loaded
        assert loaded.index("harness.launch.sm_budget") < loaded.index("harness.launch.grids")
        assert loaded.index(name) < loaded.index("kernels.mega_moe")
    # the package is no target, and executed again between what it hands on and who imports that
    assert "harness.launch" in found["harness.launch.grids"].loaded
    # a module that the engine itself stands on is left alone
    assert not [name for name in found["mega_moe"].loaded if name in ("harness.launch.lease", "harness.device.targets")]
    silent = [(replace(contract, policies=tuple), implementation) for contract, implementation in pairs]
    assert not [target.name for target in api.targets.targets(silent, silent) if target.name.startswith("harness.")]
    alone = [pair for pair in silent if pair[0].name == "mega_moe"]
    assert not [name for target in api.targets.targets(alone, alone) for name in target.modules if "launch." in name]


@check
def policies_judge_what_they_are_about_once(api):
    pairs = _pairs("ep_dispatch_combine", "mega_moe")
    wanted = [policy.name for policy in pairs[0][0].policies()]
    found = api.plan.units(pairs, 0, 0)
    policies = [unit for unit in found if isinstance(unit.case, Policy)]
    assert wanted
    assert [unit.case.name for unit in policies] == wanted
    assert [unit.number for unit in found] == list(range(len(found)))
    assert api.plan.concerning(found, "harness.launch.grids") == found
    assert api.plan.concerning(found, "kernels.mega_moe") == [unit for unit in found if unit not in policies]
    # nothing compares their outputs, or asks them for a check of what a kernel does
    assert {(unit.deep, unit.target) for unit in policies} == {(True, None)}


@check
def a_policy_that_does_not_hold_kills(api):
    def failing():
        raise ZeroDivisionError("nothing is left")

    contract = SimpleNamespace(vast=())
    judging = api.judge.Judging(lane=None, oracles=None, find=lambda implementation: implementation)
    for right, message in (
        (lambda: (), None),
        (lambda: iter(["too wide", "more"]), "too wide"),
        (failing, "raised Zero"),
    ):
        policy = Policy(name="grids", right=right)
        unit = api.plan.Unit(contract, "merge-triton", policy, True, 0)
        kill = judging.run([unit], api.judge.Trusted(), lambda unit: None)
        assert (kill is None) == (message is None)
        if kill is not None:
            assert (kill.violation.check, kill.violation.message[: len(message)]) == ("policy:grids", message)
    assert api.plan.label(unit) == "merge-triton: Policy(name='grids')"
    red = api.judge.Trusted()
    red.add(api.judge.place(unit), judging.result(contract, "merge-triton", policy))
    assert judging.run([unit], red, lambda unit: None) is None


@check
def in_order_nothing_is_learned(api):
    """Neither what killed most, nor what killed this one, nor what launches nothing of what changed has a say."""
    made = [
        SimpleNamespace(number=number, implementation="merge-triton", name="Case()", case=1, deep=True, target=None)
        for number in range(3)
    ]
    order = api.plan.Order(learns=False)
    order.killed("f", made[2])
    told = api.results.Told(check="oracle:out", case="merge-triton: Case()")
    assert order.of("f", made[::-1], told) == made
    kept = api.child.frontend
    try:
        api.child.frontend = SimpleNamespace(digests=lambda modules: {"m.words": "2"})
        cases = [SimpleNamespace(number=n, implementation="merge-triton", case=n, target=None) for n in range(3)]
        kernels = {api.judge.place(cases[0]): frozenset({"m.bytes"})}
        bench = SimpleNamespace(units=cases, kernels=kernels, digests={"m.words": "1"}, in_order=True)
        assert api.child._promising(SimpleNamespace(device=True, modules=()), bench) == cases
    finally:
        api.child.frontend = kept


@check
def what_killed_earlier_is_of_no_use_in_order(api, folder):
    options = argparse.Namespace(in_order=True, earlier=folder / "results.jsonl")
    with pytest.raises(SetupError, match="--earlier would have no effect"):
        api.campaign.run(options, (), folder)


@check
def the_table_tells_how_soon_a_case_failed_by_the_order(api):
    seconds = (0.5, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 5.0, 9.0)
    learned = [
        result(api, str(number), cpu=cpu, units=number, case=f"Case(n={number})") for number, cpu in enumerate(seconds)
    ]
    planned = [replace(one, in_order=True, cpu=2 * one.cpu) for one in learned]
    assert api.results.Result.from_dict(planned[0].to_dict()) == planned[0]
    told = api.table.render([*planned, *learned])
    first = "TO THE FIRST FAILING CASE, in the order of the plan, 10 kills: "
    wanted = f"{first}median 1.10 s of a processor and 4 units, 90% within 10.00 s, all within 18.00 s; slowest:"
    assert wanted in told
    assert "TO THE FIRST FAILING CASE, those first that killed others, 10 kills: median 0.55 s of a processor" in told
    slowest = told.split(wanted)[1].splitlines()[1]
    assert slowest.strip().startswith("18.00 s, unit 9: ")
    assert slowest.endswith("on Case(n=9)")
    assert "in the order of the plan" not in api.table.render(learned)
