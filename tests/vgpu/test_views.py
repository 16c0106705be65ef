"""Membership in strided, expanded, overlapping and very large views, against a plain enumeration."""

import itertools
import mmap

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from harness.vgpu import OutOfBounds, VirtualGPU
from harness.vgpu.geometry import View


def elements(view):
    axes = [range(0, n * s, s) if s else [0] * n for n, s in zip(view.shape, view.strides, strict=True)]
    return {view.start + sum(steps) for steps in itertools.product(*axes)}


views = st.integers(0, 3).flatmap(
    lambda rank: st.builds(
        lambda start, shape, strides, size: View(start * size, tuple(shape), tuple(s * size for s in strides), size),
        st.integers(0, 5),
        st.lists(st.integers(0, 4), min_size=rank, max_size=rank),
        st.lists(st.integers(0, 9), min_size=rank, max_size=rank),
        st.sampled_from([1, 2, 4]),
    )
)


@given(view=views, size=st.sampled_from([1, 2, 4, 8]))
def test_outside_agrees_with_an_enumeration_of_all_bytes(view, size):
    inside = {e + i for e in elements(view) for i in range(view.itemsize)}
    offsets = np.arange(-10, view.stop + 10, dtype=np.int64)
    expected = [not all(o + i in inside for i in range(size)) for o in offsets.tolist()]
    found = view.outside(offsets, size)
    assert (np.zeros(offsets.shape, bool) if found is None else found).tolist() == expected


@given(view=views, size=st.sampled_from([1, 4]))
def test_contains_any_agrees_with_an_enumeration_of_all_bytes(view, size):
    inside = {e + i for e in elements(view) for i in range(view.itemsize)}
    offsets = np.arange(-10, view.stop + 10, dtype=np.int64)
    expected = [any(o + i in inside for i in range(size)) for o in offsets.tolist()]
    found = view.contains_any(offsets, size)
    assert (np.zeros(offsets.shape, bool) if found is None else found).tolist() == expected


def test_an_index_outside_of_a_view_continues_its_outermost_axis():
    view = View(8, (3, 4), (64, 4), 4)
    assert view.index(8 + 2 * 64 + 3 * 4) == (2, 3)
    assert view.index(8 + 3 * 64) == (3, 0)
    assert view.index(8 - 64) == (-1, 0)
    assert view.index(8 + 4 * 4) == (0, 4)


@triton.jit
def copy_row_kernel(x_ptr, out_ptr, row: tl.int64, stride, width, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    value = tl.load(x_ptr + row * stride + offs, mask=offs < width, other=0)
    tl.store(out_ptr + offs, value, mask=offs < width)


@triton.jit
def double_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, 2 * tl.load(x_ptr + offs))


@pytest.fixture
def huge():
    """Four GiB of bytes that the system commits page by page as they are touched."""
    area = mmap.mmap(-1, 4 << 30)
    tensor = torch.from_numpy(np.frombuffer(area, np.uint8))
    yield tensor
    del tensor


def test_offsets_beyond_two_gib_need_no_memory_and_are_exact(huge):
    stride, width = (2 << 30) + 4096, 40
    view = huge.as_strided((2, width), (stride, 1))
    view[1] = torch.arange(width, dtype=torch.uint8)
    out = torch.zeros(64, dtype=torch.uint8)
    with VirtualGPU() as gpu:
        copy_row_kernel[(1,)](view, out, 1, stride, width, BLOCK=64)
        assert torch.equal(out[:width], view[1])
        with pytest.raises(OutOfBounds) as caught:
            copy_row_kernel[(1,)](view, out, 2, stride, width, BLOCK=64)
        assert (caught.value.index, caught.value.extent) == ((2, 0), (2, width))
        with pytest.raises(OutOfBounds) as caught:
            copy_row_kernel[(1,)](view, out, 0, stride, width + 1, BLOCK=64)
        assert caught.value.index == (0, width)
        assert gpu.suspects == []


def test_an_expanded_view_is_as_large_as_what_it_repeats():
    x, out = torch.randn(1, 8).expand(4, 8), torch.zeros(8)
    with VirtualGPU():
        double_kernel[(1,)](x, out, BLOCK=8)
    assert torch.equal(out, 2 * x[0])
    with VirtualGPU(), pytest.raises(OutOfBounds):
        double_kernel[(1,)](x, torch.zeros(16), BLOCK=16)


def test_overlapping_windows_are_one_range():
    x = torch.arange(10.0).as_strided((7, 4), (1, 1))
    out = torch.zeros(16)
    with VirtualGPU():
        copy_row_kernel[(1,)](x, out, 6, 1, 4, BLOCK=16)
    assert torch.equal(out[:4], torch.tensor([6.0, 7, 8, 9]))
    with VirtualGPU(), pytest.raises(OutOfBounds):
        copy_row_kernel[(1,)](x, out, 6, 1, 5, BLOCK=16)


def test_a_transposed_view_is_addressed_by_its_own_strides():
    x = torch.arange(32.0).view(4, 8).t()
    out = torch.zeros(32)
    with VirtualGPU():
        double_kernel[(1,)](x, out, BLOCK=32)
    assert torch.equal(out, 2 * torch.arange(32.0))
