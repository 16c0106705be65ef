"""Every fault planted in the grid barrier is killed by the policy that names it."""

from pathlib import Path

import pytest

from harness import policies
from harness.launch import grid_barrier
from harness.mutation.install import installed
from harness.policies import barrier
from harness.run import check_policies
from tests.teeth.barrier_faults import FAULTS

SOURCE = Path(grid_barrier.__file__).read_text()
POLICIES = {policy.name: policy for policy in policies.BARRIERS}
#: What policies of the barrier itself ask that no fault here is about: `test_policy_faults` has a mutant of each.
OTHERS = {"phases may come to nearly 2 to the 30", "a block looks as often as it may"}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_policy_kills(fault):
    found = SOURCE.count(fault.old)
    assert found == fault.count, f"{fault.old!r} stands {found} times"
    with installed(grid_barrier.__name__, SOURCE.replace(fault.old, fault.new), ()):
        assert check_policies([POLICIES[fault.policy]]).violations


def test_every_policy_of_the_barrier_kills_some_fault():
    own = {right.__name__.replace("_", " ") for right in barrier.RIGHT}
    assert own - OTHERS < {fault.policy for fault in FAULTS}


def test_no_two_planted_faults_are_the_same():
    assert len({(fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
