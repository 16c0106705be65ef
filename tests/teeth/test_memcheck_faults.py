"""Every fault planted in the sanitizer lane is killed by the check that names it."""

import pytest

from tests.teeth.memcheck_faults import FAULTS
from tests.teeth.rooms import api_with
from tests.unit.memcheck_checks import CHECKS

MODULES = ("_child", "command", "judge", "lane", "stream")


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path):
    with api_with(fault, MODULES, tmp_path) as api, pytest.raises(AssertionError):
        CHECKS[fault.check](api)


def test_every_check_kills_some_fault():
    assert CHECKS.keys() - {fault.check for fault in FAULTS} == {"a_clean_run_passes"}


def test_no_two_planted_faults_are_the_same():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
