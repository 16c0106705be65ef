"""tl.map_elementwise: lanes that branch, loop and return apart from each other, under masks and in groups."""

import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import HangDetected, Limits, VirtualGPU

BATCH = pytest.mark.parametrize("batch", [True, False])


@triton.jit
def selu(x, alpha):
    if x > 0:
        return x
    else:
        return alpha * (tl.exp(x) - 1)


@triton.jit
def collatz(n):
    steps = 0
    while n > 1:
        if n % 2 == 0:  # noqa: SIM108
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps, n


@triton.jit
def swapped(a, b):
    return b, a


@triton.jit
def forever(n):
    while n > 5:
        n = n
    return n


@triton.jit
def selu_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.map_elementwise(selu, tl.load(x_ptr + offs), 1.5))


@triton.jit
def collatz_kernel(x_ptr, steps_ptr, last_ptr, F: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * ROWS * COLS + tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    steps, last = tl.map_elementwise(F, tl.load(x_ptr + offs))
    if pid % 2 == 0:
        tl.store(steps_ptr + offs, steps)
    tl.store(last_ptr + offs, last)


@triton.jit
def pairs_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.map_elementwise(swapped, tl.load(x_ptr + offs), pack=2)[0])


@triton.jit
def forever_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.map_elementwise(forever, tl.load(x_ptr + offs)))


def steps_of(n):
    count = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count


@BATCH
def test_lanes_take_different_branches(batch):
    x, out = torch.randn(4 * 32), torch.empty(4 * 32)
    with VirtualGPU(batch=batch) as gpu:
        selu_kernel[(4,)](x, out, BLOCK=32)
    torch.testing.assert_close(out, torch.where(x > 0, x, 1.5 * (x.exp() - 1)))
    assert gpu.untrusted == set()


@BATCH
def test_lanes_loop_until_each_has_ended(batch):
    x = torch.arange(1, 3 * 4 * 8 + 1, dtype=torch.int32)
    steps, last = torch.full_like(x, -1), torch.empty_like(x)
    with VirtualGPU(batch=batch):
        collatz_kernel[(3,)](x, steps, last, collatz, ROWS=4, COLS=8)
    expected = torch.tensor([steps_of(n) for n in x.tolist()], dtype=torch.int32)
    expected[32:64] = -1
    assert torch.equal(steps, expected)
    assert last.eq(1).all()


def test_neighbours_are_handled_together():
    x, out = torch.arange(16), torch.empty(16, dtype=torch.int64)
    with VirtualGPU():
        pairs_kernel[(1,)](x, out, BLOCK=16)
    assert torch.equal(out, x.view(8, 2).flip(1).view(16))


def test_a_lane_that_never_ends_is_a_hang():
    x, out = torch.arange(8), torch.empty(8, dtype=torch.int64)
    with VirtualGPU(limits=Limits(spins=50)), pytest.raises(HangDetected, match="in forever"):
        forever_kernel[(1,)](x, out, BLOCK=8)
