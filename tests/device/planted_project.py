"""Thirty tests of which three end what they run in; copied into a project of its own and run by ``test_isolation``."""

import pytest
import torch
import triton
import triton.language as tl

pytestmark = pytest.mark.cuda

#: Node name -> the verdict that it must have.
PLANTED = {
    "test_never_ends": "TIMEOUT",
    "test_writes_where_nothing_is": "STICKY_ERROR",
    "test_asks_for_more_than_there_is": "OOM",
}


@triton.jit
def _double(x_ptr, y_ptr, size: tl.constexpr):
    where = tl.arange(0, size)
    tl.store(y_ptr + where, 2 * tl.load(x_ptr + where))


@triton.jit
def _wait(x_ptr):
    seen = tl.load(x_ptr, volatile=True)
    while seen == 0:
        seen = tl.load(x_ptr, volatile=True)


@triton.jit
def _far_away(x_ptr, offset):
    tl.store(x_ptr + offset, 1)


def doubled(number):
    x = torch.arange(64, device="cuda") + number
    y = torch.empty_like(x)
    _double[(1,)](x, y, 64)
    assert torch.equal(y, 2 * x)


@pytest.mark.parametrize("number", range(9))
def test_before(number):
    doubled(number)


@pytest.mark.isolated(deadline=10)
def test_never_ends():
    _wait[(1,)](torch.zeros(1, dtype=torch.int32, device="cuda"))
    torch.cuda.synchronize()


@pytest.mark.parametrize("number", range(9))
def test_between(number):
    doubled(number)


def test_writes_where_nothing_is():
    # nothing waits: the fault is found when the test is over
    _far_away[(1,)](torch.zeros(1, dtype=torch.int32, device="cuda"), 2**42)


def test_asks_for_more_than_there_is():
    torch.empty(2**43, dtype=torch.uint8, device="cuda")


@pytest.mark.parametrize("number", range(9))
def test_after(number):
    doubled(number)
