"""Every entry of the corpus passes as the code stands and is killed, by the check that it names, with its fault."""

from contextvars import copy_context

import pytest

from harness.vgpu import KernelFault
from tests.bugs.corpus import BUGS, POLICIES
from tests.bugs.running import found


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_the_named_check_kills(bug, tmp_path):
    assert not found(bug, faulty=False)
    assert found(bug, faulty=True, folder=tmp_path)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_right_values_hold_and_fail_with_the_fault(policy):
    # in contexts of their own, because some faults leave context variables behind
    copy_context().run(policy.right)
    # a refusal that does not come is reported by pytest.raises as a failure of its own
    with policy.fault(), pytest.raises((AssertionError, pytest.fail.Exception, KernelFault, ValueError)):
        copy_context().run(policy.right)
