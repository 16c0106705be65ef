"""Every fault planted in expert parallelism is killed: by the contract, or by the check of its launches named there."""

import importlib

import pytest

from harness.launch import DoesNotFit
from harness.launch.physical import NoDevice
from harness.run import check_case, check_rejections
from harness.vgpu import KernelFault
from tests.teeth.ep_faults import FAULTS, LAUNCH_FAULTS, NEEDS
from tests.teeth.planting import COPY, implementation_with
from tests.unit.contract_cases import contract, drawn
from tests.unit.ep_checks import CHECKS

#: Cases after the pinned ones among which one must show a fault; the ``ci`` profile looks at 100.
CASES = 100


def kills(fault, implementation):
    """Whether the fault's check, or one that begins so, fails in some case; nothing that it does not need is run."""
    of, needs = contract(fault.contract), NEEDS.get(fault.name)
    if fault.check.startswith("rejects:"):
        results = [check_rejections(of, implementation)]
    else:
        cases = [case for case in (*of.pinned, *drawn(of.name, CASES)) if needs is None or needs in of.features(case)]
        results = (check_case(of, implementation, case, only=fault.check) for case in cases)
    return any(violation.check.startswith(fault.check) for result in results for violation in result.violations)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_contract_kills(fault, tmp_path):
    contract(fault.contract)
    with implementation_with(fault, tmp_path) as implementation:
        assert kills(fault, implementation)


@pytest.mark.parametrize("fault", LAUNCH_FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path):
    with implementation_with(fault, tmp_path):
        api, launch = (importlib.import_module(f"{COPY}.{name}") for name in ("ep_dispatch_combine", "_ep_launch"))
        # a refusal that does not come is reported by pytest.raises as a failure of its own
        with pytest.raises((AssertionError, pytest.fail.Exception, KernelFault, DoesNotFit, NoDevice)):
            CHECKS[fault.check](api, launch)


def test_every_check_kills_some_fault():
    assert CHECKS.keys() == {fault.check for fault in LAUNCH_FAULTS}


def test_every_need_is_that_of_a_fault():
    assert NEEDS.keys() <= {fault.name for fault in FAULTS}


def test_no_two_planted_faults_are_the_same():
    faults = (*FAULTS, *LAUNCH_FAULTS)
    assert len({(fault.file, fault.old, fault.new) for fault in faults}) == len(faults)
