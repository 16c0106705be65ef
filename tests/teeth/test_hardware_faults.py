"""Every fault planted in isolation, targets, emulation and the device lane is killed by the check that names it."""

import pytest

from harness.lanes import Busy, NoRoom
from harness.outcome import ContractError
from tests.teeth import hardware_faults, placing_faults, suite_faults, worker_faults
from tests.teeth.rooms import api_with
from tests.unit import device_lane_checks, device_suite_checks, hardware_checks, placing_checks, worker_checks

MODULES = (
    "_worker", "crew", "emulation", "isolation", "lane", "launches", "marks", "memory", "placing", "pool", "probe",
    "room", "selection", "sizes", "suite", "worker", "workloads",
)  # fmt: skip
FAULTS = worker_faults.FAULTS + hardware_faults.FAULTS + placing_faults.FAULTS + suite_faults.FAULTS
CHECKS = (
    hardware_checks.CHECKS
    | worker_checks.CHECKS
    | device_lane_checks.CHECKS
    | placing_checks.CHECKS
    | device_suite_checks.CHECKS
)
#: A check fails by an assertion, or by an exception that did not come or that another one stands for.
KILLED = (AssertionError, pytest.fail.Exception, RuntimeError, MemoryError, Busy, NoRoom, ContractError)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path):
    with api_with(fault, MODULES, tmp_path) as api, pytest.raises(KILLED):
        CHECKS[fault.check](api)


def test_every_check_kills_some_fault():
    assert {fault.check for fault in FAULTS} == set(CHECKS)
