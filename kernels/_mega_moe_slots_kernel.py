"""Device code of ``kernels.mega_moe`` for few tokens: both multiplies of 32-bit words of weights in one launch."""

import triton
import triton.language as tl

from harness.launch.grid_barrier import grid_barrier, grid_leave
from kernels._mxfp4_slot_tiles import slot_gate_up_tile, token_tile


# Batch sizes vary from call to call: one kernel serves them all.
@triton.jit(do_not_specialize=["num_slots", "num_tokens"])
def mega_moe_slots_kernel(
    ids_ptr, weights_ptr, num_slots, num_tokens, num_experts,
    hidden_ptr, hidden_stride,
    w13_ptr, w13_expert_stride, w13_row_stride,
    w13_scale_ptr, w13_scale_expert_stride, w13_scale_row_stride,
    act_ptr, clamp_limit,
    w2_ptr, w2_expert_stride, w2_row_stride,
    w2_scale_ptr, w2_scale_expert_stride, w2_scale_row_stride,
    out_ptr, scaling,
    words_ptr, max_polls,
    TOPK: tl.constexpr, CHOICES: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr, HAS_CLAMP: tl.constexpr,
    PTX: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    DOWN_BLOCK_N: tl.constexpr, DOWN_BLOCK_K: tl.constexpr, SPLIT: tl.constexpr,
    BLOCK_T: tl.constexpr, QUADS: tl.constexpr, ACT_QUADS: tl.constexpr, PAIRS: tl.constexpr, DENSE: tl.constexpr,
):  # fmt: skip
    """A slot a tile of gate and up, a token one of down with the sum over its slots; nothing to prepare or combine.

    Grid: any one-dimensional one whose blocks are all resident, as for ``mega_moe_words_kernel``.
    """
    block, blocks = tl.program_id(0), tl.num_programs(0)
    DOWN_ROW_BLOCKS: tl.constexpr = K // DOWN_BLOCK_N
    for tile in range(block, num_slots * (INTER // BLOCK_N), blocks):
        slot_gate_up_tile(
            tile, ids_ptr, num_experts,
            hidden_ptr, hidden_stride,
            w13_ptr, w13_expert_stride, w13_row_stride,
            w13_scale_ptr, w13_scale_expert_stride, w13_scale_row_stride,
            act_ptr, clamp_limit,
            TOPK, K, INTER, HAS_CLAMP, PTX, BLOCK_N, BLOCK_T, BLOCK_K, QUADS, ACT_QUADS, PAIRS, DENSE,
        )  # fmt: skip

    passed = grid_barrier(words_ptr, 1, max_polls)
    if passed:
        for tile in range(block, num_tokens * DOWN_ROW_BLOCKS, blocks):
            token_tile(
                tile // DOWN_ROW_BLOCKS, tile % DOWN_ROW_BLOCKS,
                ids_ptr, weights_ptr, num_experts, scaling,
                act_ptr,
                w2_ptr, w2_expert_stride, w2_row_stride,
                w2_scale_ptr, w2_scale_expert_stride, w2_scale_row_stride,
                out_ptr,
                TOPK, CHOICES, K, INTER, PTX, DOWN_BLOCK_N, SPLIT, BLOCK_T, DOWN_BLOCK_K, ACT_QUADS, PAIRS,
            )  # fmt: skip

    grid_leave(words_ptr)
