"""Both multiplies of few tokens: the first slot by slot, the second token by token.

Nothing is sorted, hidden states stay in their own order, and the second multiply leaves nothing to combine.
"""

import triton
import triton.language as tl

from kernels._fp4 import GROUP
from kernels._mxfp4_tiles import either, gate_up_tile
from kernels._mxfp4_words import LARGEST_FAST_SCALE, weights_of

_GROUP = tl.constexpr(GROUP)
_LARGEST_FAST_SCALE = tl.constexpr(LARGEST_FAST_SCALE)


@triton.jit
def slot_gate_up_tile(
    number, ids_ptr, num_experts,
    hidden_ptr, hidden_stride,
    w13_ptr, w13_expert_stride, w13_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    act_ptr, clamp_limit,
    TOPK: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr, HAS_CLAMP: tl.constexpr,
    PTX: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
    QUADS: tl.constexpr, ACT_QUADS: tl.constexpr, PAIRS: tl.constexpr, DENSE: tl.constexpr,
):  # fmt: skip
    """``gate_up_tile`` number ``number`` of S * INTER / BLOCK_N: row block after row block of slot after slot.

    A slot without an expert has nothing to do.
    """
    ROW_BLOCKS: tl.constexpr = INTER // BLOCK_N
    slot = number // ROW_BLOCKS
    expert = tl.load(ids_ptr + slot).to(tl.int64)
    if (expert >= 0) & (expert < num_experts):
        gate_up_tile(
            expert, tl.full((BLOCK_T,), slot, tl.int32), tl.arange(0, BLOCK_T) == 0, number % ROW_BLOCKS,
            hidden_ptr + (slot // TOPK).to(tl.int64) * hidden_stride, 0,
            w13_ptr, w13_expert_stride, w13_row_stride,
            scale_ptr, scale_expert_stride, scale_row_stride,
            act_ptr, clamp_limit,
            TOPK, K, INTER, HAS_CLAMP, PTX, BLOCK_N, BLOCK_T, BLOCK_K, QUADS, ACT_QUADS, PAIRS, DENSE, True,
        )  # fmt: skip


@triton.jit
def _weighted(
    ids, weights, first_row,
    act_ptr,
    w2_ptr, w2_expert_stride, w2_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    TOPK: tl.constexpr, CHOICES: tl.constexpr, INTER: tl.constexpr,
    BLOCK_N: tl.constexpr, SPLIT: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
    QUADS: tl.constexpr, PAIRS: tl.constexpr, EXACT: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    PART: tl.constexpr = INTER // SPLIT
    STEPS: tl.constexpr = PART // BLOCK_K
    ROWS: tl.constexpr = SPLIT * BLOCK_N
    choices = tl.arange(0, CHOICES)
    index = tl.arange(0, ROWS)
    part = index // BLOCK_N
    row = (first_row + index % BLOCK_N).to(tl.int64)
    words_at = (row * w2_row_stride + part * (PART // 8))[:, None] + tl.arange(0, BLOCK_K // 8)[None, :]
    scales_at = (row * scale_row_stride + part * (PART // _GROUP))[:, None] + tl.arange(0, BLOCK_K // _GROUP)[None, :]
    column = tl.arange(0, BLOCK_T)
    x_at = tl.where(column < SPLIT, column, 0)[:, None] * PART + tl.arange(0, BLOCK_K)[None, :]
    total = tl.zeros((ROWS, BLOCK_T), tl.float32)
    seen = tl.zeros((ROWS,), tl.int32)
    # One loop over all experts: the first weights of one are on their way while the last of another are multiplied.
    for step in tl.range(0, TOPK * STEPS, num_stages=1 if EXACT else None):
        choice = step // STEPS
        first = step % STEPS * BLOCK_K
        own = choices == choice
        expert = tl.sum(tl.where(own, ids, 0), 0)
        weight = tl.sum(tl.where(own, weights, 0.0), 0)
        present = expert >= 0
        expert = tl.maximum(expert, 0).to(tl.int64)
        mask = present & (index >= 0)[:, None]
        words = tl.load(w2_ptr + expert * w2_expert_stride + first // 8 + words_at, mask=mask, other=0)
        exponents = tl.load(
            scale_ptr + expert * scale_expert_stride + first // _GROUP + scales_at, mask=mask, other=0
        ).to(tl.int32)
        x = tl.load(act_ptr + choice * INTER + first + x_at, mask=(present & (column < SPLIT))[:, None], other=0.0)
        if not EXACT:
            seen |= tl.reduce(exponents, 1, either)
        operand = weights_of(words, exponents, ROWS, BLOCK_K, QUADS, PAIRS, EXACT, PTX)
        total += tl.dot(operand, tl.trans(x)) * weight
    return total, tl.max(seen, 0)


@triton.jit
def token_tile(
    token, row_block,
    ids_ptr, weights_ptr, num_experts, scaling,
    act_ptr,
    w2_ptr, w2_expert_stride, w2_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    out_ptr,
    TOPK: tl.constexpr, CHOICES: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr, PTX: tl.constexpr,
    BLOCK_N: tl.constexpr, SPLIT: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
    QUADS: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """out[token, n] for BLOCK_N columns; CHOICES is a power of two >= TOPK.

    A row of weights is cut into SPLIT parts, each a row of the left operand; the right one has the same parts of the
    activations as columns, BLOCK_T >= SPLIT.  Of the product only a part's own column counts: a matrix instruction has
    the columns anyway, a program has few rows and long ones, and nothing is left to combine.
    """
    token = token.to(tl.int64)
    choice = tl.arange(0, CHOICES)
    ids = tl.load(ids_ptr + token * TOPK + choice, mask=choice < TOPK, other=-1)
    valid = (ids >= 0) & (ids < num_experts)
    ids = tl.where(valid, ids, -1).to(tl.int32)
    # An invalid slot's weight may hold NaN: it is not read.
    weights = tl.load(weights_ptr + token * TOPK + choice, mask=valid, other=0.0)
    total, seen = _weighted(
        ids, weights, row_block * BLOCK_N, act_ptr + token * (TOPK * INTER),
        w2_ptr, w2_expert_stride, w2_row_stride, scale_ptr, scale_expert_stride, scale_row_stride,
        TOPK, CHOICES, INTER, BLOCK_N, SPLIT, BLOCK_T, BLOCK_K, QUADS, PAIRS, False, PTX,
    )  # fmt: skip
    # As in kernels._mxfp4_tiles.multiply.
    if seen > _LARGEST_FAST_SCALE:
        total, seen = _weighted(
            ids, weights, row_block * BLOCK_N, act_ptr + token * (TOPK * INTER),
            w2_ptr, w2_expert_stride, w2_row_stride, scale_ptr, scale_expert_stride, scale_row_stride,
            TOPK, CHOICES, INTER, BLOCK_N, SPLIT, BLOCK_T, QUADS * _GROUP, QUADS, PAIRS, True, PTX,
        )  # fmt: skip
    part = tl.arange(0, SPLIT * BLOCK_N) // BLOCK_N
    picked = tl.sum(tl.where(part[:, None] == tl.arange(0, BLOCK_T)[None, :], total, 0.0), 1)
    result = tl.sum(tl.reshape(picked, (SPLIT, BLOCK_N)), 0) * scaling
    at = out_ptr + token * K + row_block * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(at, result.to(out_ptr.dtype.element_ty))
