"""Device code of ``kernels.mxfp4_moe`` and ``kernels.mega_moe``: gate and up, down, combine, tile by tile.

Weights are the left operand of every matrix multiply and slots its columns.  A column is computed the same way
whatever stands in the others, so a token's result does not depend on the batch around it.  Block sizes divide the
weights' sizes exactly; only the slot axis is masked.
"""

import triton
import triton.language as tl

from kernels._fp4 import GROUP, code_offsets, dequantise
from kernels._moe_routing import group_slots

_GROUP = tl.constexpr(GROUP)
# Slots of a token up to which their sum is no loop.
_UNROLLED = tl.constexpr(8)


@triton.jit
def swiglu(gate, up, clamp_limit, HAS_CLAMP: tl.constexpr):
    """silu(gate) * up, float32; with HAS_CLAMP gate is at most ``clamp_limit`` and up within plus and minus it."""
    if HAS_CLAMP:
        # Comparisons that are false for NaN: it passes.
        gate = tl.where(gate > clamp_limit, clamp_limit, gate)
        up = tl.where(up > clamp_limit, clamp_limit, tl.where(up < -clamp_limit, -clamp_limit, up))
    return gate / (1.0 + tl.exp(-gate)) * up


@triton.jit
def _round_to_tf32(x):
    # Nearest even on the 10 explicit mantissa bits that a tf32 operand keeps; the hardware would truncate.
    bits = x.to(tl.uint32, bitcast=True)
    rounded = (bits + 0x0FFF + ((bits >> 13) & 1)) & 0xFFFFE000
    # A NaN's payload could carry into the sign.
    return tl.where(x == x, rounded.to(tl.float32, bitcast=True), x)


@triton.jit
def _weights(code_ptrs, scale_ptrs, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, OPERAND: tl.constexpr):
    return dequantise(tl.load(code_ptrs), tl.load(scale_ptrs), BLOCK_N, BLOCK_K, OPERAND)


@triton.jit
def gate_up_tile(
    expert, slots, row_block,
    hidden_ptr, hidden_stride,
    w13_ptr, w13_expert_stride, w13_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    act_ptr, clamp_limit,
    TOPK: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr, HAS_CLAMP: tl.constexpr,
    OPERAND: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """act[slot, n] = silu(gate) * up for a group's ``slots`` and BLOCK_N rows of each half of an expert's w13."""
    live = slots >= 0
    token = (tl.where(live, slots, 0) // TOPK).to(tl.int64)
    x_ptrs = hidden_ptr + token[:, None] * hidden_stride + tl.arange(0, BLOCK_K)[None, :]

    # int64: expert * stride passes 2**31 at 512 experts of 2 x 1024 rows of 2048 bytes.
    row = row_block.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    gate_codes = w13_ptr + expert * w13_expert_stride + (row * w13_row_stride)[:, None, None] + code_offsets(BLOCK_K)
    gate_scales = scale_ptr + expert * scale_expert_stride
    gate_scales += (row * scale_row_stride)[:, None] + tl.arange(0, BLOCK_K // _GROUP)[None, :]
    half = tl.full((), INTER, tl.int64)
    up_codes = gate_codes + half * w13_row_stride
    up_scales = gate_scales + half * scale_row_stride

    gate = tl.zeros((BLOCK_N, BLOCK_T), tl.float32)
    up = tl.zeros((BLOCK_N, BLOCK_T), tl.float32)
    for _ in range(0, K, BLOCK_K):
        x = tl.trans(tl.load(x_ptrs, mask=live[:, None], other=0.0).to(OPERAND))
        weights = _weights(gate_codes, gate_scales, BLOCK_N, BLOCK_K, OPERAND)
        gate = tl.dot(weights, x, gate, input_precision=PRECISION)
        weights = _weights(up_codes, up_scales, BLOCK_N, BLOCK_K, OPERAND)
        up = tl.dot(weights, x, up, input_precision=PRECISION)
        x_ptrs += BLOCK_K
        gate_codes += BLOCK_K // 2
        up_codes += BLOCK_K // 2
        gate_scales += BLOCK_K // _GROUP
        up_scales += BLOCK_K // _GROUP

    act = swiglu(gate, up, clamp_limit, HAS_CLAMP)
    if PRECISION == "tf32":
        act = _round_to_tf32(act)
    act_ptrs = act_ptr + slots.to(tl.int64)[None, :] * INTER + row[:, None]
    tl.store(act_ptrs, act.to(act_ptr.dtype.element_ty), mask=live[None, :])


@triton.jit
def down_tile(
    expert, slots, row_block,
    act_ptr,
    w2_ptr, w2_expert_stride, w2_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    partial_ptr,
    K: tl.constexpr, INTER: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """partial[slot, n] = act[slot] . w2[expert, n] for a group's ``slots`` and BLOCK_N rows of an expert's w2."""
    live = slots >= 0
    slot = slots.to(tl.int64)
    x_ptrs = act_ptr + slot[:, None] * INTER + tl.arange(0, BLOCK_K)[None, :]

    row = row_block.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    codes = w2_ptr + expert * w2_expert_stride + (row * w2_row_stride)[:, None, None] + code_offsets(BLOCK_K)
    scales = scale_ptr + expert * scale_expert_stride
    scales += (row * scale_row_stride)[:, None] + tl.arange(0, BLOCK_K // _GROUP)[None, :]

    acc = tl.zeros((BLOCK_N, BLOCK_T), tl.float32)
    for _ in range(0, INTER, BLOCK_K):
        x = tl.trans(tl.load(x_ptrs, mask=live[:, None], other=0.0).to(OPERAND))
        acc = tl.dot(_weights(codes, scales, BLOCK_N, BLOCK_K, OPERAND), x, acc, input_precision=PRECISION)
        x_ptrs += BLOCK_K
        codes += BLOCK_K // 2
        scales += BLOCK_K // _GROUP
    tl.store(partial_ptr + slot[None, :] * K + row[:, None], acc, mask=live[None, :])


@triton.jit
def _add_slot(total, slot, column, partial_ptr, ids_ptr, weights_ptr, num_experts, K: tl.constexpr):
    expert = tl.load(ids_ptr + slot)
    valid = (expert >= 0) & (expert < num_experts)
    # An invalid slot's weight and its never written partial row may hold NaN: neither is read.
    weight = tl.load(weights_ptr + slot, mask=valid, other=0.0)
    total += weight * tl.load(partial_ptr + slot * K + column, mask=(column < K) & valid, other=0.0)
    return total


@triton.jit
def combine_tile(
    token, column_block, partial_ptr, ids_ptr, weights_ptr, out_ptr, num_experts, scaling,
    TOPK: tl.constexpr, K: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out[m] = scaling * sum over the token's slots, in order, of weight * partial: float32, one rounding."""
    token = token.to(tl.int64)
    column = column_block * BLOCK_K + tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_K,), tl.float32)
    if TOPK <= _UNROLLED:
        # The loads of all slots at once.
        for choice in tl.static_range(TOPK):
            slot = token * TOPK + choice
            total = _add_slot(total, slot, column, partial_ptr, ids_ptr, weights_ptr, num_experts, K)
    else:
        for choice in range(TOPK):
            slot = token * TOPK + choice
            total = _add_slot(total, slot, column, partial_ptr, ids_ptr, weights_ptr, num_experts, K)
    tl.store(out_ptr + token * K + column, (total * scaling).to(out_ptr.dtype.element_ty), mask=column < K)


@triton.jit
def mxfp4_gate_up_kernel(
    ids_ptr, tiles_ptr, num_slots, num_experts,
    hidden_ptr, hidden_stride,
    w13_ptr, w13_expert_stride, w13_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    act_ptr, clamp_limit,
    TOPK: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr, HAS_CLAMP: tl.constexpr,
    OPERAND: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    """``gate_up_tile`` of every group and row block.  Grid: (groups, INTER / BLOCK_N).

    ``act`` is ``[S, INTER]``, bfloat16 or float32; rows of slots in no group are not written.
    """
    expert, slots = group_slots(tl.program_id(0), ids_ptr, tiles_ptr, num_slots, num_experts, BLOCK_T, WINDOW)
    if expert < 0:
        return
    gate_up_tile(
        expert, slots, tl.program_id(1),
        hidden_ptr, hidden_stride,
        w13_ptr, w13_expert_stride, w13_row_stride,
        scale_ptr, scale_expert_stride, scale_row_stride,
        act_ptr, clamp_limit,
        TOPK, K, INTER, HAS_CLAMP, OPERAND, PRECISION, BLOCK_N, BLOCK_T, BLOCK_K,
    )  # fmt: skip


@triton.jit
def mxfp4_down_kernel(
    ids_ptr, tiles_ptr, num_slots, num_experts,
    act_ptr,
    w2_ptr, w2_expert_stride, w2_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    partial_ptr,
    K: tl.constexpr, INTER: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    """``down_tile`` of every group and row block.  Grid: (groups, K / BLOCK_N).

    ``partial`` is float32 ``[S, K]``; rows of slots in no group are not written.
    """
    expert, slots = group_slots(tl.program_id(0), ids_ptr, tiles_ptr, num_slots, num_experts, BLOCK_T, WINDOW)
    if expert < 0:
        return
    down_tile(
        expert, slots, tl.program_id(1),
        act_ptr,
        w2_ptr, w2_expert_stride, w2_row_stride,
        scale_ptr, scale_expert_stride, scale_row_stride,
        partial_ptr,
        K, INTER, OPERAND, PRECISION, BLOCK_N, BLOCK_T, BLOCK_K,
    )  # fmt: skip


@triton.jit
def mxfp4_combine_kernel(
    partial_ptr, ids_ptr, weights_ptr, out_ptr, num_experts, scaling,
    TOPK: tl.constexpr, K: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """``combine_tile`` of every token and column block.  Grid: (M, ceil(K / BLOCK_K))."""
    combine_tile(
        tl.program_id(0), tl.program_id(1), partial_ptr, ids_ptr, weights_ptr, out_ptr, num_experts, scaling,
        TOPK, K, BLOCK_K,
    )  # fmt: skip
