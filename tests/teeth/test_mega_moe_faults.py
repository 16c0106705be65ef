"""Every fault planted in ``mega_moe`` is killed, by the check that names it, on a pinned case of its contract."""

import pytest

from harness import registry
from harness.run import check_case, check_rejections
from tests.teeth.mega_moe_faults import FAULTS, MEGA
from tests.teeth.planting import implementation_with


def violations(planted, implementation):
    """The checks that ``implementation`` breaks, pinned case by pinned case, or in an illegal call."""
    contract = registry.contract(MEGA)
    if planted.check == "rejects:":
        yield from (violation.check for violation in check_rejections(contract, implementation).violations)
        return
    for case in contract.pinned[1:]:
        found = check_case(contract, implementation, case, only=planted.check)
        yield from (violation.check for violation in found.violations)


@pytest.mark.parametrize("planted", FAULTS, ids=str)
def test_the_named_check_kills(planted, tmp_path):
    registry.load(installed=False)
    with implementation_with(planted, tmp_path) as implementation:
        assert any(check.startswith(planted.check) for check in violations(planted, implementation))


def test_no_two_planted_faults_are_the_same():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
