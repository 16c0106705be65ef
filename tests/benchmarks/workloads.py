"""Four kernels and their data, for the virtual GPU and for Triton's own interpreter alike."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + inner
        a = tl.load(a_ptr + rows[:, None] * K + k[None, :], mask=(rows[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + cols[None, :], mask=(k[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def e2m1(code):
    """Value of a 4-bit float."""
    exponent = ((code >> 1) & 3).to(tl.int32)
    half = (code & 1).to(tl.int32)
    bits = tl.where(exponent > 0, ((exponent + 126) << 23) | (half << 22), half * 0x3F000000)
    return (bits | ((code >> 3).to(tl.int32) << 31)).to(tl.float32, bitcast=True)


@triton.jit
def gemv_kernel(x_ptr, w_ptr, scale_ptr, ids_ptr, out_ptr, N, K, TOP_K, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    slot = tl.program_id(0)
    expert = tl.load(ids_ptr + slot).to(tl.int64)
    rows = expert * N + tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    pairs = tl.arange(0, BLOCK_K // 2)
    x_ptr += (slot // TOP_K) * K
    acc = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, K, BLOCK_K):
        pair = start // 2 + pairs
        code = tl.load(w_ptr + rows[:, None] * (K // 2) + pair[None, :])
        exponent = tl.load(scale_ptr + rows[:, None] * (K // 32) + (pair // 16)[None, :])
        scale = (exponent.to(tl.int32) << 23).to(tl.float32, bitcast=True)
        even = tl.load(x_ptr + 2 * pair)
        odd = tl.load(x_ptr + 2 * pair + 1)
        acc += tl.sum((e2m1(code & 15) * even[None, :] + e2m1(code >> 4) * odd[None, :]) * scale, axis=1)
    tl.store(out_ptr + slot * N + tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N), acc)


@triton.jit
def attention_kernel(
    q_ptr, cache_ptr, indices_ptr, out_ptr, lse_ptr, softmax_scale, TOP_K, HEADS: tl.constexpr, BLOCK: tl.constexpr
):
    batch = tl.program_id(0)
    here = batch * HEADS + tl.program_id(1)
    dims = tl.arange(0, 512)
    q = tl.load(q_ptr + here * 512 + dims)
    best = -float("inf")
    total = 0.0
    acc = tl.zeros((512,), tl.float32)
    for start in range(0, TOP_K, BLOCK):
        place = start + tl.arange(0, BLOCK)
        index = tl.load(indices_ptr + batch * TOP_K + place, mask=place < TOP_K, other=-1)
        owned = index >= 0
        # a row: 512 codes, then one exponent for each 64 of them
        row = cache_ptr + index.to(tl.int64)[:, None] * 520
        code = tl.load(row + dims[None, :], mask=owned[:, None], other=0)
        exponent = tl.load(row + 512 + (dims // 64)[None, :], mask=owned[:, None], other=0)
        scale = (exponent.to(tl.int32) << 23).to(tl.float32, bitcast=True)
        k = code.to(tl.float8e4nv, bitcast=True).to(tl.float32) * scale
        score = tl.where(owned, tl.sum(k * q[None, :], axis=1) * softmax_scale, -float("inf"))
        higher = tl.maximum(best, tl.max(score, axis=0))
        base = tl.where(higher == -float("inf"), 0.0, higher)
        p = tl.exp(score - base)
        decay = tl.exp(best - base)
        total = total * decay + tl.sum(p, axis=0)
        acc = acc * decay + tl.sum(k * p[:, None], axis=0)
        best = higher
    tl.store(out_ptr + here * 512 + dims, acc / tl.where(total > 0, total, 1.0))
    tl.store(lse_ptr + here, best + tl.log(total))


@triton.jit
def ragged_kernel(x_ptr, length_ptr, log_ptr, out_ptr, WIDTH, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    tl.store(log_ptr + program, program)
    length = tl.load(length_ptr + program)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, length, BLOCK):
        acc += tl.load(x_ptr + program * WIDTH + start + lanes, mask=start + lanes < length, other=0.0)
    tl.store(out_ptr + program, tl.sum(acc))


@dataclass(frozen=True)
class Workload:
    """A launch on ``grid``; ``subset``: how far the first axis goes where all of it takes the interpreter too long."""

    grid: tuple[int, ...]
    subset: int
    launch: Callable[[tuple[int, ...]], None]

    @property
    def smaller(self) -> tuple[int, ...]:
        return (self.subset, *self.grid[1:])


def matmul() -> Workload:
    """500³ in float32, tiles of 32³."""
    a, b = torch.randn(500, 500), torch.randn(500, 500)
    c = torch.empty(500, 500)
    return Workload((16, 16), 2, lambda grid: matmul_kernel[grid](a, b, c, 500, 500, 500, BLOCK=32))


def gemv() -> Workload:
    """4 tokens, top 4 of 8 experts, K 256, gate and up of intermediate size 128, MXFP4."""
    x = torch.randn(4, 256)
    w = torch.randint(0, 256, (8, 256, 128), dtype=torch.uint8)
    scale = torch.randint(120, 134, (8, 256, 8), dtype=torch.uint8)
    ids = torch.randint(0, 8, (16,), dtype=torch.int32)
    out = torch.empty(16, 256)
    return Workload(
        (16, 4), 16, lambda grid: gemv_kernel[grid](x, w, scale, ids, out, 256, 256, 4, BLOCK_N=64, BLOCK_K=64)
    )


def attention() -> Workload:
    """8 sequences, 16 heads, 64 chosen rows each, FP8 cache."""
    cache = torch.randint(0, 256, (512, 520), dtype=torch.uint8)
    # no NaN codes
    cache[:, :512] &= 0xF7
    cache[:, 512:] = torch.randint(118, 124, (512, 8), dtype=torch.uint8)
    indices = torch.randint(0, 512, (8, 64), dtype=torch.int32)
    indices[:, 5] = -1
    q, out, lse = torch.randn(8, 16, 512), torch.empty(8, 16, 512), torch.empty(8, 16)
    return Workload(
        (8, 16),
        2,
        lambda grid: attention_kernel[grid](q, cache, indices, out, lse, 512**-0.5, 64, HEADS=16, BLOCK=16),
    )


def ragged() -> Workload:
    """256 programs whose loops run from 0 to 32 times."""
    x = torch.randn(256, 2048)
    lengths = torch.randint(0, 2049, (256,), dtype=torch.int32)
    log, out = torch.empty(256, dtype=torch.int32), torch.empty(256)
    return Workload((256,), 256, lambda grid: ragged_kernel[grid](x, lengths, log, out, 2048, BLOCK=64))


WORKLOADS = {"matmul": matmul, "gemv": gemv, "attention": attention, "ragged": ragged}
