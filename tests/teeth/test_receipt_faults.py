"""Every fault planted in receipts is killed by the check that names it."""

import pytest

from tests.teeth.receipt_faults import FAULTS
from tests.teeth.rooms import api_with
from tests.unit.receipt_checks import CHECKS

MODULES = ("check", "record", "sources", "whole")
#: A check fails by an assertion, or by an exception that did not come.
KILLED = (AssertionError, pytest.fail.Exception, ValueError, TypeError)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path):
    with api_with(fault, MODULES, tmp_path) as api, pytest.raises(KILLED):
        CHECKS[fault.check](api, tmp_path)


def test_every_refusal_kills_some_fault():
    assert CHECKS.keys() - {fault.check for fault in FAULTS} == {"a_whole_run_is_verified"}


def test_no_two_planted_faults_are_the_same():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
