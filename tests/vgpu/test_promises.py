"""Promises to the compiler that are broken, divisions that have no result, and launches that a driver refuses."""

import contextvars

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.lanes import VirtualLane
from harness.vgpu import VirtualGPU
from harness.vgpu.faults import BrokenPromise, DivisionByZero


@triton.jit
def scalar_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.multiple_of(n, 16) + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + offs))


@triton.jit
def block_kernel(out_ptr, start, last, BLOCK: tl.constexpr):
    offs = start + tl.arange(0, BLOCK)
    offs = tl.max_contiguous(tl.multiple_of(tl.where(offs < last, offs, 0), BLOCK), BLOCK)
    tl.store(out_ptr + tl.arange(0, BLOCK), offs)


@triton.jit
def divide_kernel(out_ptr, a, n, REMAINDER: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 1:
        tl.store(out_ptr, a % (n * pid) if REMAINDER else a // (n * pid))


@triton.jit
def divide_lanes_kernel(out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, 12 // offs, mask=offs > 0)


@triton.jit
def descriptor_kernel(x_ptr, given, out_ptr, BLOCK: tl.constexpr, MADE: tl.constexpr):
    if MADE:  # noqa: SIM108
        block = tl.make_tensor_descriptor(x_ptr, [BLOCK], [1], [BLOCK]).load([0])
    else:
        block = given.load([0])
    tl.store(out_ptr + tl.arange(0, BLOCK), block)


def described(made, profile="sm_90", **options):
    x, out = torch.arange(16, dtype=torch.float32), torch.empty(16)
    with VirtualGPU(profile=profile, **options):
        descriptor_kernel[(1,)](x, TensorDescriptor(x, [16], [1], [16]), out, BLOCK=16, MADE=made)
    return torch.equal(out, x)


def scalar(n):
    x, out = torch.arange(64, dtype=torch.float32), torch.empty(16)
    with VirtualGPU():
        scalar_kernel[(2,)](x, out, n, BLOCK=16)
    return out


def block(start, last=1 << 20):
    out = torch.empty(16, dtype=torch.int32)
    with VirtualGPU():
        block_kernel[(1,)](out, start, last, BLOCK=16)
    return out.tolist()


def divided(n, programs=2, remainder=False):
    out = torch.zeros(1, dtype=torch.int32)
    with VirtualGPU():
        divide_kernel[(programs,)](out, 7, n, REMAINDER=remainder)
    return out.item()


def launched(grid=(1,), profile="sm_90", **options):
    out = torch.empty(16, dtype=torch.int32)
    with VirtualGPU(profile=profile):
        block_kernel[grid](out, 0, 99, BLOCK=16, **options)


def test_a_multiple_that_is_none_is_a_fault_with_its_value_and_line():
    with pytest.raises(BrokenPromise, match=r"promised to be a multiple of 16 is none in scalar_kernel") as caught:
        scalar(19)
    assert "19 is 3 more than one" in str(caught.value)
    assert caught.value.program == (0, 0, 0)
    assert scalar(32).tolist() == list(range(32, 48))


def test_a_block_may_count_on_from_a_multiple_and_be_clamped_and_not_begin_elsewhere():
    assert block(32) == list(range(32, 48))
    assert block(32, 40) == [*range(32, 40), *[0] * 8]
    with pytest.raises(BrokenPromise, match=r"33 is 1 more than one, and begins a run at \(0,\) of the block"):
        block(33)


@pytest.mark.parametrize("remainder", [False, True])
def test_an_integer_is_not_divided_by_zero_in_a_program_that_runs(remainder):
    with pytest.raises(DivisionByZero, match="integer division by zero in divide_kernel") as caught:
        divided(0, remainder=remainder)
    assert caught.value.program == (1, 0, 0)
    assert divided(0, programs=1, remainder=remainder) == 0
    assert divided(2, remainder=remainder) == (1 if remainder else 3)


def test_a_lane_that_divides_by_zero_may_be_masked():
    out = torch.zeros(4, dtype=torch.int32)
    with VirtualGPU():
        divide_lanes_kernel[(1,)](out, BLOCK=4)
    assert out.tolist() == [0, 12, 6, 4]


@pytest.mark.parametrize("grid", [(2.0,), (1, 4 / 2), lambda meta: (2.5,)])
def test_a_grid_of_fractions_is_refused_as_the_driver_refuses_it(grid):
    with pytest.raises(TypeError, match=r"grid .* is a float, an integer is needed"):
        launched(grid)


def test_a_grid_may_hold_whatever_counts():
    launched((torch.tensor(2), True))


@pytest.mark.parametrize("warps", [0, 3, 6])
def test_warps_are_a_power_of_two(warps):
    with pytest.raises(AssertionError, match=f"num_warps must be a power of 2, got {warps}"):
        launched(num_warps=warps)


@pytest.mark.parametrize(("profile", "warps"), [("sm_90", 32), ("gfx942", 16)])
def test_a_block_has_as_many_warps_as_the_device_holds(profile, warps):
    launched(profile=profile, num_warps=warps)
    with pytest.raises(OutOfResources, match="threads, Required: 2048, Hardware limit: 1024"):
        launched(profile=profile, num_warps=2 * warps)


def with_allocator(work):
    """Call ``work`` where an allocator is set, and nobody else sees it."""

    def inside():
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8))
        return work()

    return contextvars.Context().run(inside)


def test_a_descriptor_made_in_a_kernel_needs_an_allocator_where_hardware_has_descriptors():
    def work(made=True, **options):
        return lambda: described(made, allocator=True, **options)

    with pytest.raises(RuntimeError, match=r"no allocator was set\. Use triton\.set_allocator") as caught:
        contextvars.Context().run(work())
    assert "in descriptor_kernel (test_promises.py" in caught.value.__notes__[0]
    assert with_allocator(work())
    assert contextvars.Context().run(work(made=False))
    assert contextvars.Context().run(work(profile="sm_89"))
    assert contextvars.Context().run(work(profile="gfx950"))


def test_a_search_needs_the_allocator():
    def run(x):
        return VirtualLane("sm_90").run(lambda x: described_inside(x), {"x": x}).error

    def described_inside(x):
        descriptor_kernel[(1,)](x, None, torch.empty(16), BLOCK=16, MADE=True)

    assert "no allocator was set" in str(contextvars.Context().run(run, torch.zeros(16)))
    assert with_allocator(lambda: run(torch.zeros(16))) is None
