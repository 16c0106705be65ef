"""Device code of ``sparse_mla_decode``: one flash-decoding pass over both caches.

Infinite and NaN scores follow the usual softmax: a NaN score makes the row NaN; a score of +inf gives
lse = +inf and out = NaN; a score of -inf has weight 0, and a row that has no other score counts as empty.
Nothing here compares with a finite sentinel.
"""

import triton
import triton.language as tl

from kernels._e4m3_words import bfloat16_of, converts_e4m3
from kernels._overlap import let_next_start, wait_for_previous
from kernels._sparse_mla_merge import LN_2, LOG2_E, finite, power_of_two, sink_factors, unit_of
from kernels._sparse_mla_rows import load_rows, rows_of

#: Numbers of a row of Q, K and V.
WIDTH = tl.constexpr(512)


@triton.jit
def _clamp(length, topk):
    """Return a requested length, int32 or int64, within [0, topk] as int32."""
    return tl.maximum(tl.minimum(length, topk), 0).to(tl.int32)


@triton.jit
def _load_tokens(index_ptr, index_stride, tile, length, num_tokens, BLOCK_T: tl.constexpr):
    """Return int32 [BLOCK_T]: the indices of a tile, -1 outside the pool and at positions from ``length`` on."""
    position = tile * BLOCK_T + tl.arange(0, BLOCK_T)
    token = tl.load(index_ptr + position.to(tl.int64) * index_stride, mask=position < length, other=-1)
    return tl.where((token >= 0) & (token < num_tokens), token, -1).to(tl.int32)


@triton.jit
def _partial_sums(tile, SUMS: tl.constexpr):
    return tl.sum(tl.reshape(tile, (tile.shape[0], SUMS, tile.shape[1] // SUMS)), 2)


@triton.jit
def _unit_exponent(total):
    """Return the biased exponent of the power of two that brings ``total`` into [1/2, 1); of 1 for a total of 0."""
    exponent = (total.to(tl.int32, bitcast=True) >> 23) & 255
    return tl.where(total == 0.0, 127, tl.maximum(253 - exponent, 1))


@triton.jit
def _weigh(score, valid, score_scale, top, total, mass, SUMS: tl.constexpr, PTX: tl.constexpr):
    """Take one tile of scores into the online softmax: return its bf16 weights, and what remains of the accumulators.

    ``total`` sums the weights for the lse. The bf16 weights, ``mass`` and the accumulators are in the unit of
    ``_unit_exponent(total)``: a power of two adds no rounding, no weighted sum exceeds the largest value, and a weight
    keeps its 8 bits down to 2^-125 of the row's sum. ``mass`` sums the weights as the tensor cores see them, rounded:
    the output is divided by it, so that a rounding shared by many equal weights cancels. It is kept in ``SUMS`` parts,
    one for each warp along the tokens, which need not wait for each other.
    """
    # The select also keeps the product from being fused into the subtraction below: at scores of 1e32 the
    # residual of an fma is far outside the range of exp2.
    score = tl.where(valid[None, :], score * score_scale, float("-inf"))
    new_top = tl.maximum(top, tl.max(score, 1))
    reference = finite(new_top)
    weight = tl.exp2(score - reference[:, None])
    shrink = tl.exp2(top - reference)
    old_unit = _unit_exponent(total)
    total = total * shrink + tl.sum(weight, 1)
    unit = _unit_exponent(total)
    p = weight * power_of_two(unit)[:, None]
    p = bfloat16_of(p) if PTX and converts_e4m3() else p.to(tl.bfloat16)
    kept = shrink * power_of_two(127 + unit - old_unit)
    mass = mass * kept[:, None] + _partial_sums(p.to(tl.float32), SUMS)
    return p, kept, new_top, total, mass


@triton.jit
def _tile_tokens(
    tile, own_tiles, last_tile, batch, index_row, index_stride, length, num_tokens,
    extra_index_ptr, extra_index_batch_stride, extra_index_stride, extra_length, extra_num_tokens,
    HAS_EXTRA: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    """Return the tokens of a tile, of the first cache below ``own_tiles``; nothing from ``last_tile`` on."""
    length = tl.where(tile < last_tile, length, 0)
    extra_length = tl.where(tile < last_tile, extra_length, 0)
    if HAS_EXTRA:
        if tile < own_tiles:
            token = _load_tokens(index_row, index_stride, tile, length, num_tokens, BLOCK_T)
        else:
            extra_index_row = extra_index_ptr + batch * extra_index_batch_stride
            token = _load_tokens(
                extra_index_row, extra_index_stride, tile - own_tiles, extra_length, extra_num_tokens, BLOCK_T
            )
    else:
        token = _load_tokens(index_row, index_stride, tile, length, num_tokens, BLOCK_T)
    return token


@triton.jit
def _tile_rows(
    tile, own_tiles, token, word_ptr, scale_ptr, page_bytes,
    extra_word_ptr, extra_scale_ptr, extra_page_bytes,
    HAS_EXTRA: tl.constexpr, PAGE_SIZE: tl.constexpr, EXTRA_PAGE_SIZE: tl.constexpr,
):  # fmt: skip
    if HAS_EXTRA:
        if tile < own_tiles:
            scales, w0, w1, w2, w3, w4, w5, w6, even, odd = load_rows(word_ptr, scale_ptr, page_bytes, token, PAGE_SIZE)
        else:
            scales, w0, w1, w2, w3, w4, w5, w6, even, odd = load_rows(
                extra_word_ptr, extra_scale_ptr, extra_page_bytes, token, EXTRA_PAGE_SIZE
            )
    else:
        scales, w0, w1, w2, w3, w4, w5, w6, even, odd = load_rows(word_ptr, scale_ptr, page_bytes, token, PAGE_SIZE)
    return scales, w0, w1, w2, w3, w4, w5, w6, even, odd


@triton.jit
def sparse_mla_decode_kernel(
    q_ptr, q_batch_stride, q_head_stride,
    word_ptr, scale_ptr, page_bytes, num_tokens,
    index_ptr, index_batch_stride, index_stride, topk, length_ptr, length_stride,
    extra_word_ptr, extra_scale_ptr, extra_page_bytes, extra_num_tokens,
    extra_index_ptr, extra_index_batch_stride, extra_index_stride, extra_topk, extra_length_ptr, extra_length_stride,
    sink_ptr, sink_stride, out_ptr, lse_ptr,
    part_out_ptr, part_whole_ptr, part_unit_ptr, part_top_ptr, part_total_ptr, score_scale, num_heads, num_splits,
    HAS_LENGTH: tl.constexpr, HAS_EXTRA: tl.constexpr, HAS_EXTRA_LENGTH: tl.constexpr, HAS_SINK: tl.constexpr,
    IS_SPLIT: tl.constexpr, PAGE_SIZE: tl.constexpr, EXTRA_PAGE_SIZE: tl.constexpr,
    HEAD_DIM_V: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_T: tl.constexpr, SUMS: tl.constexpr, OVERLAP: tl.constexpr,
    ONE_TILE: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """One program: ``BLOCK_H`` heads of one request over one split of its tiles, first those of the first cache.

    Grid ``(batch * cdiv(num_heads, BLOCK_H), num_splits)``. Writes ``out``/``lse``, or with ``IS_SPLIT`` partials
    ``[batch, num_splits, num_heads(, HEAD_DIM_V)]``: normalised output (float32, or what ``_sparse_mla_merge`` says of
    float16), unit, maximum (base 2) and sum of weights. The words of the next tile travel in registers: its loads are
    under way during the products of this one. With ``ONE_TILE`` no program has a next one.
    """
    wait_for_previous(OVERLAP)
    # the programs of the merge, which are small, stand by when the last split ends
    let_next_start(OVERLAP)
    head_blocks = tl.cdiv(num_heads, BLOCK_H)
    batch = (tl.program_id(0) // head_blocks).to(tl.int64)
    split = tl.program_id(1)
    head = tl.program_id(0) % head_blocks * BLOCK_H + tl.arange(0, BLOCK_H)
    in_heads = head < num_heads
    dim = tl.arange(0, WIDTH)
    q_row = q_ptr + batch * q_batch_stride + head.to(tl.int64) * q_head_stride
    q = tl.load(q_row[:, None] + dim[None, :], mask=in_heads[:, None], other=0.0)

    length = topk
    if HAS_LENGTH:
        length = _clamp(tl.load(length_ptr + batch * length_stride), topk)
    extra_length = 0
    if HAS_EXTRA:
        extra_length = extra_topk
        if HAS_EXTRA_LENGTH:
            extra_length = _clamp(tl.load(extra_length_ptr + batch * extra_length_stride), extra_topk)
    own_tiles = tl.cdiv(length, BLOCK_T)
    tiles = own_tiles + tl.cdiv(extra_length, BLOCK_T)
    share = tl.cdiv(tiles, num_splits)
    first_tile = split * share
    last_tile = tl.minimum(first_tile + share, tiles)

    index_row = index_ptr + batch * index_batch_stride
    token = _tile_tokens(
        first_tile, own_tiles, last_tile, batch, index_row, index_stride, length, num_tokens,
        extra_index_ptr, extra_index_batch_stride, extra_index_stride, extra_length, extra_num_tokens,
        HAS_EXTRA, BLOCK_T,
    )  # fmt: skip
    scales, w0, w1, w2, w3, w4, w5, w6, even, odd = _tile_rows(
        first_tile, own_tiles, token, word_ptr, scale_ptr, page_bytes,
        extra_word_ptr, extra_scale_ptr, extra_page_bytes,
        HAS_EXTRA, PAGE_SIZE, EXTRA_PAGE_SIZE,
    )  # fmt: skip
    if HAS_SINK and not IS_SPLIT:
        # before the loop: after it, registers are short
        sink = tl.load(sink_ptr + head * sink_stride, mask=in_heads, other=0.0)
    if not ONE_TILE:
        token = _tile_tokens(
            first_tile + 1, own_tiles, last_tile, batch, index_row, index_stride, length, num_tokens,
            extra_index_ptr, extra_index_batch_stride, extra_index_stride, extra_length, extra_num_tokens,
            HAS_EXTRA, BLOCK_T,
        )  # fmt: skip
    top = tl.full([BLOCK_H], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    mass = tl.zeros([BLOCK_H, SUMS], tl.float32)
    if ONE_TILE:
        k = rows_of(scales, w0, w1, w2, w3, w4, w5, w6, even, odd, BLOCK_T, PTX)
        p = tl.zeros([BLOCK_H, BLOCK_T], tl.bfloat16)
        # as in the loop
        if (num_tokens > 0) | (extra_num_tokens > 0):
            score = tl.dot(q, tl.trans(k))
            p, _, top, total, mass = _weigh(score, token >= 0, score_scale, top, total, mass, SUMS, PTX)
        acc = tl.dot(p, k)
    else:
        acc = tl.zeros([BLOCK_H, WIDTH], tl.float32)
        for tile in tl.range(first_tile, last_tile, num_stages=1):
            # two tiles ahead: the addresses of the next rows wait for no other load
            later = _tile_tokens(
                tile + 2, own_tiles, last_tile, batch, index_row, index_stride, length, num_tokens,
                extra_index_ptr, extra_index_batch_stride, extra_index_stride, extra_length, extra_num_tokens,
                HAS_EXTRA, BLOCK_T,
            )  # fmt: skip
            k = rows_of(scales, w0, w1, w2, w3, w4, w5, w6, even, odd, BLOCK_T, PTX)
            scales, w0, w1, w2, w3, w4, w5, w6, even, odd = _tile_rows(
                tile + 1, own_tiles, token, word_ptr, scale_ptr, page_bytes,
                extra_word_ptr, extra_scale_ptr, extra_page_bytes,
                HAS_EXTRA, PAGE_SIZE, EXTRA_PAGE_SIZE,
            )  # fmt: skip
            token = later
            p = tl.zeros([BLOCK_H, BLOCK_T], tl.bfloat16)
            kept = tl.full([BLOCK_H], 1.0, tl.float32)
            # Empty pools have no scores. Outside a branch Triton would see the second product behind the first, line
            # all warps up along the heads for it, and compute each score in 2 to 4 of them.
            if (num_tokens > 0) | (extra_num_tokens > 0):
                # loaded again, not kept: registers are short
                valid = _tile_tokens(
                    tile, own_tiles, last_tile, batch, index_row, index_stride, length, num_tokens,
                    extra_index_ptr, extra_index_batch_stride, extra_index_stride, extra_length, extra_num_tokens,
                    HAS_EXTRA, BLOCK_T,
                ) >= 0  # fmt: skip
                score = tl.dot(q, tl.trans(k))
                p, kept, top, total, mass = _weigh(score, valid, score_scale, top, total, mass, SUMS, PTX)
            acc = tl.dot(p, k, acc * kept[:, None])

    mass = tl.sum(mass, 1)
    norm = tl.where(mass == 0.0, 0.0, 1.0 / mass)
    mask = in_heads[:, None] & (dim < HEAD_DIM_V)[None, :]
    if IS_SPLIT:
        row = (batch * num_splits + split) * num_heads + head
        tl.store(part_top_ptr + row, top, mask=in_heads)
        tl.store(part_total_ptr + row, total, mask=in_heads)
        if part_out_ptr.dtype.element_ty == tl.float16:
            unit, loses = unit_of(acc)
            if loses:
                whole_row = part_whole_ptr + row * HEAD_DIM_V
                tl.store(whole_row[:, None] + dim[None, :], acc * norm[:, None], mask=mask)
                acc = tl.zeros([BLOCK_H, WIDTH], tl.float32)
            tl.store(part_unit_ptr + row, tl.where(loses, 0.0, power_of_two(254 - unit)), mask=in_heads)
            norm *= power_of_two(unit)
        out_row = part_out_ptr + row * HEAD_DIM_V
    else:
        row = batch * num_heads + head
        lse = finite(top) + tl.log2(total)
        tl.store(lse_ptr + row, lse * LN_2, mask=in_heads)
        out_row = out_ptr + row * HEAD_DIM_V
        if HAS_SINK:
            half, whole = sink_factors(lse, sink * LOG2_E)
            norm *= half
            acc *= (half * whole)[:, None]
    acc *= norm[:, None]
    if not IS_SPLIT:
        # a row without weight is 0 whatever the sink is
        acc = tl.where((total == 0.0)[:, None], 0.0, acc)
    tl.store(out_row[:, None] + dim[None, :], acc.to(out_row.dtype.element_ty), mask=mask)
