"""Every fault planted in the capture lint's rules is killed by the check that names it."""

import pytest

from harness.outcome import ContractError
from tests.teeth.capture_faults import FAULTS
from tests.teeth.rooms import api_with
from tests.unit import graph_checks, reach_checks

MODULES = ("cases", "lint", "reach", "suite")
CHECKS = graph_checks.CHECKS | reach_checks.CHECKS
#: A check fails by an assertion, or by an exception that did or did not come.
KILLED = (AssertionError, pytest.fail.Exception, ContractError)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path):
    with api_with(fault, MODULES, tmp_path) as api, pytest.raises(KILLED):
        CHECKS[fault.check](api)


def test_every_check_kills_some_fault():
    assert {fault.check for fault in FAULTS} == set(CHECKS)
