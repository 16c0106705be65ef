"""Device code of ``kernels.mega_moe`` on 32-bit words of weights: all steps of a mixture of experts in one launch."""

import triton
import triton.language as tl

from harness.launch.grid_barrier import grid_barrier, grid_leave
from kernels._mega_moe_one_loop import one_loop
from kernels._mxfp4_moe_kernels import combine_tile
from kernels._mxfp4_tiles import down_tile, gate_up_tile, reorder_tile, sort_slots, sorted_tile
from kernels._mxfp4_turns import clear_turns, take_turns


# Batch sizes vary from call to call: one kernel serves them all.
@triton.jit(do_not_specialize=["num_slots", "num_tokens"])
def mega_moe_words_kernel(
    ids_ptr, weights_ptr, num_slots, num_tokens, num_experts,
    order_ptr, tiles_ptr, used_ptr, turns_ptr,
    hidden_ptr, hidden_stride, stored_ptr,
    w13_ptr, w13_expert_stride, w13_row_stride,
    w13_scale_ptr, w13_scale_expert_stride, w13_scale_row_stride,
    act_ptr, clamp_limit,
    w2_ptr, w2_expert_stride, w2_row_stride,
    w2_scale_ptr, w2_scale_expert_stride, w2_scale_row_stride,
    partial_ptr, out_ptr, scaling,
    words_ptr, max_polls,
    TOPK: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr, HAS_CLAMP: tl.constexpr, PTX: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    DOWN_BLOCK_N: tl.constexpr, DOWN_BLOCK_K: tl.constexpr,
    BLOCK_T: tl.constexpr, QUADS: tl.constexpr, ACT_QUADS: tl.constexpr, PAIRS: tl.constexpr, DENSE: tl.constexpr,
    EXPERTS: tl.constexpr, CHUNK: tl.constexpr,
    PREPARE_TOKENS: tl.constexpr, PREPARE_BLOCK: tl.constexpr, COMBINE_BLOCK: tl.constexpr,
):  # fmt: skip
    """Slots sorted by expert.  With ``turns_ptr``, int32 ``[1 + num_slots]``, tiles are taken in turns: ``take_turns``.

    Grid: any one-dimensional one whose blocks are all resident.  Tiles of a step are dealt round the blocks; a tile of
    the next step reads what any block stored, so a grid barrier is between.  After a timeout ``out`` is not complete.
    """
    block, blocks = tl.program_id(0), tl.num_programs(0)
    ROW_BLOCKS: tl.constexpr = INTER // BLOCK_N
    DOWN_ROW_BLOCKS: tl.constexpr = K // DOWN_BLOCK_N
    ONE_LOOP: tl.constexpr = (
        DENSE and DOWN_BLOCK_N == 2 * BLOCK_N and DOWN_BLOCK_K == BLOCK_K and ACT_QUADS == QUADS and turns_ptr is None
    )
    # Where tiles are small, there are more blocks than experts.
    TOGETHER: tl.constexpr = 2 if turns_ptr is None else 1
    if block < num_experts:
        sort_slots(
            block, blocks, ids_ptr, num_slots, num_experts, order_ptr, tiles_ptr, used_ptr, 0,
            EXPERTS, CHUNK, BLOCK_T, BLOCK_T, 1 << 30, TOGETHER,
        )  # fmt: skip
    for tile in range(block, tl.cdiv(num_tokens, PREPARE_TOKENS) * (K // PREPARE_BLOCK), blocks):
        reorder_tile(
            tile, hidden_ptr, hidden_stride, stored_ptr, num_tokens,
            K, QUADS, PAIRS, PAIRS, PREPARE_TOKENS, PREPARE_BLOCK,
        )  # fmt: skip

    if turns_ptr is not None:  # noqa: SIM102 (decided by the compiler)
        if block == 0:
            clear_turns(turns_ptr, 1 + num_slots, CHUNK)

    passed = grid_barrier(words_ptr, 1, max_polls)
    if turns_ptr is not None:
        if passed:
            take_turns(
                turns_ptr, tl.load(used_ptr), order_ptr, tiles_ptr,
                stored_ptr,
                w13_ptr, w13_expert_stride, w13_row_stride,
                w13_scale_ptr, w13_scale_expert_stride, w13_scale_row_stride,
                act_ptr, clamp_limit,
                w2_ptr, w2_expert_stride, w2_row_stride,
                w2_scale_ptr, w2_scale_expert_stride, w2_scale_row_stride,
                partial_ptr,
                TOPK, K, INTER, HAS_CLAMP, PTX, BLOCK_N, BLOCK_K, DOWN_BLOCK_N, DOWN_BLOCK_K,
                BLOCK_T, QUADS, ACT_QUADS, PAIRS, DENSE,
            )  # fmt: skip
        passed = grid_barrier(words_ptr, 2, max_polls)
    elif ONE_LOOP:
        passed = one_loop(
            passed, tl.load(used_ptr), order_ptr, tiles_ptr,
            stored_ptr,
            w13_ptr, w13_expert_stride, w13_scale_ptr, w13_scale_expert_stride,
            act_ptr, clamp_limit,
            w2_ptr, w2_expert_stride, w2_scale_ptr, w2_scale_expert_stride,
            partial_ptr,
            words_ptr, max_polls,
            TOPK, K, INTER, HAS_CLAMP, PTX, BLOCK_N, BLOCK_T, BLOCK_K, QUADS, PAIRS,
        )  # fmt: skip
        passed = grid_barrier(words_ptr, 3, max_polls)
    else:
        if passed:
            for tile in range(block, tl.load(used_ptr) * ROW_BLOCKS, blocks):
                expert, slots, live = sorted_tile(tile // ROW_BLOCKS, order_ptr, tiles_ptr, BLOCK_T, True)
                gate_up_tile(
                    expert, slots, live, tile % ROW_BLOCKS,
                    stored_ptr, K,
                    w13_ptr, w13_expert_stride, w13_row_stride,
                    w13_scale_ptr, w13_scale_expert_stride, w13_scale_row_stride,
                    act_ptr, clamp_limit,
                    TOPK, K, INTER, HAS_CLAMP, PTX, BLOCK_N, BLOCK_T, BLOCK_K, QUADS, ACT_QUADS, PAIRS, DENSE, False,
                )  # fmt: skip
        passed = grid_barrier(words_ptr, 2, max_polls)
        if passed:
            for tile in range(block, tl.load(used_ptr) * DOWN_ROW_BLOCKS, blocks):
                expert, slots, live = sorted_tile(tile // DOWN_ROW_BLOCKS, order_ptr, tiles_ptr, BLOCK_T, True)
                down_tile(
                    expert, slots, live, tile % DOWN_ROW_BLOCKS,
                    act_ptr,
                    w2_ptr, w2_expert_stride, w2_row_stride,
                    w2_scale_ptr, w2_scale_expert_stride, w2_scale_row_stride,
                    partial_ptr,
                    K, INTER, PTX, DOWN_BLOCK_N, BLOCK_T, DOWN_BLOCK_K, ACT_QUADS, PAIRS, DENSE,
                )  # fmt: skip
        passed = grid_barrier(words_ptr, 3, max_polls)
    if passed:
        columns = tl.cdiv(K, COMBINE_BLOCK)
        for tile in range(block, num_tokens * columns, blocks):
            combine_tile(
                tile // columns, tile % columns,
                partial_ptr, ids_ptr, weights_ptr, out_ptr, num_experts, scaling,
                TOPK, K, COMBINE_BLOCK,
            )  # fmt: skip

    grid_leave(words_ptr)
