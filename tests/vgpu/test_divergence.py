"""Programs that take different paths, loop differently, or wait for each other."""

import time
from itertools import pairwise

import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import HangDetected, Limits, VirtualGPU

BATCH = pytest.mark.parametrize("batch", [True, False])


@triton.jit
def ragged_sum_kernel(x_ptr, start_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    first = tl.load(start_ptr + pid)
    last = tl.load(start_ptr + pid + 1)
    if first == last:
        tl.store(out_ptr + pid, -1.0)
        return
    total = 0.0
    for at in range(first, last, BLOCK):
        offs = at + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + offs, mask=offs < last, other=0.0))
    tl.store(out_ptr + pid, total)


@triton.jit
def collatz_kernel(n_ptr, out_ptr):
    pid = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    n = tl.load(n_ptr + pid)
    steps = 0
    while n != 1:
        if n % 2 == 0:  # noqa: SIM108  a statement is what is tested
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    tl.store(out_ptr + pid, steps)


@triton.jit
def count_then_branch_kernel(counter_ptr, out_ptr):
    pid = tl.program_id(0)
    ticket = tl.atomic_add(counter_ptr, 1)
    tl.atomic_add(counter_ptr + 1, 10)
    if pid % 3 == 0:
        tl.atomic_add(counter_ptr + 2, 1)
    tl.store(out_ptr + pid, ticket)


@triton.jit
def locked_kernel(lock_ptr, sum_ptr, x_ptr):
    pid = tl.program_id(0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(sum_ptr, tl.load(sum_ptr) + tl.load(x_ptr + pid))
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def chained_kernel(flag_ptr, out_ptr):
    pid = tl.program_id(0)
    while tl.atomic_add(flag_ptr + pid, 0) == 0:
        pass
    tl.store(out_ptr + pid, tl.load(flag_ptr + pid) * 2)
    tl.atomic_xchg(flag_ptr + pid + 1, pid + 2)


@triton.jit
def forever_kernel(flag_ptr, out_ptr):
    while tl.load(flag_ptr, volatile=True) == 0:
        pass
    tl.store(out_ptr, 1)


@triton.jit
def counting_forever_kernel(flag_ptr, out_ptr):
    tries = 0
    while tl.atomic_add(flag_ptr, 0) == 0:
        tries += 1
    tl.store(out_ptr, tries)


@triton.jit
def choice_kernel(x_ptr, out_ptr, USE: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid)
    y = x if x > 0 else -2.0 * x
    if USE and x > 1:
        y += 100.0
    elif x < -1 or x == 0:
        y -= 100.0
    if not 0 < x < 1:
        y += 0.5
    tl.store(out_ptr + pid, y)


@BATCH
def test_ragged_loops_and_early_returns_give_each_program_its_own_result(batch):
    starts = torch.tensor([0, 5, 5, 37, 38, 100], dtype=torch.int32)
    x, out = torch.randn(100), torch.zeros(5)
    with VirtualGPU(batch=batch):
        ragged_sum_kernel[(5,)](x, starts, out, BLOCK=16)
    parts = [x[a:b].sum() if b > a else torch.tensor(-1.0) for a, b in pairwise(starts.tolist())]
    torch.testing.assert_close(out, torch.stack(parts))


@BATCH
def test_while_loops_and_branches_inside_of_them(batch):
    n = torch.tensor([1, 2, 3, 6, 7, 9], dtype=torch.int32)
    out = torch.zeros(6, dtype=torch.int32)
    with VirtualGPU(batch=batch):
        collatz_kernel[(2, 3)](n, out)
    assert out.tolist() == [0, 1, 7, 8, 16, 19]


@BATCH
def test_atomics_before_a_divergence_happen_once(batch):
    counter, out = torch.zeros(3, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    with VirtualGPU(batch=batch) as gpu:
        count_then_branch_kernel[(64,)](counter, out)
    assert counter.tolist() == [64, 640, 22]
    assert sorted(out.tolist()) == list(range(64))
    assert gpu.launches[0].programs == 64


@BATCH
def test_a_lock_is_taken_by_one_program_after_the_other(batch):
    lock, total, x = torch.zeros(1, dtype=torch.int32), torch.zeros(1), torch.arange(8.0)
    with VirtualGPU(batch=batch):
        locked_kernel[(8,)](lock, total, x)
    assert (lock.item(), total.item()) == (0, 28.0)


@BATCH
def test_a_chain_of_programs_is_followed_in_order(batch):
    flag, out = torch.zeros(6, dtype=torch.int32), torch.zeros(5, dtype=torch.int32)
    flag[0] = 1
    with VirtualGPU(batch=batch):
        chained_kernel[(5,)](flag, out)
    assert out.tolist() == [2, 4, 6, 8, 10]


@BATCH
@pytest.mark.parametrize("kernel", [forever_kernel, counting_forever_kernel])
def test_a_wait_that_cannot_end_is_reported_within_seconds(kernel, batch):
    flag, out = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    begin = time.monotonic()
    with VirtualGPU(batch=batch, limits=Limits(spins=500)), pytest.raises(HangDetected) as caught:
        kernel[(3,)](flag, out)
    assert time.monotonic() - begin < 10
    assert (caught.value.kernel, caught.value.program) == (kernel.__name__, (0, 0, 0))
    assert caught.value.line > kernel.fn.__code__.co_firstlineno
    assert out.item() == 0


@BATCH
def test_scalar_conditions_choose_per_program(batch):
    x, out = torch.tensor([0.0, 0.5, 1.0, 2.0, -0.5, -3.0]), torch.zeros(6)
    with VirtualGPU(batch=batch):
        choice_kernel[(6,)](x, out, USE=True)
    assert out.tolist() == [-99.5, 0.5, 1.5, 102.5, 1.5, -93.5]


def test_stores_of_a_pass_that_is_taken_back_leave_no_trace():
    with VirtualGPU() as gpu:
        out = torch.empty(6, dtype=torch.int32)
        counter = torch.zeros(3, dtype=torch.int32)
        count_then_branch_kernel[(5,)](counter, out)
        assert gpu.unwritten(out).first_index == (5,)
