"""Kernels whose programs wait for each other, with switches that break each piece of their synchronisation."""

import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def grid_barrier(count_ptr, needed, GATHER: tl.constexpr, ARRIVE: tl.constexpr, WAIT: tl.constexpr):
    if GATHER:
        tl.debug_barrier()
    tl.atomic_add(count_ptr, 1, sem=ARRIVE)
    while tl.atomic_add(count_ptr, 0, sem=WAIT) < needed:
        pass


@triton.jit
def barrier_kernel(
    count_ptr,
    x_ptr,
    out_ptr,
    needed,
    BLOCK: tl.constexpr,
    GATHER: tl.constexpr,
    ARRIVE: tl.constexpr,
    WAIT: tl.constexpr,
):
    pid, n = tl.program_id(0), tl.num_programs(0)
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + pid * BLOCK + offs, offs + pid)
    grid_barrier(count_ptr, needed, GATHER, ARRIVE, WAIT)
    other = tl.load(x_ptr + (pid + 1) % n * BLOCK + offs)
    tl.store(out_ptr + pid * BLOCK + offs, other)


def barrier(programs, *, needed=None, gather=True, arrive="release", wait="acquire"):
    """Every program reads its neighbour's block after a grid barrier; return whether all read the right one."""
    count = torch.zeros(1, dtype=torch.int32)
    x, out = (torch.zeros(programs, BLOCK, dtype=torch.int32) for _ in range(2))
    barrier_kernel[(programs,)](
        count, x, out, programs if needed is None else needed, BLOCK=BLOCK, GATHER=gather, ARRIVE=arrive, WAIT=wait
    )
    return torch.equal(out, x.roll(-1, 0))


@triton.jit
def lock_kernel(
    lock_ptr,
    sum_ptr,
    x_ptr,
    BLOCK: tl.constexpr,
    GATHER: tl.constexpr,
    TAKE: tl.constexpr,
    FREE: tl.constexpr,
    FREED: tl.constexpr,
):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    while tl.atomic_cas(lock_ptr, 0, 1, sem=TAKE) == 1:
        pass
    tl.store(sum_ptr + offs, tl.load(sum_ptr + offs) + tl.load(x_ptr + pid * BLOCK + offs))
    if GATHER:
        tl.debug_barrier()
    if FREED:
        tl.atomic_xchg(lock_ptr, 0, sem=FREE)


def lock(programs, *, gather=True, take="acquire", free="release", freed=True):
    """Every program adds a block to one sum under a lock; return whether the sum is right."""
    taken, total = torch.zeros(1, dtype=torch.int32), torch.zeros(BLOCK, dtype=torch.int32)
    x = torch.arange(programs * BLOCK, dtype=torch.int32).reshape(programs, BLOCK)
    lock_kernel[(programs,)](taken, total, x, BLOCK=BLOCK, GATHER=gather, TAKE=take, FREE=free, FREED=freed)
    return torch.equal(total, x.sum(0).int())


@triton.jit
def ticket_kernel(
    next_ptr,
    serving_ptr,
    order_ptr,
    sum_ptr,
    BLOCK: tl.constexpr,
    GATHER: tl.constexpr,
    WAIT: tl.constexpr,
    FREE: tl.constexpr,
):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    ticket = tl.atomic_add(next_ptr, 1, sem="relaxed")
    while tl.atomic_add(serving_ptr, 0, sem=WAIT) != ticket:
        pass
    tl.store(order_ptr + ticket, pid)
    tl.store(sum_ptr + offs, tl.load(sum_ptr + offs) * 3 + pid)
    if GATHER:
        tl.debug_barrier()
    tl.atomic_add(serving_ptr, 1, sem=FREE)


def tickets(programs, *, gather=True, wait="acquire", free="release"):
    """Programs are served in the order of their tickets; return that order, checked against what they computed."""
    following, serving = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    order, total = torch.zeros(programs, dtype=torch.int32), torch.zeros(BLOCK, dtype=torch.int32)
    ticket_kernel[(programs,)](following, serving, order, total, BLOCK=BLOCK, GATHER=gather, WAIT=wait, FREE=free)
    expected = 0
    for pid in order.tolist():
        expected = expected * 3 + pid
    assert sorted(order.tolist()) == list(range(programs))
    assert total.tolist() == [expected] * BLOCK
    return order.tolist()


@triton.jit
def chain_kernel(
    flag_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr, GATHER: tl.constexpr, WAIT: tl.constexpr, SIGNAL: tl.constexpr
):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    so_far = tl.load(x_ptr + pid * BLOCK + offs)
    if pid > 0:
        while tl.atomic_add(flag_ptr + pid - 1, 0, sem=WAIT) == 0:
            pass
        so_far += tl.load(out_ptr + (pid - 1) * BLOCK + offs)
    tl.store(out_ptr + pid * BLOCK + offs, so_far)
    if GATHER:
        tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + pid, 1, sem=SIGNAL)


def chain(programs, *, gather=True, wait="acquire", signal="release"):
    """Program i adds a block to what program i - 1 left; return whether the running sums are right."""
    flag = torch.zeros(programs, dtype=torch.int32)
    x = torch.arange(programs * BLOCK, dtype=torch.int32).reshape(programs, BLOCK)
    out = torch.zeros_like(x)
    chain_kernel[(programs,)](flag, x, out, BLOCK=BLOCK, GATHER=gather, WAIT=wait, SIGNAL=signal)
    return torch.equal(out, x.cumsum(0).int())


@triton.jit
def last_block_kernel(
    x_ptr, partial_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr, GATHER: tl.constexpr, ORDER: tl.constexpr
):
    pid, n = tl.program_id(0), tl.num_programs(0)
    offs = tl.arange(0, BLOCK)
    tl.store(partial_ptr + pid * BLOCK + offs, tl.load(x_ptr + pid * BLOCK + offs) * 2)
    if GATHER:
        tl.debug_barrier()
    if tl.atomic_add(count_ptr, 1, sem=ORDER) == n - 1:
        total = tl.zeros((BLOCK,), tl.int32)
        for i in range(n):
            total += tl.load(partial_ptr + i * BLOCK + offs)
        tl.store(out_ptr + offs, total)
        tl.atomic_xchg(count_ptr, 0, sem="relaxed")


def last_block(programs, *, gather=True, order="acq_rel"):
    """The program that ends last adds up what all have left; return whether the sum and the counter are right."""
    x = torch.arange(programs * BLOCK, dtype=torch.int32).reshape(programs, BLOCK)
    partial, out = torch.zeros_like(x), torch.zeros(BLOCK, dtype=torch.int32)
    count = torch.zeros(1, dtype=torch.int32)
    last_block_kernel[(programs,)](x, partial, count, out, BLOCK=BLOCK, GATHER=gather, ORDER=order)
    return torch.equal(out, 2 * x.sum(0).int()) and count.item() == 0


@triton.jit
def split_k_kernel(a_ptr, out_ptr, turn_ptr, splits, BLOCK: tl.constexpr):
    tile, split = tl.program_id(0), tl.program_id(1)
    offs = tile * BLOCK + tl.arange(0, BLOCK)
    part = tl.load(a_ptr + split * tl.num_programs(0) * BLOCK + offs)
    while tl.atomic_add(turn_ptr + tile, 0, sem="acquire") != split:
        pass
    if split > 0:
        part += tl.load(out_ptr + offs)
    tl.store(out_ptr + offs, part)
    tl.debug_barrier()
    # the last one leaves the semaphore as it was
    tl.atomic_xchg(turn_ptr + tile, (split + 1) % splits, sem="release")


def split_k(tiles, splits):
    """The splits of a tile add to it in order; return whether the sums and the semaphores are right."""
    a = torch.arange(splits * tiles * BLOCK, dtype=torch.int32).reshape(splits, tiles, BLOCK)
    out, turn = torch.zeros(tiles, BLOCK, dtype=torch.int32), torch.zeros(tiles, dtype=torch.int32)
    split_k_kernel[(tiles, splits)](a, out, turn, splits, BLOCK=BLOCK)
    return torch.equal(out, a.sum(0).int()) and not turn.any()


@triton.jit
def histogram_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr, ORDER: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(out_ptr + x, 1, sem=ORDER)


def histogram(programs, *, order="acq_rel"):
    """Every program counts a block of numbers below 7; return whether the counts are right."""
    x = torch.arange(programs * BLOCK, dtype=torch.int32) * 5 % 7
    out = torch.zeros(7, dtype=torch.int32)
    histogram_kernel[(programs,)](x, out, BLOCK=BLOCK, ORDER=order)
    return torch.equal(out, torch.bincount(x, minlength=7).int())
