"""Device code of ``kernels.mega_moe``: the three steps of an MXFP4 mixture of experts in one launch."""

import triton
import triton.language as tl

from harness.launch.grid_barrier import grid_barrier, grid_leave
from kernels._moe_routing import group_slots
from kernels._mxfp4_moe_kernels import combine_tile, down_tile, gate_up_tile


# Batch sizes vary from call to call: one kernel serves them all.
@triton.jit(do_not_specialize=["num_slots", "groups", "num_tokens"])
def mega_moe_kernel(
    ids_ptr, tiles_ptr, num_slots, num_experts,
    groups, num_tokens,
    hidden_ptr, hidden_stride,
    w13_ptr, w13_expert_stride, w13_row_stride,
    w13_scale_ptr, w13_scale_expert_stride, w13_scale_row_stride,
    act_ptr, clamp_limit,
    w2_ptr, w2_expert_stride, w2_row_stride,
    w2_scale_ptr, w2_scale_expert_stride, w2_scale_row_stride,
    partial_ptr,
    topk_ids_ptr, topk_weights_ptr, out_ptr, scaling,
    words_ptr, max_polls,
    TOPK: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr, HAS_CLAMP: tl.constexpr,
    OPERAND: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, DOWN_BLOCK_N: tl.constexpr, DOWN_BLOCK_K: tl.constexpr,
    COMBINE_BLOCK: tl.constexpr, BLOCK_T: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    """All tiles of ``gate_up_tile``, then all of ``down_tile``, then all of ``combine_tile``.

    Grid: any one-dimensional one whose blocks are all resident.  Tiles of a step are dealt round the blocks; a tile of
    the next step reads what any block stored, so a grid barrier is between.  After a timeout ``out`` is not complete.
    """
    block, blocks = tl.program_id(0), tl.num_programs(0)

    for tile in range(block, groups * (INTER // BLOCK_N), blocks):
        group, row_block = tile // (INTER // BLOCK_N), tile % (INTER // BLOCK_N)
        expert, slots = group_slots(group, ids_ptr, tiles_ptr, num_slots, num_experts, BLOCK_T, WINDOW)
        if expert >= 0:
            gate_up_tile(
                expert, slots, row_block,
                hidden_ptr, hidden_stride,
                w13_ptr, w13_expert_stride, w13_row_stride,
                w13_scale_ptr, w13_scale_expert_stride, w13_scale_row_stride,
                act_ptr, clamp_limit,
                TOPK, K, INTER, HAS_CLAMP, OPERAND, PRECISION, BLOCK_N, BLOCK_T, BLOCK_K,
            )  # fmt: skip

    passed = grid_barrier(words_ptr, 1, max_polls)
    if passed:
        for tile in range(block, groups * (K // DOWN_BLOCK_N), blocks):
            group, row_block = tile // (K // DOWN_BLOCK_N), tile % (K // DOWN_BLOCK_N)
            expert, slots = group_slots(group, ids_ptr, tiles_ptr, num_slots, num_experts, BLOCK_T, WINDOW)
            if expert >= 0:
                down_tile(
                    expert, slots, row_block,
                    act_ptr,
                    w2_ptr, w2_expert_stride, w2_row_stride,
                    w2_scale_ptr, w2_scale_expert_stride, w2_scale_row_stride,
                    partial_ptr,
                    K, INTER, OPERAND, PRECISION, DOWN_BLOCK_N, BLOCK_T, DOWN_BLOCK_K,
                )  # fmt: skip

    passed = grid_barrier(words_ptr, 2, max_polls)
    if passed:
        columns = tl.cdiv(K, COMBINE_BLOCK)
        for tile in range(block, num_tokens * columns, blocks):
            combine_tile(
                tile // columns, tile % columns,
                partial_ptr, topk_ids_ptr, topk_weights_ptr, out_ptr, num_experts, scaling,
                TOPK, K, COMBINE_BLOCK,
            )  # fmt: skip

    grid_leave(words_ptr)
