"""What must hold of what stands around launches with a grid barrier is asked by searches, and told like a fault."""

import pytest
import torch
from hypothesis import strategies as st

from harness import registry, replay
from harness.contract import Contract, Implementation, Policy
from harness.discover import SetupError
from harness.launch import sm_budget
from harness.launch.physical import Described, physical_from
from harness.policies import BARRIERS
from harness.run import check_policies
from harness.search import search
from harness.tolerance import Exact


@pytest.mark.parametrize("policy", BARRIERS, ids=lambda policy: policy.name)
def test_it_holds(policy):
    assert check_policies([policy]).violations == []


def test_both_contracts_with_grid_barriers_ask():
    registry.load(("kernels",), installed=False)
    for name in ("mega_moe", "ep_dispatch_combine"):
        assert registry.contract(name).policies() == BARRIERS


def _raising():
    yield from ()
    raise ZeroDivisionError("no units")


def _setting():
    sm_budget.set_num_sms(4)
    return ()


def test_the_first_thing_that_is_wrong_is_told_and_what_raises_is_wrong():
    policies = [
        Policy(name="right", right=lambda: ()),
        Policy(name="wrong", right=lambda: iter(["too wide", "too narrow"])),
        Policy(name="raises", right=_raising),
    ]
    result = check_policies(policies)
    assert result.checks_run == {"policy:right", "policy:wrong", "policy:raises"}
    found = {violation.check: violation for violation in result.violations}
    assert list(found) == ["policy:wrong", "policy:raises"]
    assert found["policy:wrong"].message == "too wide"
    assert found["policy:wrong"].case == "Policy(name='wrong')"
    assert found["policy:raises"].message.startswith("raised ZeroDivisionError: no units")


def test_what_a_policy_sets_is_nobody_elses():
    with physical_from(Described(12)):
        check_policies([Policy(name="sets", right=_setting)])
        assert sm_budget.current_budget() is None


def _contract(right):
    return Contract(
        name="with_policy", cases=lambda: st.just(4), pinned=(4,),
        policies=lambda: (Policy(name="grids", right=right),),
        inputs=lambda case, device, poison: {"x": torch.zeros(case, device=device)},
        oracle=lambda x: {"out": x + 1}, tolerance={"out": Exact()},
    )  # fmt: skip


def _add(x):
    return x + 1


def test_a_search_asks_and_reports_it_with_the_text_that_runs_it_again(own_registry):
    contract = _contract(lambda: ["too wide"])
    implementation = Implementation(contract=contract.name, name="torch", launch=_add)
    report = search(contract, implementation, examples=1)
    assert [(fault.check, fault.message, fault.case) for fault in report.faults] == [
        ("policy:grids", "too wide", "Policy(name='grids')")
    ]
    registry.register(contract)
    registry.implements(contract.name, name="torch")(_add)
    said = []
    assert replay.run(contract.name, "Policy(name='grids')", impl=None, write=said.append) == 1
    assert said[0] == "FAIL with_policy torch policy:grids\n"
    with pytest.raises(SetupError, match=r"has no policy called 'other'; there are: grids"):
        replay.run(contract.name, "Policy(name='other')", impl=None, write=said.append)


def test_one_that_holds_is_a_check_that_passes(own_registry):
    contract = _contract(lambda: ())
    report = search(contract, Implementation(contract=contract.name, name="torch", launch=_add), examples=1)
    assert report.faults == []
    assert report.checks["policy:grids"].examples == 1
