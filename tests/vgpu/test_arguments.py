"""What a launch may pass, and how the kernel sees it."""

from collections import namedtuple

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import VirtualGPU

Pair = namedtuple("Pair", ["left", "right"])


@triton.jit
def widths_kernel(out_ptr, a, b, c, d, e, f: tl.int64, g: tl.float32):
    tl.store(out_ptr + 0, a.dtype.primitive_bitwidth)
    tl.store(out_ptr + 1, b.dtype.primitive_bitwidth)
    tl.store(out_ptr + 2, c.dtype.primitive_bitwidth)
    tl.store(out_ptr + 3, d.dtype.primitive_bitwidth)
    tl.store(out_ptr + 4, e.dtype.primitive_bitwidth)
    tl.store(out_ptr + 5, f.dtype.primitive_bitwidth)
    tl.store(out_ptr + 6, (g * 2).to(tl.int32))


@triton.jit
def one_kernel(out_ptr, n, free):
    tl.static_assert(n == 1)
    tl.store(out_ptr, n + free)


@triton.jit(do_not_specialize=["n"])
def kept_kernel(out_ptr, n):
    tl.store(out_ptr, n.to(tl.int32))


@triton.jit
def tuple_kernel(values, pair, out_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(out_ptr + offs, tl.load(values[0] + offs) * values[1] + tl.load(pair.left + offs) * pair.right)


@triton.jit
def flags_kernel(x_ptr, out_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    flag = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, flag & (offs > 1))


@triton.jit
def reinterpreted_kernel(x_ptr, out_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs).to(tl.float32))


@triton.jit
def random_kernel(out_ptr, seed, N: tl.constexpr):
    offs = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out_ptr + offs, tl.rand(seed, offs))


@triton.jit
def constant_dtype_kernel(x_ptr, out_ptr, DTYPE: tl.constexpr, N: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs).to(DTYPE))


def test_numbers_take_the_type_that_holds_them():
    out = torch.zeros(7, dtype=torch.int32)
    with VirtualGPU():
        widths_kernel[(1,)](out, 5, 2**40, 2**63, True, 0.5, 3, 21)
    assert out.tolist() == [32, 64, 64, 1, 32, 64, 42]


def test_an_integer_one_is_a_constant_unless_told_otherwise():
    out = torch.zeros(1, dtype=torch.int32)
    with VirtualGPU():
        one_kernel[(1,)](out, 1, 4)
        assert out.item() == 5
        kept_kernel[(1,)](out, 1)
        assert out.item() == 1


def test_numpy_numbers_and_keyword_arguments_are_accepted():
    out = torch.zeros(1, dtype=torch.int32)
    with VirtualGPU():
        kept_kernel[(1,)](n=np.int64(7), out_ptr=out)
    assert out.item() == 7


def test_tuples_of_tensors_and_numbers_are_passed():
    x, y, out = torch.arange(8.0), torch.ones(8), torch.zeros(8)
    with VirtualGPU():
        tuple_kernel[(1,)]((x, 3), Pair(y, 0.5), out, N=8)
    assert torch.equal(out, 3 * x + 0.5)


def test_bool_tensors_load_and_store():
    x = torch.tensor([True, True, False, True])
    out = torch.ones(4, dtype=torch.bool)
    with VirtualGPU():
        flags_kernel[(1,)](x, out, N=4)
    assert out.tolist() == [False, False, False, True]


def test_a_reinterpreted_tensor_is_read_as_its_new_type():
    codes = torch.arange(64, dtype=torch.uint8)
    out = torch.zeros(64)
    with VirtualGPU():
        reinterpreted_kernel[(1,)](triton.reinterpret(codes, tl.float8e4nv), out, N=64)
    assert torch.equal(out, codes.view(torch.float8_e4m3fn).float())


@pytest.mark.parametrize("batch", [True, False])
def test_random_numbers_depend_on_seed_and_offset_only(batch):
    first, second, other = (torch.zeros(64) for _ in range(3))
    with VirtualGPU(batch=batch):
        random_kernel[(4,)](first, 7, N=16)
        random_kernel[(1,)](second, 7, N=64)
        random_kernel[(1,)](other, 8, N=64)
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert 0 <= first.min() < 0.2 < 0.8 < first.max() < 1


@pytest.mark.parametrize(("dtype", "name"), [(torch.bfloat16, "bfloat16"), (torch.float16, "float16")])
def test_a_dtype_can_be_an_argument(dtype, name):
    x, out = torch.randn(16), torch.zeros(16, dtype=dtype)
    with VirtualGPU():
        constant_dtype_kernel[(1,)](x, out, DTYPE=getattr(tl, name), N=16)
    assert torch.equal(out, x.to(dtype))


def test_a_tensor_of_an_unknown_type_is_refused_by_name():
    x = torch.zeros(4, dtype=torch.complex64)
    with VirtualGPU(), pytest.raises(TypeError, match="complex64"):
        reinterpreted_kernel[(1,)](x, torch.zeros(4), N=4)
