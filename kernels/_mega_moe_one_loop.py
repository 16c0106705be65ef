"""Both multiplies of ``mega_moe`` on large tiles as one loop."""

import triton
import triton.language as tl

from harness.launch.grid_barrier import grid_barrier
from kernels._fp4 import GROUP
from kernels._mxfp4_moe_kernels import swiglu
from kernels._mxfp4_tiles import multiply, sorted_tile
from kernels._mxfp4_words import stored_position

_GROUP = tl.constexpr(GROUP)


@triton.jit
def one_loop(
    passed, groups, order_ptr, tiles_ptr,
    stored_ptr,
    w13_ptr, w13_expert_stride, w13_scale_ptr, w13_scale_expert_stride,
    act_ptr, clamp_limit,
    w2_ptr, w2_expert_stride, w2_scale_ptr, w2_scale_expert_stride,
    partial_ptr,
    words_ptr, max_polls,
    TOPK: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr, HAS_CLAMP: tl.constexpr, PTX: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr, QUADS: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """All of ``gate_up_tile``, barrier number 2, all of ``down_tile``; whether the barrier was passed.

    Rows, scales and hidden states are dense, and both multiplies take the same blocks.  What the compiler works out
    for two loops together takes registers in both, more than a thread has: then the second took a tenth longer.
    """
    index = tl.arange(0, 2 * BLOCK_N)
    for second in tl.range(0, 2, loop_unroll_factor=1):
        if second == 0:
            word_ptr, expert_stride, scale_ptr, scale_expert_stride = (
                w13_ptr, w13_expert_stride, w13_scale_ptr, w13_scale_expert_stride
            )  # fmt: skip
            x_ptr = stored_ptr
            columns = K
            # Rows 0..BLOCK_N-1 are gate, the others up.
            rows_of_tile = BLOCK_N
            other_half = INTER
            row_blocks = INTER // BLOCK_N
            slots_of_row = TOPK
        else:
            passed = grid_barrier(words_ptr, 2, max_polls)
            word_ptr, expert_stride, scale_ptr, scale_expert_stride = (
                w2_ptr, w2_expert_stride, w2_scale_ptr, w2_scale_expert_stride
            )  # fmt: skip
            x_ptr = act_ptr
            columns = INTER
            rows_of_tile = 2 * BLOCK_N
            other_half = BLOCK_N
            row_blocks = K // (2 * BLOCK_N)
            slots_of_row = 1
        tiles = groups * row_blocks
        if not passed:
            tiles = 0
        for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
            expert, slots, live = sorted_tile(tile // row_blocks, order_ptr, tiles_ptr, BLOCK_T, True)
            first_row = tile % row_blocks * rows_of_tile
            row = first_row + index % BLOCK_N + index // BLOCK_N * other_half
            acc = multiply(
                word_ptr + expert * expert_stride, row * (columns // 8),
                scale_ptr + expert * scale_expert_stride, row * (columns // _GROUP),
                x_ptr, slots // slots_of_row * columns, live, columns,
                2 * BLOCK_N, BLOCK_T, BLOCK_K, QUADS, PAIRS, False, PTX,
            )  # fmt: skip
            if second == 0:
                gate, up = tl.split(tl.permute(tl.reshape(acc, (2, BLOCK_N, BLOCK_T)), (1, 2, 0)))
                act = swiglu(gate, up, clamp_limit, HAS_CLAMP)
                place = stored_position(first_row + tl.arange(0, BLOCK_N), QUADS, PAIRS)
                act_ptrs = act_ptr + slots.to(tl.int64)[None, :] * INTER + place[:, None]
                tl.store(act_ptrs, act.to(act_ptr.dtype.element_ty), mask=live[None, :])
            else:
                tl.store(partial_ptr + slots.to(tl.int64)[None, :] * K + row[:, None], acc, mask=live[None, :])
    return passed
