"""Tensor descriptors made on the host and in the kernel, and block pointers where Triton still has them."""

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.vgpu import Misaligned, OutOfBounds, VirtualGPU, WriteToInput

BATCH = pytest.mark.parametrize("batch", [True, False])
VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
needs_block_pointers = pytest.mark.skipif(VERSION >= (3, 9), reason="needs Triton < 3.9, which removed block pointers")


@triton.jit
def copy_tiles_kernel(source, target, M: tl.constexpr, N: tl.constexpr):
    row, col = tl.program_id(0) * M, tl.program_id(1) * N
    target.store([row, col], source.load([row, col]) * 2.0)


@triton.jit
def device_descriptor_kernel(x_ptr, out_ptr, rows, cols, stride, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, [rows, cols], [stride, 1], [M, N])
    target = tl.make_tensor_descriptor(out_ptr, shape=[rows, cols], strides=[cols, 1], block_shape=[M, N])
    row, col = tl.program_id(0) * M, tl.program_id(1) * N
    target.store([row, col], source.load([row, col]))


@triton.jit
def gather_rows_kernel(source, index_ptr, out_ptr, ROWS: tl.constexpr, N: tl.constexpr):
    rows = tl.load(index_ptr + tl.arange(0, ROWS))
    value = source.gather(rows, 8)
    tl.store(out_ptr + tl.arange(0, ROWS)[:, None] * N + tl.arange(0, N)[None, :], value)


@triton.jit
def scatter_rows_kernel(target, index_ptr, ROWS: tl.constexpr, N: tl.constexpr):
    rows = tl.load(index_ptr + tl.arange(0, ROWS))
    target.scatter(tl.full((ROWS, N), 3.0, tl.float32), rows, 0)


@triton.jit
def add_tile_kernel(target, N: tl.constexpr):
    target.atomic_add([tl.program_id(0) % 2, 0], tl.full((1, N), 1.0, tl.float32))


@triton.jit
def block_pointer_kernel(x_ptr, out_ptr, rows, cols, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_block_ptr(x_ptr, (rows, cols), (cols, 1), (tl.program_id(0) * M, 0), (M, N), (1, 0))
    target = tl.make_block_ptr(out_ptr, (rows, cols), (cols, 1), (tl.program_id(0) * M, 0), (M, N), (1, 0))
    for _ in range(0, cols, N):
        value = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(target, value + 1.0, boundary_check=(0, 1))
        source = tl.advance(source, (0, N))
        target = tl.advance(target, (0, N))


@BATCH
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_host_descriptors_load_and_store_tiles_inside_the_tensor(padding, batch):
    x, out = torch.randn(10, 24), torch.zeros(10, 24)
    source = TensorDescriptor(x, [10, 24], [24, 1], [8, 16], padding)
    target = TensorDescriptor(out, [10, 24], [24, 1], [8, 16])
    with VirtualGPU(batch=batch):
        copy_tiles_kernel[(2, 2)](source, target, M=8, N=16)
    assert torch.equal(out, 2 * x)


@BATCH
def test_device_descriptors_keep_to_their_shape(batch):
    wide, out = torch.randn(10, 32), torch.zeros(10, 20)
    with VirtualGPU(batch=batch):
        device_descriptor_kernel[(2, 2)](wide[:, :20], out, 10, 20, 32, M=8, N=16)
    assert torch.equal(out, wide[:, :20])


def test_a_descriptor_larger_than_its_tensor_is_out_of_bounds():
    x, out = torch.randn(10, 32), torch.zeros(12, 32)
    with VirtualGPU(), pytest.raises(OutOfBounds) as caught:
        device_descriptor_kernel[(2, 1)](x, out, 12, 32, 32, M=8, N=32)
    assert (caught.value.argument, caught.value.index, caught.value.program) == ("x_ptr", (10, 0), (1, 0, 0))


def test_a_descriptor_over_a_protected_tensor_is_guarded():
    x, out = torch.randn(8, 16), torch.zeros(8, 16)
    with VirtualGPU(protect={"out": out}), pytest.raises(WriteToInput, match="input out"):
        device_descriptor_kernel[(1, 1)](x, out, 8, 16, 16, M=8, N=16)


def test_a_descriptor_with_a_misaligned_base_or_stride_is_refused():
    x, out = torch.randn(8, 33), torch.zeros(8, 16)
    with VirtualGPU(), pytest.raises(Misaligned, match="stride 0 is 132 bytes"):
        device_descriptor_kernel[(1, 1)](x[:, :16], out, 8, 16, 33, M=8, N=16)
    flat = torch.randn(300)
    with VirtualGPU(), pytest.raises(Misaligned, match="base must be a multiple of 16 bytes"):
        device_descriptor_kernel[(1, 1)](flat[1:], out, 8, 16, 16, M=8, N=16)


@BATCH
def test_rows_are_gathered_and_those_outside_are_zero(batch):
    x, out = torch.randn(10, 24), torch.zeros(8, 16)
    rows = torch.tensor([0, 9, 3, -1, 10, 3, 2, 1], dtype=torch.int32)
    with VirtualGPU(batch=batch):
        gather_rows_kernel[(1,)](TensorDescriptor(x, [10, 24], [24, 1], [1, 16]), rows, out, ROWS=8, N=16)
    inside = (rows >= 0) & (rows < 10)
    assert torch.equal(out[inside], x[rows[inside].long(), 8:24])
    assert out[~inside].eq(0).all()


@BATCH
def test_rows_are_scattered(batch):
    out = torch.zeros(10, 16)
    rows = torch.tensor([0, 9, 3, -1, 10, 4, 2, 1], dtype=torch.int32)
    with VirtualGPU(batch=batch):
        scatter_rows_kernel[(1,)](TensorDescriptor(out, [10, 16], [16, 1], [1, 16]), rows, ROWS=8, N=16)
    assert out[:, 0].tolist() == [3, 3, 3, 3, 3, 0, 0, 0, 0, 3]


@BATCH
def test_descriptor_atomics_add(batch):
    out = torch.zeros(2, 16)
    with VirtualGPU(batch=batch):
        add_tile_kernel[(5,)](TensorDescriptor(out, [2, 16], [16, 1], [1, 16]), N=16)
    assert torch.equal(out, torch.tensor([3.0, 2.0])[:, None].expand(2, 16))


@BATCH
@needs_block_pointers
def test_block_pointers_advance_and_respect_their_bounds(batch):
    x, out = torch.randn(10, 20), torch.zeros(10, 20)
    with VirtualGPU(batch=batch):
        block_pointer_kernel[(2,)](x, out, 10, 20, M=8, N=16)
    assert torch.equal(out, x + 1)
