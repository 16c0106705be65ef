"""Every fault planted in the capture lint's rules is killed by the check that names it."""

import pytest

from tests.teeth.capture_faults import FAULTS
from tests.teeth.rooms import api_with
from tests.unit.graph_checks import CHECKS

MODULES = ("lint", "suite")


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path):
    with api_with(fault, MODULES, tmp_path) as api, pytest.raises(AssertionError):
        CHECKS[fault.check](api)


def test_every_check_kills_some_fault():
    assert {fault.check for fault in FAULTS} == set(CHECKS)
