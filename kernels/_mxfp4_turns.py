"""Both matrix multiplies of an MXFP4 mixture of experts in turns, within one launch and without a barrier between."""

import triton
import triton.language as tl

from kernels._mxfp4_tiles import FULL, down_tile, gate_up_tile, sorted_tile

# Where all columns are loaded.
_FULL = tl.constexpr(FULL)


@triton.jit
def clear_turns(turns_ptr, count, CHUNK: tl.constexpr):
    """Set ``count`` words of ``take_turns`` to 0."""
    for first in range(0, count, CHUNK):
        place = first + tl.arange(0, CHUNK)
        tl.store(turns_ptr + place, tl.zeros((CHUNK,), tl.int32), mask=place < count)


@triton.jit
def take_turns(
    turns_ptr, count, order_ptr, tiles_ptr,
    stored_ptr,
    w13_ptr, w13_expert_stride, w13_row_stride,
    w13_scale_ptr, w13_scale_expert_stride, w13_scale_row_stride,
    act_ptr, clamp_limit,
    w2_ptr, w2_expert_stride, w2_row_stride,
    w2_scale_ptr, w2_scale_expert_stride, w2_scale_row_stride,
    partial_ptr,
    TOPK: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr, HAS_CLAMP: tl.constexpr, PTX: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, DOWN_BLOCK_N: tl.constexpr, DOWN_BLOCK_K: tl.constexpr,
    BLOCK_T: tl.constexpr, QUADS: tl.constexpr, ACT_QUADS: tl.constexpr, PAIRS: tl.constexpr, DENSE: tl.constexpr,
):  # fmt: skip
    """All tiles of ``gate_up_tile``, then all of ``down_tile``, each taken by the block that is free.

    ``turns`` int32 ``[1 + count]``, 0 before: how many turns were taken, and how many row blocks of gate and up each
    group of slots has.  A down tile waits for those of its own group alone.  They were taken before it and their blocks
    wait for nothing, so the wait ends, however many blocks there are.
    """
    ROW_BLOCKS: tl.constexpr = INTER // BLOCK_N
    DOWN_ROW_BLOCKS: tl.constexpr = K // DOWN_BLOCK_N
    first_down = count * ROW_BLOCKS
    stop = first_down + count * DOWN_ROW_BLOCKS
    turn = tl.atomic_add(turns_ptr, 1, sem="relaxed")
    # Two loops, although one would do: registers that the second needs throughout are free in the first.
    while turn < first_down:
        number = turn // ROW_BLOCKS
        expert, slots, live = sorted_tile(number, order_ptr, tiles_ptr, BLOCK_T, BLOCK_T >= _FULL)
        gate_up_tile(
            expert, slots, live, turn % ROW_BLOCKS,
            stored_ptr, K,
            w13_ptr, w13_expert_stride, w13_row_stride,
            w13_scale_ptr, w13_scale_expert_stride, w13_scale_row_stride,
            act_ptr, clamp_limit,
            TOPK, K, INTER, HAS_CLAMP, PTX, BLOCK_N, BLOCK_T, BLOCK_K, QUADS, ACT_QUADS, PAIRS, DENSE, False,
        )  # fmt: skip
        # Every thread's stores before the one release that follows, see harness.launch.grid_barrier.
        tl.debug_barrier()
        tl.atomic_add(turns_ptr + 1 + number, 1, sem="release", scope="gpu")
        turn = tl.atomic_add(turns_ptr, 1, sem="relaxed")
    while turn < stop:
        tile = turn - first_down
        number = tile // DOWN_ROW_BLOCKS
        expert, slots, live = sorted_tile(number, order_ptr, tiles_ptr, BLOCK_T, BLOCK_T >= _FULL)
        done = tl.atomic_add(turns_ptr + 1 + number, 0, sem="acquire", scope="gpu")
        while done < ROW_BLOCKS:
            done = tl.atomic_add(turns_ptr + 1 + number, 0, sem="acquire", scope="gpu")
        down_tile(
            expert, slots, live, tile % DOWN_ROW_BLOCKS,
            act_ptr,
            w2_ptr, w2_expert_stride, w2_row_stride,
            w2_scale_ptr, w2_scale_expert_stride, w2_scale_row_stride,
            partial_ptr,
            K, INTER, PTX, DOWN_BLOCK_N, BLOCK_T, DOWN_BLOCK_K, ACT_QUADS, PAIRS, DENSE,
        )  # fmt: skip
        turn = tl.atomic_add(turns_ptr, 1, sem="relaxed")
