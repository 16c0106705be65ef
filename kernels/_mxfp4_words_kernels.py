"""Kernels of a forward on 32-bit words of MXFP4 weights: preparation, the two multiplies, combination."""

import triton
import triton.language as tl

from kernels._mxfp4_moe_kernels import combine_tile
from kernels._mxfp4_slot_tiles import slot_gate_up_tile, token_tile
from kernels._mxfp4_tiles import down_tile, gate_up_tile, reorder_tile, sort_slots, sorted_tile
from kernels._mxfp4_turns import clear_turns, take_turns
from kernels._overlap import let_next_start, wait_for_previous


@triton.jit
def words_prepare_kernel(
    ids_ptr, num_slots, num_experts,
    order_ptr, tiles_ptr, used_ptr, large_first, turns_ptr, num_turns,
    hidden_ptr, hidden_stride, stored_ptr, num_tokens,
    K: tl.constexpr, QUADS: tl.constexpr, PAIRS: tl.constexpr, OTHER_PAIRS: tl.constexpr, BLOCK_K: tl.constexpr,
    EXPERTS: tl.constexpr, CHUNK: tl.constexpr, SMALL: tl.constexpr, LARGE: tl.constexpr, MOST_SMALL: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    """``sort_slots``, ``reorder_tile``, and ``turns`` cleared.  Grid: (experts + M K / BLOCK_K,)."""
    # Not before: what starts then may read what launches before this one wrote.
    wait_for_previous(OVERLAP)
    let_next_start(OVERLAP)
    if turns_ptr is not None:  # noqa: SIM102 (decided by the compiler)
        if tl.program_id(0) == 0:
            clear_turns(turns_ptr, num_turns, CHUNK)
    number = tl.program_id(0)
    if number < num_experts:
        sort_slots(
            number, num_experts, ids_ptr, num_slots, num_experts, order_ptr, tiles_ptr, used_ptr, large_first,
            EXPERTS, CHUNK, SMALL, LARGE, MOST_SMALL, 1,
        )  # fmt: skip
    else:
        reorder_tile(
            number - num_experts, hidden_ptr, hidden_stride, stored_ptr, num_tokens,
            K, QUADS, PAIRS, OTHER_PAIRS, 1, BLOCK_K,
        )  # fmt: skip


@triton.jit
def words_gate_up_kernel(
    order_ptr, tiles_ptr, used_ptr, first_tile,
    hidden_ptr, hidden_stride,
    w13_ptr, w13_expert_stride, w13_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    act_ptr, clamp_limit,
    TOPK: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr, HAS_CLAMP: tl.constexpr,
    PTX: tl.constexpr, OVERLAP: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
    QUADS: tl.constexpr, ACT_QUADS: tl.constexpr, PAIRS: tl.constexpr, DENSE: tl.constexpr,
):  # fmt: skip
    """``gate_up_tile`` of every sorted tile and row block.  Grid: (at most tiles * INTER / BLOCK_N,).

    Programs take further tiles in turn; ``order``, ``tiles`` and ``used`` are those of ``sort_slots``.
    """
    ROW_BLOCKS: tl.constexpr = INTER // BLOCK_N
    number = tl.program_id(0)
    wait_for_previous(OVERLAP)
    for each in range(number, tl.load(used_ptr) * ROW_BLOCKS, tl.num_programs(0)):
        expert, slots, live = sorted_tile(first_tile + each // ROW_BLOCKS, order_ptr, tiles_ptr, BLOCK_T, True)
        gate_up_tile(
            expert, slots, live, each % ROW_BLOCKS,
            hidden_ptr, hidden_stride,
            w13_ptr, w13_expert_stride, w13_row_stride,
            scale_ptr, scale_expert_stride, scale_row_stride,
            act_ptr, clamp_limit,
            TOPK, K, INTER, HAS_CLAMP, PTX, BLOCK_N, BLOCK_T, BLOCK_K, QUADS, ACT_QUADS, PAIRS, DENSE, False,
        )  # fmt: skip
    let_next_start(OVERLAP)


@triton.jit
def words_down_kernel(
    order_ptr, tiles_ptr, used_ptr, first_tile,
    act_ptr,
    w2_ptr, w2_expert_stride, w2_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    partial_ptr,
    K: tl.constexpr, INTER: tl.constexpr, PTX: tl.constexpr, OVERLAP: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
    QUADS: tl.constexpr, PAIRS: tl.constexpr, DENSE: tl.constexpr,
):  # fmt: skip
    """``down_tile`` of every sorted tile and row block.  Grid: (at most tiles * K / BLOCK_N,)."""
    ROW_BLOCKS: tl.constexpr = K // BLOCK_N
    number = tl.program_id(0)
    wait_for_previous(OVERLAP)
    for each in range(number, tl.load(used_ptr) * ROW_BLOCKS, tl.num_programs(0)):
        expert, slots, live = sorted_tile(first_tile + each // ROW_BLOCKS, order_ptr, tiles_ptr, BLOCK_T, True)
        down_tile(
            expert, slots, live, each % ROW_BLOCKS,
            act_ptr,
            w2_ptr, w2_expert_stride, w2_row_stride,
            scale_ptr, scale_expert_stride, scale_row_stride,
            partial_ptr,
            K, INTER, PTX, BLOCK_N, BLOCK_T, BLOCK_K, QUADS, PAIRS, DENSE,
        )  # fmt: skip
    let_next_start(OVERLAP)


@triton.jit
def words_slot_kernel(
    ids_ptr, num_experts,
    hidden_ptr, hidden_stride,
    w13_ptr, w13_expert_stride, w13_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    act_ptr, clamp_limit,
    TOPK: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr, HAS_CLAMP: tl.constexpr,
    PTX: tl.constexpr, OVERLAP: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
    QUADS: tl.constexpr, ACT_QUADS: tl.constexpr, PAIRS: tl.constexpr, DENSE: tl.constexpr,
):  # fmt: skip
    """``gate_up_tile`` of every slot and row block, without a preparation.  Grid: (S * INTER / BLOCK_N,)."""
    wait_for_previous(OVERLAP)
    slot_gate_up_tile(
        tl.program_id(0), ids_ptr, num_experts,
        hidden_ptr, hidden_stride,
        w13_ptr, w13_expert_stride, w13_row_stride,
        scale_ptr, scale_expert_stride, scale_row_stride,
        act_ptr, clamp_limit,
        TOPK, K, INTER, HAS_CLAMP, PTX, BLOCK_N, BLOCK_T, BLOCK_K, QUADS, ACT_QUADS, PAIRS, DENSE,
    )  # fmt: skip
    let_next_start(OVERLAP)


@triton.jit
def words_token_kernel(
    ids_ptr, weights_ptr, num_experts, scaling,
    act_ptr,
    w2_ptr, w2_expert_stride, w2_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    out_ptr,
    TOPK: tl.constexpr, CHOICES: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr,
    PTX: tl.constexpr, OVERLAP: tl.constexpr,
    BLOCK_N: tl.constexpr, SPLIT: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
    QUADS: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """``token_tile`` of every token and row block.  Grid: (M * K / BLOCK_N,)."""
    ROW_BLOCKS: tl.constexpr = K // BLOCK_N
    number = tl.program_id(0)
    wait_for_previous(OVERLAP)
    token_tile(
        number // ROW_BLOCKS, number % ROW_BLOCKS,
        ids_ptr, weights_ptr, num_experts, scaling,
        act_ptr,
        w2_ptr, w2_expert_stride, w2_row_stride,
        scale_ptr, scale_expert_stride, scale_row_stride,
        out_ptr,
        TOPK, CHOICES, K, INTER, PTX, BLOCK_N, SPLIT, BLOCK_T, BLOCK_K, QUADS, PAIRS,
    )  # fmt: skip
    let_next_start(OVERLAP)


@triton.jit
def words_experts_kernel(
    order_ptr, tiles_ptr, used_ptr, first_tile, turns_ptr,
    hidden_ptr,
    w13_ptr, w13_expert_stride, w13_row_stride,
    w13_scale_ptr, w13_scale_expert_stride, w13_scale_row_stride,
    act_ptr, clamp_limit,
    w2_ptr, w2_expert_stride, w2_row_stride,
    w2_scale_ptr, w2_scale_expert_stride, w2_scale_row_stride,
    partial_ptr,
    TOPK: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr, HAS_CLAMP: tl.constexpr,
    PTX: tl.constexpr, OVERLAP: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, DOWN_BLOCK_N: tl.constexpr, DOWN_BLOCK_K: tl.constexpr,
    BLOCK_T: tl.constexpr, QUADS: tl.constexpr, ACT_QUADS: tl.constexpr, PAIRS: tl.constexpr, DENSE: tl.constexpr,
):  # fmt: skip
    """``take_turns`` on the tiles of one kind of ``sort_slots``.  Grid: any one-dimensional one."""
    wait_for_previous(OVERLAP)
    take_turns(
        turns_ptr, tl.load(used_ptr), order_ptr, tiles_ptr + first_tile * 3,
        hidden_ptr,
        w13_ptr, w13_expert_stride, w13_row_stride,
        w13_scale_ptr, w13_scale_expert_stride, w13_scale_row_stride,
        act_ptr, clamp_limit,
        w2_ptr, w2_expert_stride, w2_row_stride,
        w2_scale_ptr, w2_scale_expert_stride, w2_scale_row_stride,
        partial_ptr,
        TOPK, K, INTER, HAS_CLAMP, PTX, BLOCK_N, BLOCK_K, DOWN_BLOCK_N, DOWN_BLOCK_K,
        BLOCK_T, QUADS, ACT_QUADS, PAIRS, DENSE,
    )  # fmt: skip
    let_next_start(OVERLAP)


@triton.jit
def words_combine_kernel(
    partial_ptr, ids_ptr, weights_ptr, out_ptr, num_experts, scaling,
    TOPK: tl.constexpr, K: tl.constexpr, BLOCK_K: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """``combine_tile`` of every token and column block.  Grid: (M, ceil(K / BLOCK_K))."""
    let_next_start(OVERLAP)
    wait_for_previous(OVERLAP)
    combine_tile(
        tl.program_id(0), tl.program_id(1), partial_ptr, ids_ptr, weights_ptr, out_ptr, num_experts, scaling,
        TOPK, K, BLOCK_K,
    )  # fmt: skip
