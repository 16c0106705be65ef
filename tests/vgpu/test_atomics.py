"""Atomic operations: results, returned values, masks and dtypes, batched and one program at a time."""

import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import OutOfBounds, VirtualGPU, WriteToInput

BATCH = pytest.mark.parametrize("batch", [True, False])


@triton.jit
def histogram_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bins = tl.load(x_ptr + offs, mask=offs < n, other=0)
    tl.atomic_add(out_ptr + bins, 1, mask=offs < n)


@triton.jit
def accumulate_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + offs, tl.load(x_ptr + tl.program_id(0) * BLOCK + offs))


@triton.jit
def every_kernel(x_ptr, memory_ptr, old_ptr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid)
    tl.store(old_ptr + pid, tl.atomic_max(memory_ptr, x))
    tl.atomic_min(memory_ptr + 1, x)
    tl.atomic_add(memory_ptr + 2, x)


@triton.jit
def bits_kernel(x_ptr, memory_ptr):
    x = tl.load(x_ptr + tl.program_id(0))
    tl.atomic_and(memory_ptr, x)
    tl.atomic_or(memory_ptr + 1, x)
    tl.atomic_xor(memory_ptr + 2, x)
    tl.atomic_xchg(memory_ptr + 3, x)


@triton.jit
def swap_kernel(memory_ptr, old_ptr):
    pid = tl.program_id(0)
    tl.store(old_ptr + pid, tl.atomic_cas(memory_ptr, pid, pid + 1))


@BATCH
def test_a_histogram_counts_repeated_addresses(batch):
    x = torch.randint(0, 7, (1000,), dtype=torch.int32)
    out = torch.zeros(7, dtype=torch.int32)
    with VirtualGPU(batch=batch):
        histogram_kernel[(4,)](x, out, 1000, BLOCK=256)
    assert torch.equal(out, torch.bincount(x, minlength=7).int())


@BATCH
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_float_addition_rounds_after_every_addend_in_program_order(dtype, batch):
    x, out = torch.randn(9, 16).to(dtype), torch.zeros(16, dtype=dtype)
    expected = torch.zeros(16, dtype=dtype)
    for row in x:
        expected += row
    with VirtualGPU(batch=batch):
        accumulate_kernel[(9,)](x, out, BLOCK=16)
    assert torch.equal(out, expected)


@BATCH
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint32, torch.float32, torch.float64])
def test_extremes_respect_the_sign_of_the_type(dtype, batch):
    x = torch.tensor([3, -5, 7, -1, 0]).to(dtype)
    memory, old = torch.ones(3, dtype=dtype), torch.zeros(5, dtype=dtype)
    with VirtualGPU(batch=batch):
        every_kernel[(5,)](x, memory, old)
    values = x.tolist()
    assert memory[0].item() == max(1, *values)
    assert memory[1].item() == min(1, *values)
    assert memory[2].item() == (1 + sum(values)) % (2**32 if dtype == torch.uint32 else 2**80)
    # on floats the compiler makes two atomics of one, and programs that run together may interleave them
    if not (batch and dtype.is_floating_point):
        assert old.tolist() == [max(1, *values[:i], 1) for i in range(5)]


@BATCH
def test_bitwise_operations_and_exchange(batch):
    x = torch.tensor([0b1110, 0b0111, 0b1010], dtype=torch.int32)
    memory = torch.tensor([0b1111, 0, 0, 9], dtype=torch.int32)
    with VirtualGPU(batch=batch):
        bits_kernel[(3,)](x, memory)
    assert memory.tolist() == [0b0010, 0b1111, 0b1110 ^ 0b0111 ^ 0b1010, 0b1010]


@BATCH
def test_compare_and_swap_sees_the_swaps_before_it(batch):
    memory, old = torch.zeros(1, dtype=torch.int32), torch.zeros(5, dtype=torch.int32)
    with VirtualGPU(batch=batch):
        swap_kernel[(5,)](memory, old)
    assert memory.item() == 5
    assert old.tolist() == [0, 1, 2, 3, 4]


def test_atomics_are_checked_like_stores():
    x = torch.full((256,), 7, dtype=torch.int32)
    out = torch.zeros(7, dtype=torch.int32)
    with VirtualGPU(), pytest.raises(OutOfBounds, match="out of bounds atomic access") as caught:
        histogram_kernel[(1,)](x, out, 200, BLOCK=256)
    assert (caught.value.argument, caught.value.index, caught.value.lanes) == ("out_ptr", (7,), 200)
    with VirtualGPU(protect={"counts": out}), pytest.raises(WriteToInput, match="counts"):
        histogram_kernel[(1,)](torch.zeros_like(x), out, 200, BLOCK=256)


def test_atomics_mark_what_they_touch_as_written():
    with VirtualGPU() as gpu:
        out = torch.empty(8, dtype=torch.int32)
        histogram_kernel[(1,)](torch.full((16,), 3, dtype=torch.int32), out, 16, BLOCK=16)
        assert gpu.unwritten(out).count == 7
