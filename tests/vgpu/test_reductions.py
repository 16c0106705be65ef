"""Reductions, scans, histograms and matrix products against torch, in batches and one program at a time."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import VirtualGPU

BATCH = pytest.mark.parametrize("batch", [True, False])


@triton.jit
def larger_index(value_a, index_a, value_b, index_b):
    take_b = (value_b > value_a) | ((value_b == value_a) & (index_b < index_a))
    return tl.where(take_b, value_b, value_a), tl.where(take_b, index_b, index_a)


@triton.jit
def affine_compose(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@triton.jit
def reduce_kernel(x_ptr, out_ptr, index_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    out = out_ptr + tl.program_id(0) * 8 * M + tl.arange(0, M)
    tl.store(out, tl.sum(x, axis=1))
    tl.store(out + M, tl.max(x, axis=1))
    tl.store(out + 2 * M, x.min(axis=-1))
    tl.store(out + 3 * M, tl.sum(x * 0 + 1))
    positions = tl.arange(0, N)[None, :] + tl.zeros((M, N), tl.int32)
    best, where = tl.reduce((x, positions), 1, larger_index)
    tl.store(out + 4 * M, best)
    tl.store(out + 5 * M, where.to(tl.float32))
    value, at = tl.max(x, axis=1, return_indices=True)
    tl.store(out + 6 * M, value - best + at - where)
    tl.store(out + 7 * M, tl.argmin(x, axis=1).to(tl.float32))
    bits = tl.xor_sum(positions * 5, axis=1)
    tl.store(index_ptr + tl.program_id(0) * M + tl.arange(0, M), bits)


@triton.jit
def scan_kernel(x_ptr, out_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, tl.cumsum(x, axis=0))
    tl.store(out_ptr + N + offs, tl.cumsum(x, axis=0, reverse=True))
    tl.store(out_ptr + 2 * N + offs, tl.cumprod(x, axis=0))
    a, b = tl.associative_scan((x, x + 1.0), 0, affine_compose)
    tl.store(out_ptr + 3 * N + offs, a)
    tl.store(out_ptr + 4 * N + offs, b)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + offs, mask=offs < n, other=-float("inf"))
    tl.store(out_ptr + row * n + offs, tl.softmax(x), mask=offs < n)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, m, n, k, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in tl.range(0, k, BLOCK, num_stages=2):
        inner = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * k + inner, mask=(rows[:, None] < m) & (inner < k), other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + cols, mask=(inner[:, None] < k) & (cols < n), other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    tl.store(c_ptr + rows[:, None] * n + cols, acc, mask=(rows[:, None] < m) & (cols < n))


@triton.jit
def scaled_kernel(a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    a = tl.load(a_ptr + m[:, None] * (K // 2) + tl.arange(0, K // 2)[None, :])
    b = tl.load(b_ptr + tl.arange(0, K)[:, None] * N + n[None, :])
    groups = tl.arange(0, K // 32)
    a_scale = tl.load(a_scale_ptr + m[:, None] * (K // 32) + groups[None, :])
    b_scale = tl.load(b_scale_ptr + n[:, None] * (K // 32) + groups[None, :])
    acc = tl.full((M, N), 1.0, tl.float32)
    tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot_scaled(a, a_scale, "e2m1", b, b_scale, "e4m3", acc))


@triton.jit
def histogram_kernel(x_ptr, out_ptr, N: tl.constexpr, BINS: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid * N + tl.arange(0, N))
    tl.store(out_ptr + pid * BINS + tl.arange(0, BINS), tl.histogram(x, BINS))


@BATCH
def test_reductions_over_an_axis(batch):
    p, m, n = 3, 4, 16
    x = torch.randn(p, m, n)
    x[1, 2, 5] = x[1, 2, 9] = 9.0
    x[2, 0, 3] = float("nan")
    out, bits = torch.zeros(p, 8, m), torch.zeros(p, m, dtype=torch.int32)
    with VirtualGPU(batch=batch):
        reduce_kernel[(p,)](x, out, bits, M=m, N=n)
    clean = torch.nan_to_num(x, nan=-1e9)
    torch.testing.assert_close(out[:, 0], x.sum(2), equal_nan=True)
    assert torch.equal(out[:, 1], clean.amax(2))
    assert torch.equal(out[:, 2], torch.nan_to_num(x, nan=1e9).amin(2))
    assert torch.equal(out[:2, 3], torch.full((2, m), float(m * n)))
    ok = torch.ones(p, m, dtype=torch.bool)
    ok[2, 0] = False
    assert torch.equal(out[:, 4][ok], x.amax(2)[ok])
    assert torch.equal(out[:, 5][ok], x.argmax(2).float()[ok])
    assert out[:, 6][ok].eq(0).all()
    assert torch.equal(out[:, 7][ok], x.argmin(2).float()[ok])
    expected = int(np.bitwise_xor.reduce(np.arange(n) * 5))
    assert bits.eq(expected).all()


@BATCH
def test_scans_run_along_the_axis(batch):
    n = 16
    x, out = torch.rand(n) + 0.5, torch.zeros(5, n)
    with VirtualGPU(batch=batch):
        scan_kernel[(1,)](x, out, N=n)
    torch.testing.assert_close(out[0], x.cumsum(0))
    torch.testing.assert_close(out[1], x.flip(0).cumsum(0).flip(0))
    torch.testing.assert_close(out[2], x.cumprod(0))
    state, expected = (1.0, 0.0), []
    for v in x.tolist():
        state = (state[0] * v, state[1] * v + v + 1)
        expected.append(state)
    torch.testing.assert_close(out[3:].t(), torch.tensor(expected))


@BATCH
def test_softmax_of_the_standard_library(batch):
    x, out = torch.randn(5, 50), torch.zeros(5, 50)
    with VirtualGPU(batch=batch):
        softmax_kernel[(5,)](x, out, 50, BLOCK=64)
    torch.testing.assert_close(out, x.softmax(1))


@BATCH
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_a_tiled_matmul_agrees_with_torch(dtype, batch):
    a, b, c = torch.randn(70, 50).to(dtype), torch.randn(50, 40).to(dtype), torch.zeros(70, 40)
    with VirtualGPU(batch=batch):
        matmul_kernel[(3, 2)](a, b, c, 70, 40, 50, PRECISION="ieee", BLOCK=32)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-5, atol=1e-4)


def test_tf32_is_the_default_of_a_float32_dot():
    a, b = torch.randn(32, 32), torch.randn(32, 32)
    results = []
    for precision in (None, "tf32", "ieee"):
        c = torch.zeros(32, 32)
        with VirtualGPU():
            matmul_kernel[(1, 1)](a, b, c, 32, 32, 32, PRECISION=precision, BLOCK=32)
        results.append(c)
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    torch.testing.assert_close(results[0], a @ b, rtol=1e-2, atol=1e-2)


@BATCH
def test_dot_scaled_decodes_both_operands_and_their_scales(batch):
    m, n, k = 16, 16, 64
    grid = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6])
    grid = torch.cat([grid, -grid])
    a = torch.randint(0, 256, (m, k // 2), dtype=torch.uint8)
    b = torch.randn(k, n).to(torch.float8_e4m3fn)
    a_scale = torch.randint(120, 134, (m, k // 32), dtype=torch.uint8)
    b_scale = torch.randint(120, 134, (n, k // 32), dtype=torch.uint8)
    c = torch.zeros(m, n)
    with VirtualGPU(batch=batch):
        scaled_kernel[(1,)](a, a_scale, b, b_scale, c, M=m, N=n, K=k)
    left = torch.stack([grid[(a & 15).long()], grid[(a >> 4).long()]], -1).view(m, k)
    left = left * torch.exp2(a_scale.float() - 127).repeat_interleave(32, 1)
    right = b.float() * torch.exp2(b_scale.float() - 127).repeat_interleave(32, 1).t()
    torch.testing.assert_close(c, left @ right + 1, rtol=1e-4, atol=1e-3)


@BATCH
def test_histograms_count_per_program(batch):
    x = torch.randint(0, 8, (3, 32), dtype=torch.int32)
    out = torch.zeros(3, 8, dtype=torch.int32)
    with VirtualGPU(batch=batch):
        histogram_kernel[(3,)](x, out, N=32, BINS=8)
    assert torch.equal(out, torch.stack([torch.bincount(row, minlength=8) for row in x]).int())
