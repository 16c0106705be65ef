"""Arithmetic, sums, products and atomics on narrow types, in kernels on the virtual GPU."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import VirtualGPU, numerics, profiles
from tests.vgpu.code_tables import FLOATS, bits, every, held, mismatches, stored

SM120 = profiles.profile("sm_120")
TRITON = tuple(int(part) for part in triton.__version__.split(".")[:2])
BLOCK = 4096


@triton.jit
def arithmetic_kernel(x_ptr, y_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lane, mask=lane < n)
    y = tl.load(y_ptr + lane, mask=lane < n)
    if OP == "add":
        z = x + y
    elif OP == "sub":
        z = x - y
    elif OP == "mul":
        z = x * y
    elif OP == "div":
        z = x / y
    elif OP == "max":
        z = tl.maximum(x, y)
    elif OP == "where":
        z = tl.where(x < y, x, y)
    else:
        z = -x
    tl.store(out_ptr + lane, z, mask=lane < n)


@triton.jit
def widened_kernel(x_ptr, y_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lane, mask=lane < n).to(tl.float32)
    y = tl.load(y_ptr + lane, mask=lane < n).to(tl.float32)
    tl.store(out_ptr + lane, x + y if OP == "add" else x * y, mask=lane < n)


@triton.jit
def dot_kernel(a_ptr, b_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


@triton.jit
def sum_kernel(x_ptr, out_ptr, N: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out_ptr + row, tl.sum(tl.load(x_ptr + row * N + tl.arange(0, N)), axis=0))


@triton.jit
def atomic_kernel(acc_ptr, x_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + lane)
    if OP == "add":
        tl.atomic_add(acc_ptr + lane % 4, x)
    elif OP == "max":
        tl.atomic_max(acc_ptr + lane % 4, x)
    elif OP == "min":
        tl.atomic_min(acc_ptr + lane % 4, x)
    else:
        tl.atomic_or(acc_ptr + lane % 4, x)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "max", "where", "neg"])
@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_narrow_arithmetic_rounds_once_after_every_operation(name, op):
    x = every(name)
    y = x[torch.randperm(x.numel(), generator=torch.Generator().manual_seed(0))]
    out = torch.empty_like(x)
    with VirtualGPU() as gpu:
        arithmetic_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, out, x.numel(), op, BLOCK)
    assert not gpu.untrusted
    a, b = held(x, name).astype(np.float32), held(y, name)
    with np.errstate(all="ignore"):
        exact = {
            "add": lambda: a + b,
            "sub": lambda: a - b,
            "mul": lambda: a * b,
            "div": lambda: a / b,
            "max": lambda: numerics.maximum(a, b, propagate_nan=False),
            "where": lambda: np.where(a < b, a, b),
            # a subtraction from zero up to Triton 3.7, so that -(+0) is +0; a sign flip from 3.8 on
            "neg": lambda: np.float32(0) - a if TRITON < (3, 8) else -a,
        }[op]()
    expected = numerics.round_to(exact, name, SM120)
    actual = held(out, name)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    number = ~np.isnan(expected)
    assert mismatches(bits(out)[number], stored(expected, name)[number], x[torch.from_numpy(number)]) == []


@pytest.mark.parametrize("op", ["add", "mul"])
@pytest.mark.parametrize("name", ["fp8e4nv", "fp8e5"])
def test_bytes_widened_to_float32_compute_exactly(name, op):
    x = every(name).repeat_interleave(256)
    y = every(name).repeat(256)
    out = torch.empty(x.shape)
    with VirtualGPU():
        widened_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, out, x.numel(), op, BLOCK)
    a, b = held(x, name), held(y, name)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out.numpy(), a + b if op == "add" else a * b)


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8e4nv", "fp8e5"])
def test_dot_multiplies_values_not_bits(name):
    rng = np.random.default_rng(0)
    a, b = (torch.from_numpy(rng.integers(-3, 4, (32, 32)).astype(np.float32)) for _ in "ab")
    out = torch.empty(32, 32)
    with VirtualGPU() as gpu:
        dot_kernel[(1,)](a.to(FLOATS[name][1]), b.to(FLOATS[name][1]), out, 32)
    assert not gpu.untrusted
    np.testing.assert_array_equal(out.numpy(), a.numpy() @ b.numpy())


def test_dot_of_float32_is_tf32_by_default_on_nvidia_only():
    a = torch.eye(32) * (1 + 2.0**-10 + 2.0**-11)
    out = torch.empty(32, 32)
    for name, expected in (("sm_120", 1 + 2.0**-10), ("gfx950", 1 + 2.0**-10 + 2.0**-11)):
        with VirtualGPU(profile=name):
            dot_kernel[(1,)](a, torch.eye(32), out, 32)
        assert out[0, 0] == expected, name


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_a_narrow_sum_adds_values_and_rounds(name):
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 3, (4, 64)).astype(np.float32))
    x[3, :] = 1000
    out = torch.empty(4, dtype=FLOATS[name][1])
    with VirtualGPU() as gpu:
        sum_kernel[(4,)](x.to(FLOATS[name][1]), out, 64)
    assert not gpu.untrusted
    assert out[:3].tolist() == x[:3].sum(1).tolist()
    # 64 thousands: representable in both, and far below if bits were added
    assert out[3] == 64000


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64])
def test_atomic_add_counts_every_lane_of_every_program(dtype):
    x = torch.ones(64, dtype=dtype) * 3
    acc = torch.zeros(4, dtype=dtype)
    with VirtualGPU() as gpu:
        atomic_kernel[(4,)](acc, x, "add", 16)
    assert not gpu.untrusted
    assert acc.tolist() == [48] * 4


def test_a_bfloat16_atomic_add_rounds_at_every_step():
    acc = torch.full((4,), 256, dtype=torch.bfloat16)
    with VirtualGPU():
        atomic_kernel[(4,)](acc, torch.ones(64, dtype=torch.bfloat16), "add", 16)
    # 256 + 1 is a tie that rounds back to 256, sixteen times
    assert acc.tolist() == [256] * 4


@pytest.mark.parametrize(("op", "expected"), [("max", [7] * 4), ("min", [-8] * 4), ("or", [-1] * 4)])
def test_integer_atomics_combine_every_lane(op, expected):
    x = torch.arange(-8, 8, dtype=torch.int32).repeat_interleave(4)
    acc = torch.zeros(4, dtype=torch.int32)
    with VirtualGPU():
        atomic_kernel[(4,)](acc, x, op, 16)
    assert acc.tolist() == expected


def test_a_float_atomic_maximum_compares_numbers():
    x = torch.tensor([-1.5, 2.5, -0.0, 1.0] * 4).repeat_interleave(4)
    acc = torch.full((4,), -10.0)
    with VirtualGPU():
        atomic_kernel[(4,)](acc, x, "max", 16)
    assert acc.tolist() == [2.5] * 4
