"""The two matrix multiplies of an MXFP4 expert on 32-bit words of weights, tile by tile, and how slots are grouped.

Weights are the left operand and slots the columns.  Within one kind of tile a column is computed the same way whatever
stands in the others, so a token's result depends on the batch around it only in the kind of tile that this chooses.
"""

import triton
import triton.language as tl

from kernels._fp4 import GROUP
from kernels._mxfp4_moe_kernels import swiglu
from kernels._mxfp4_words import LARGEST_FAST_SCALE, stored_position, to_stored_order, weights_of
from kernels._wgmma import registers_free

_GROUP = tl.constexpr(GROUP)
_LARGEST_FAST_SCALE = tl.constexpr(LARGEST_FAST_SCALE)
# Slots of a tile of wgmma from which scales are loaded a step ahead: a row has too few bytes of them to be copied
# asynchronously, and waiting for them takes a tenth of the time.
# And in turns, with two steps of K, what ptxas of Triton 3.6 made of the load within the step was wrong on an H200
# (right without ptxas' optimisations, and right in the portable form).
_AHEAD = tl.constexpr(64)
#: Slots of a tile from which columns that are not live are loaded like the others: masks take registers and a tenth of
# the instructions, few columns are not live, and what they hold is not stored.  Of small tiles most are not.
FULL = 64
_FULL = tl.constexpr(FULL)


@triton.jit
def either(a, b):
    """Bits that are set in one of two integers: what scale bytes are reduced by."""
    return a | b


@triton.jit
def _products(
    word_ptr, rows, scale_ptr, scale_rows, x_ptr, x_rows, live, K,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr, QUADS: tl.constexpr,
    PAIRS: tl.constexpr, ALIKE: tl.constexpr, EXACT: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    GROUPS: tl.constexpr = BLOCK_K // _GROUP
    words_at = rows[:, None] + tl.arange(0, BLOCK_K // 8)[None, :]
    scales_at = scale_rows[:, None] + tl.arange(0, GROUPS)[None, :]
    x_at = tl.arange(0, BLOCK_K)
    if not ALIKE:
        x_at = x_rows[:, None] + x_at[None, :]
    acc = tl.zeros((BLOCK_N, BLOCK_T), tl.float32)
    seen = tl.zeros((BLOCK_N,), tl.int32)
    AHEAD: tl.constexpr = PAIRS == 1 and BLOCK_T >= _AHEAD and not EXACT
    if AHEAD:
        later = tl.load(scale_ptr + scales_at)
    for first in tl.range(0, K, BLOCK_K, num_stages=1 if EXACT else None):
        registers_free(PAIRS == 1)
        words = tl.load(word_ptr + words_at)
        if AHEAD:
            exponents = later
            later = tl.load(scale_ptr + GROUPS + scales_at, mask=first + BLOCK_K < K, other=0)
        else:
            exponents = tl.load(scale_ptr + scales_at)
        exponents = exponents.to(tl.int32)
        if ALIKE:
            x = to_stored_order(tl.load(x_ptr + x_at)[None, :], 1, BLOCK_K, QUADS, PAIRS)
            x = tl.broadcast_to(x, (BLOCK_T, BLOCK_K))
        else:
            x = tl.load(x_ptr + x_at) if BLOCK_T >= _FULL else tl.load(x_ptr + x_at, mask=live[:, None], other=0.0)
        if not EXACT:
            seen |= tl.reduce(exponents, 1, either)
        weights = weights_of(words, exponents, BLOCK_N, BLOCK_K, QUADS, PAIRS, EXACT, PTX)
        acc = tl.dot(weights, tl.trans(x), acc)
        word_ptr += BLOCK_K // 8
        scale_ptr += GROUPS
        x_ptr += BLOCK_K
    return acc, tl.max(seen, 0)


@triton.jit
def multiply(
    word_ptr, rows, scale_ptr, scale_rows, x_ptr, x_rows, live, K,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
    QUADS: tl.constexpr, PAIRS: tl.constexpr, ALIKE: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """Weights times activations, float32 ``[BLOCK_N, BLOCK_T]``.

    ``rows``, ``scale_rows`` ``[BLOCK_N]`` and ``x_rows`` ``[BLOCK_T]``: where rows start after the pointers, all of
    them rows that may be read; columns that are not ``live`` may hold anything.  K is a multiple of BLOCK_K.  ALIKE:
    ``x_ptr`` is one row, its columns in their own order, and all columns of the result are its; ``x_rows`` and ``live``
    are not asked.
    """
    acc, seen = _products(
        word_ptr, rows, scale_ptr, scale_rows, x_ptr, x_rows, live,
        K, BLOCK_N, BLOCK_T, BLOCK_K, QUADS, PAIRS, ALIKE, False, PTX,
    )  # fmt: skip
    # Scales that need two multiplications are rare: rather than ask in every step, the tile is computed once more.
    if seen > _LARGEST_FAST_SCALE:
        acc, seen = _products(
            word_ptr, rows, scale_ptr, scale_rows, x_ptr, x_rows, live,
            K, BLOCK_N, BLOCK_T, QUADS * _GROUP, QUADS, PAIRS, ALIKE, True, PTX,
        )  # fmt: skip
    return acc


@triton.jit
def _tiles_of(
    own, counts, tiles_ptr, large_first,
    EXPERTS: tl.constexpr, SMALL: tl.constexpr, LARGE: tl.constexpr, MOST_SMALL: tl.constexpr,
):  # fmt: skip
    # Write the tiles of expert ``own``; return how many slots it has, and where they start in the order.
    expert = tl.arange(0, EXPERTS)
    is_small = counts <= MOST_SMALL
    before = expert < own
    count = tl.sum(tl.where(expert == own, counts, 0), 0)
    start = tl.sum(tl.where(before, counts, 0), 0)
    tiles_before = tl.where(before & is_small, (counts + SMALL - 1) // SMALL, 0)
    large_before = tl.where(before & (counts > MOST_SMALL), (counts + LARGE - 1) // LARGE, 0)
    tile_slots = tl.where(count <= MOST_SMALL, SMALL, LARGE)
    tile_start = tl.where(count <= MOST_SMALL, tl.sum(tiles_before, 0), tl.sum(large_before, 0) + large_first)
    tile_count = (count + tile_slots - 1) // tile_slots
    lane = tl.arange(0, 64)
    for some in range(0, tile_count, 64):
        number = some + lane
        position = start + number * tile_slots
        tile = tiles_ptr + (tile_start + number) * 3
        used = number < tile_count
        tl.store(tile, own + lane * 0, mask=used)
        tl.store(tile + 1, position, mask=used)
        tl.store(tile + 2, tl.minimum(position + tile_slots, start + count), mask=used)
    return count, start


@triton.jit
def sort_slots(
    first, step, ids_ptr, num_slots, num_experts, order_ptr, tiles_ptr, used_ptr, large_first,
    EXPERTS: tl.constexpr, CHUNK: tl.constexpr, SMALL: tl.constexpr, LARGE: tl.constexpr, MOST_SMALL: tl.constexpr,
    TOGETHER: tl.constexpr,
):  # fmt: skip
    """Sort the slots of experts number ``first``, ``first + step``, ... into tiles, TOGETHER (1 or 2) at a time.

    ``order`` int32 ``[S]``: slots by expert.  ``tiles`` int32 ``[T, 3]``: expert, first and one-past-last position in
    ``order``; small tiles (SMALL slots, of experts with at most MOST_SMALL slots) from 0, large ones (LARGE slots)
    from ``large_first``.  ``used`` int32 ``[2]``: how many of each.  EXPERTS is a power of two >= num_experts, CHUNK
    one below 2^15.
    """
    counts = tl.zeros((EXPERTS,), tl.int32)
    offset = tl.arange(0, CHUNK)
    for begin in range(0, num_slots, CHUNK):
        ids = tl.load(ids_ptr + begin + offset, mask=begin + offset < num_slots, other=-1)
        valid = (ids >= 0) & (ids < num_experts)
        counts += tl.histogram(tl.where(valid, ids, 0).to(tl.int32), EXPERTS, mask=valid)
    if first == 0:
        tl.store(used_ptr, tl.sum(tl.where(counts <= MOST_SMALL, (counts + SMALL - 1) // SMALL, 0), 0))
        tl.store(used_ptr + 1, tl.sum(tl.where(counts <= MOST_SMALL, 0, (counts + LARGE - 1) // LARGE), 0))
    for own in range(first, num_experts, step * TOGETHER):
        count, start = _tiles_of(own, counts, tiles_ptr, large_first, EXPERTS, SMALL, LARGE, MOST_SMALL)
        if TOGETHER == 2:
            # One that is not there has no slots.
            other = tl.minimum(own + step, num_experts)
            more, other_start = _tiles_of(other, counts, tiles_ptr, large_first, EXPERTS, SMALL, LARGE, MOST_SMALL)
            count += more
        if count > 0:
            for begin in range(0, num_slots, CHUNK):
                ids = tl.load(ids_ptr + begin + offset, mask=begin + offset < num_slots, other=-1)
                mine = (ids == own).to(tl.int32)
                if TOGETHER == 2:
                    # Both counts are in one word: half of the scans.
                    others = ((ids == other) & (other < num_experts)).to(tl.int32)
                    place = tl.cumsum(mine + (others << 16), 0)
                    tl.store(order_ptr + other_start + (place >> 16) - 1, begin + offset, mask=others != 0)
                    other_start += tl.sum(others, 0)
                    place &= 0xFFFF
                else:
                    place = tl.cumsum(mine, 0)
                tl.store(order_ptr + start + place - 1, begin + offset, mask=mine != 0)
                start += tl.sum(mine, 0)


@triton.jit
def reorder_tile(
    number, hidden_ptr, hidden_stride, stored_ptr, num_tokens,
    K: tl.constexpr, QUADS: tl.constexpr, PAIRS: tl.constexpr, OTHER_PAIRS: tl.constexpr,
    TOKENS: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Put BLOCK_K columns of TOKENS tokens into stored order: tile ``number`` of ceil(M / TOKENS) K / BLOCK_K.

    ``stored`` bfloat16 ``[1 or 2, M, K]``: hidden states in the orders of PAIRS and, if it differs, OTHER_PAIRS.
    """
    COLUMNS: tl.constexpr = K // BLOCK_K
    token = (number // COLUMNS * TOKENS + tl.arange(0, TOKENS)).to(tl.int64)[:, None]
    there = token < num_tokens
    column = number % COLUMNS * BLOCK_K + tl.arange(0, BLOCK_K)[None, :]
    values = tl.load(hidden_ptr + token * hidden_stride + column, mask=there)
    order = to_stored_order(values, TOKENS, BLOCK_K, QUADS, PAIRS)
    tl.store(stored_ptr + token * K + column, order, mask=there)
    if OTHER_PAIRS != PAIRS:
        order = to_stored_order(values, TOKENS, BLOCK_K, QUADS, OTHER_PAIRS)
        tl.store(stored_ptr + (num_tokens + token) * K + column, order, mask=there)


@triton.jit
def sorted_tile(number, order_ptr, tiles_ptr, BLOCK_T: tl.constexpr, REPEAT: tl.constexpr):
    """Return ``(expert, slots [BLOCK_T], live)`` of tile ``number`` of ``sort_slots``.

    Columns that are not ``live`` have slot -1; with REPEAT the last slot once more, so that all can be loaded without
    asking.
    """
    tile = tiles_ptr + number * 3
    row = tl.load(tile + 1) + tl.arange(0, BLOCK_T)
    stop = tl.load(tile + 2)
    if REPEAT:
        slots, live = tl.load(order_ptr + tl.minimum(row, stop - 1)), row < stop
    else:
        slots = tl.load(order_ptr + row, mask=row < stop, other=-1)
        live = slots >= 0
    return tl.load(tile).to(tl.int64), slots, live


@triton.jit
def row_starts(row, stride, LENGTH: tl.constexpr, DENSE: tl.constexpr):
    """Where rows of LENGTH elements start; DENSE: one after the other, and 32 bits hold it."""
    return row.to(tl.int32) * LENGTH if DENSE else row.to(tl.int64) * stride


@triton.jit
def _row_of(slots, BLOCK_T: tl.constexpr):
    # A row that may be read: columns of few are masked.
    return slots if BLOCK_T >= _FULL else tl.maximum(slots, 0)


@triton.jit
def gate_up_tile(
    expert, slots, live, row_block,
    hidden_ptr, hidden_stride,
    w13_ptr, w13_expert_stride, w13_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    act_ptr, clamp_limit,
    TOPK: tl.constexpr, K: tl.constexpr, INTER: tl.constexpr, HAS_CLAMP: tl.constexpr,
    PTX: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
    QUADS: tl.constexpr, ACT_QUADS: tl.constexpr, PAIRS: tl.constexpr, DENSE: tl.constexpr, ALIKE: tl.constexpr,
):  # fmt: skip
    """act[slot, n] = silu(gate) * up for the live ``slots`` of one expert and BLOCK_N rows of each half of its w13.

    ``act`` is stored in stored order, and ``hidden_ptr`` has all tokens in it.  ALIKE: ``slots`` are of one token, and
    ``hidden_ptr`` has its hidden states in their own order.  DENSE: rows of weights, scales and hidden states follow
    one another, and where they start in an expert or among the tokens is below 2^31: then loads share registers for
    their addresses.
    """
    # Rows 0..BLOCK_N-1 are gate, the others up: one product, in whose layout a thread holds both.
    index = tl.arange(0, 2 * BLOCK_N)
    row = row_block * BLOCK_N + index % BLOCK_N + index // BLOCK_N * INTER
    # int64: expert * stride passes 2**31 at 512 experts of 2 x 1024 rows of 2048 bytes.
    acc = multiply(
        w13_ptr + expert * w13_expert_stride, row_starts(row, w13_row_stride, K // 8, DENSE),
        scale_ptr + expert * scale_expert_stride, row_starts(row, scale_row_stride, K // _GROUP, DENSE),
        hidden_ptr, row_starts(_row_of(slots, BLOCK_T) // TOPK, hidden_stride, K, DENSE), live,
        K, 2 * BLOCK_N, BLOCK_T, BLOCK_K, QUADS, PAIRS, ALIKE, PTX,
    )  # fmt: skip
    gate, up = tl.split(tl.permute(tl.reshape(acc, (2, BLOCK_N, BLOCK_T)), (1, 2, 0)))
    act = swiglu(gate, up, clamp_limit, HAS_CLAMP)
    place = stored_position(row_block * BLOCK_N + tl.arange(0, BLOCK_N), ACT_QUADS, PAIRS)
    act_ptrs = act_ptr + slots.to(tl.int64)[None, :] * INTER + place[:, None]
    tl.store(act_ptrs, act.to(act_ptr.dtype.element_ty), mask=live[None, :])


@triton.jit
def down_tile(
    expert, slots, live, row_block,
    act_ptr,
    w2_ptr, w2_expert_stride, w2_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    partial_ptr,
    K: tl.constexpr, INTER: tl.constexpr, PTX: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
    QUADS: tl.constexpr, PAIRS: tl.constexpr, DENSE: tl.constexpr,
):  # fmt: skip
    """partial[slot, n] = act[slot] . w2[expert, n] for the live ``slots`` of one expert and BLOCK_N rows of its w2."""
    row = row_block * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = multiply(
        w2_ptr + expert * w2_expert_stride, row_starts(row, w2_row_stride, INTER // 8, DENSE),
        scale_ptr + expert * scale_expert_stride, row_starts(row, scale_row_stride, INTER // _GROUP, DENSE),
        act_ptr, row_starts(_row_of(slots, BLOCK_T), INTER, INTER, DENSE), live,
        INTER, BLOCK_N, BLOCK_T, BLOCK_K, QUADS, PAIRS, False, PTX,
    )  # fmt: skip
    tl.store(partial_ptr + slots.to(tl.int64)[None, :] * K + row[:, None], acc, mask=live[None, :])
