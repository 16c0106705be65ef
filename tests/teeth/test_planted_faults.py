"""Every planted fault is killed, by the check that names it, with the examples of the ``ci`` profile."""

from pathlib import Path

import pytest

from harness import registry
from harness.hunt import Fault
from harness.profiles import EXAMPLES
from harness.search import search
from tests.teeth import attention_faults, logits_faults, moe_faults, scatter_faults
from tests.teeth.planting import Planted, implementation_with

FAULTS = (*moe_faults.FAULTS, *attention_faults.FAULTS, *logits_faults.FAULTS, *scatter_faults.FAULTS)


class _Killed(BaseException):
    """Ends a search at the first fault of the wanted check."""


@pytest.mark.parametrize("planted", FAULTS, ids=str)
def test_the_named_check_kills(planted: Planted, tmp_path: Path) -> None:
    registry.load()
    found = []

    def stop_at_the_named_check(fault: Fault) -> None:
        found.append(fault.check)
        if fault.check.startswith(planted.check):
            raise _Killed

    with implementation_with(planted, tmp_path) as implementation:
        try:
            search(
                registry.contract(planted.contract),
                implementation,
                examples=EXAMPLES["ci"],
                pinned=False,
                on_fault=stop_at_the_named_check,
                shrink_seconds=0.0,
            )
        except _Killed:
            return
    pytest.fail(f"{planted.check} did not kill it; faults found: {found}")


def test_no_two_planted_faults_are_the_same() -> None:
    changes = {(fault.file, fault.old, fault.new, fault.implementation) for fault in FAULTS}
    assert len(changes) == len(FAULTS)
