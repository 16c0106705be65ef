"""Device code of ``sparse_mla_decode``: one flash-decoding pass over both caches, and the merge of its splits.

A row of K (and of V: they are the same 512 numbers) is cut at 256, 384 and 448, so that every piece has a
power-of-two width without padding; the last piece is the bfloat16 "rope" part, the others are dequantised.

Infinite and NaN scores follow the usual softmax: a NaN score makes the row NaN; a score of +inf gives
lse = +inf and out = NaN; a score of -inf has weight 0, and a row that has no other score counts as empty.
Nothing here compares with a finite sentinel.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _e8m0(code):
    """Return 2^(code - 127) as float32; NaN for code 255.

    Built from the bits because ``exp2`` flushes code 0 (2^-127, a subnormal) to zero on NVIDIA.
    """
    bits = tl.where(code == 0, 0x00400000, code << 23)
    bits = tl.where(code == 255, 0x7FC00000, bits)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _finite(top):
    """Return the running maximum to subtract: 0 where it is infinite, so that no inf - inf appears."""
    return tl.where(tl.abs(top) == float("inf"), 0.0, top)


@triton.jit
def _clamp(length, topk):
    """Return a requested length, int32 or int64, within [0, topk] as int32."""
    return tl.maximum(tl.minimum(length, topk), 0).to(tl.int32)


@triton.jit
def _unit_exponent(mass):
    """Return the biased exponent of the power of two that brings ``mass`` into [1/2, 1); that of 1 for a mass of 0."""
    exponent = (mass.to(tl.int32, bitcast=True) >> 23) & 255
    return tl.where(mass == 0.0, 127, tl.maximum(253 - exponent, 1))


@triton.jit
def _power_of_two(biased_exponent):
    return (biased_exponent << 23).to(tl.float32, bitcast=True)


@triton.jit
def _load_q(row_ptr, in_heads, FIRST: tl.constexpr, WIDTH: tl.constexpr):
    dim = FIRST + tl.arange(0, WIDTH)
    return tl.load(row_ptr[:, None] + dim[None, :], mask=in_heads[:, None], other=0.0)


@triton.jit
def _load_nope(row_ptr, scales, valid, FIRST: tl.constexpr, GROUPS: tl.constexpr, BLOCK_T: tl.constexpr):
    """Dequantise ``GROUPS`` groups of 64 e4m3 values of every token, from group ``FIRST``: bf16 [BLOCK_T, 64 * GROUPS].

    ``row_ptr`` [BLOCK_T] points at the tokens' bytes; ``scales`` [BLOCK_T] int64 holds their scale bytes.
    """
    group = FIRST + tl.arange(0, GROUPS)[None, :, None]
    dim = group * 64 + tl.arange(0, 64)[None, None, :]
    code = tl.load(row_ptr[:, None, None] + dim, mask=valid[:, None, None], other=0)
    scale = _e8m0(((scales[:, None, None] >> (group * 8)) & 255).to(tl.int32))
    value = code.to(tl.float8e4nv, bitcast=True).to(tl.float32) * scale
    # An e4m3 value has 4 significant bits and bfloat16 has float32's exponents, so this cast is exact and
    # overflows where float32 does. Only scale bytes 0 to 2 can leave bits below 2^-133, half the last place
    # of the smallest output.
    return tl.reshape(value.to(tl.bfloat16), (BLOCK_T, GROUPS * 64))


@triton.jit
def _attend(
    q0, q1, q2, q3, top, total, mass, acc0, acc1, acc2, acc3,
    code_ptr, rope_ptr, scale_ptr, code_page_stride, rope_page_stride, scale_page_stride, num_tokens,
    index_ptr, index_stride, first_tile, last_tile, length, score_scale,
    PAGE_SIZE: tl.constexpr, HEAD_DIM_V: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    """Continue the online softmax of ``BLOCK_H`` heads over index tiles ``[first_tile, last_tile)`` of one cache.

    ``total`` sums the weights for the lse, ``mass`` sums them as the tensor cores see them, rounded to bfloat16: the
    output is divided by the latter, so that a rounding shared by many equal weights cancels. The accumulators hold
    the weighted sum in the unit of ``_unit_exponent(mass)``: a mean of values near the top of float32's range stays
    finite where their sum does not, and a power of two adds no rounding.
    """
    last_tile = tl.minimum(last_tile, tl.cdiv(length, BLOCK_T))
    for tile in tl.range(first_tile, last_tile, num_stages=1):
        position = tile * BLOCK_T + tl.arange(0, BLOCK_T)
        index = index_ptr + position.to(tl.int64) * index_stride
        token = tl.load(index, mask=position < length, other=-1).to(tl.int64)
        valid = (token >= 0) & (token < num_tokens)
        token = tl.where(valid, token, 0)
        page = token // PAGE_SIZE
        offset = token % PAGE_SIZE

        # Eight scale bytes in one load; the eighth is padding and is shifted out.
        scales = tl.load(scale_ptr + page * scale_page_stride + PAGE_SIZE * 72 + offset, mask=valid, other=0)
        row_ptr = code_ptr + page * code_page_stride + offset * 576
        k0 = _load_nope(row_ptr, scales, valid, 0, 4, BLOCK_T)
        k1 = _load_nope(row_ptr, scales, valid, 4, 2, BLOCK_T)
        k2 = _load_nope(row_ptr, scales, valid, 6, 1, BLOCK_T)
        rope = rope_ptr + page * rope_page_stride + offset * 288 + 224
        k3 = tl.load(rope[:, None] + tl.arange(0, 64)[None, :], mask=valid[:, None], other=0.0)

        score = tl.dot(q0, tl.trans(k0))
        score = tl.dot(q1, tl.trans(k1), score)
        score = tl.dot(q2, tl.trans(k2), score)
        score = tl.dot(q3, tl.trans(k3), score)
        # The select also keeps the product from being fused into the subtraction below: at scores of 1e32 the
        # residual of an fma is far outside the range of exp2.
        score = tl.where(valid[None, :], score * score_scale, float("-inf"))

        new_top = tl.maximum(top, tl.max(score, 1))
        reference = _finite(new_top)
        weight = tl.exp2(score - reference[:, None])
        shrink = tl.exp2(top - reference)
        top = new_top
        total = total * shrink + tl.sum(weight, 1)
        weight = weight.to(tl.bfloat16).to(tl.float32)
        old_unit = _unit_exponent(mass)
        mass = mass * shrink + tl.sum(weight, 1)
        unit = _unit_exponent(mass)
        kept = (shrink * _power_of_two(127 + unit - old_unit))[:, None]
        p = (weight * _power_of_two(unit)[:, None]).to(tl.bfloat16)
        acc0 = tl.dot(p, k0, acc0 * kept)
        if HEAD_DIM_V > 256:
            acc1 = tl.dot(p, k1, acc1 * kept)
        if HEAD_DIM_V > 384:
            acc2 = tl.dot(p, k2, acc2 * kept)
        if HEAD_DIM_V > 448:
            acc3 = tl.dot(p, k3, acc3 * kept)
    return top, total, mass, acc0, acc1, acc2, acc3


@triton.jit
def _sink_factors(lse, sink):
    """Return (half, whole) with half * half * whole = 1 / (1 + 2^(sink - lse)), both arguments in base 2.

    In two halves, so that a sink far above the scores does not underflow before it meets a large value.
    """
    above = sink - lse
    return tl.exp2(-0.5 * tl.maximum(above, 0.0)), 1.0 / (1.0 + tl.exp2(-tl.abs(above)))


@triton.jit
def _store_out(acc, row_ptr, in_heads, FIRST: tl.constexpr, WIDTH: tl.constexpr, HEAD_DIM_V: tl.constexpr):
    if FIRST < HEAD_DIM_V:
        dim = FIRST + tl.arange(0, WIDTH)
        mask = in_heads[:, None] & (dim < HEAD_DIM_V)[None, :]
        tl.store(row_ptr[:, None] + dim[None, :], acc.to(row_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _with_sink(acc, total, half, whole):
    """Scale an accumulator by the sink's factors; a row without weight is 0 whatever the sink is."""
    return tl.where((total == 0.0)[:, None], 0.0, acc * half[:, None] * half[:, None] * whole[:, None])


@triton.jit
def sparse_mla_decode_kernel(
    q_ptr, q_batch_stride, q_head_stride,
    code_ptr, rope_ptr, scale_ptr, code_page_stride, rope_page_stride, scale_page_stride, num_tokens,
    index_ptr, index_batch_stride, index_stride, topk, length_ptr, length_stride,
    extra_code_ptr, extra_rope_ptr, extra_scale_ptr, extra_code_page_stride, extra_rope_page_stride,
    extra_scale_page_stride, extra_num_tokens,
    extra_index_ptr, extra_index_batch_stride, extra_index_stride, extra_topk, extra_length_ptr, extra_length_stride,
    sink_ptr, sink_stride, out_ptr, lse_ptr, part_out_ptr, part_top_ptr, part_total_ptr,
    score_scale, num_heads, num_splits, tiles_per_split,
    HAS_LENGTH: tl.constexpr, HAS_EXTRA: tl.constexpr, HAS_EXTRA_LENGTH: tl.constexpr, HAS_SINK: tl.constexpr,
    IS_SPLIT: tl.constexpr, PAGE_SIZE: tl.constexpr, EXTRA_PAGE_SIZE: tl.constexpr,
    HEAD_DIM_V: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    """One program: ``BLOCK_H`` heads of one request over one split of the tiles of both caches.

    Grid ``(batch * cdiv(num_heads, BLOCK_H), num_splits)``. Writes ``out``/``lse``, or with ``IS_SPLIT`` float32
    partials ``[batch, num_splits, num_heads(, HEAD_DIM_V)]``: normalised output, maximum (base 2), sum of weights.
    """
    head_blocks = tl.cdiv(num_heads, BLOCK_H)
    batch = (tl.program_id(0) // head_blocks).to(tl.int64)
    split = tl.program_id(1)
    head = tl.program_id(0) % head_blocks * BLOCK_H + tl.arange(0, BLOCK_H)
    in_heads = head < num_heads

    q_row = q_ptr + batch * q_batch_stride + head.to(tl.int64) * q_head_stride
    q0 = _load_q(q_row, in_heads, 0, 256)
    q1 = _load_q(q_row, in_heads, 256, 128)
    q2 = _load_q(q_row, in_heads, 384, 64)
    q3 = _load_q(q_row, in_heads, 448, 64)
    top = tl.full([BLOCK_H], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    mass = tl.zeros([BLOCK_H], tl.float32)
    acc0 = tl.zeros([BLOCK_H, 256], tl.float32)
    acc1 = tl.zeros([BLOCK_H, 128], tl.float32)
    acc2 = tl.zeros([BLOCK_H, 64], tl.float32)
    acc3 = tl.zeros([BLOCK_H, 64], tl.float32)

    tiles = tl.cdiv(topk, BLOCK_T)
    first_tile = split * tiles_per_split
    last_tile = first_tile + tiles_per_split
    length = topk
    if HAS_LENGTH:
        length = _clamp(tl.load(length_ptr + batch * length_stride), topk)
    top, total, mass, acc0, acc1, acc2, acc3 = _attend(
        q0, q1, q2, q3, top, total, mass, acc0, acc1, acc2, acc3,
        code_ptr, rope_ptr, scale_ptr, code_page_stride, rope_page_stride, scale_page_stride, num_tokens,
        index_ptr + batch * index_batch_stride, index_stride, first_tile, last_tile, length, score_scale,
        PAGE_SIZE, HEAD_DIM_V, BLOCK_T,
    )  # fmt: skip
    if HAS_EXTRA:
        extra_length = extra_topk
        if HAS_EXTRA_LENGTH:
            extra_length = _clamp(tl.load(extra_length_ptr + batch * extra_length_stride), extra_topk)
        top, total, mass, acc0, acc1, acc2, acc3 = _attend(
            q0, q1, q2, q3, top, total, mass, acc0, acc1, acc2, acc3,
            extra_code_ptr, extra_rope_ptr, extra_scale_ptr, extra_code_page_stride, extra_rope_page_stride,
            extra_scale_page_stride, extra_num_tokens,
            extra_index_ptr + batch * extra_index_batch_stride, extra_index_stride,
            tl.maximum(first_tile - tiles, 0), last_tile - tiles, extra_length, score_scale,
            EXTRA_PAGE_SIZE, HEAD_DIM_V, BLOCK_T,
        )  # fmt: skip

    norm = tl.where(mass == 0.0, 0.0, 1.0 / (mass * _power_of_two(_unit_exponent(mass))))[:, None]
    acc0 *= norm
    acc1 *= norm
    acc2 *= norm
    acc3 *= norm
    if IS_SPLIT:
        row = (batch * num_splits + split) * num_heads + head
        tl.store(part_top_ptr + row, top, mask=in_heads)
        tl.store(part_total_ptr + row, total, mask=in_heads)
        out_row = part_out_ptr + row * HEAD_DIM_V
    else:
        row = batch * num_heads + head
        lse = _finite(top) + tl.log2(total)
        tl.store(lse_ptr + row, lse * LN_2, mask=in_heads)
        half = tl.full([BLOCK_H], 1.0, tl.float32)
        whole = half
        if HAS_SINK:
            sink = tl.load(sink_ptr + head * sink_stride, mask=in_heads, other=0.0)
            half, whole = _sink_factors(lse, sink * LOG2_E)
        acc0 = _with_sink(acc0, total, half, whole)
        acc1 = _with_sink(acc1, total, half, whole)
        acc2 = _with_sink(acc2, total, half, whole)
        acc3 = _with_sink(acc3, total, half, whole)
        out_row = out_ptr + row * HEAD_DIM_V
    _store_out(acc0, out_row, in_heads, 0, 256, HEAD_DIM_V)
    _store_out(acc1, out_row, in_heads, 256, 128, HEAD_DIM_V)
    _store_out(acc2, out_row, in_heads, 384, 64, HEAD_DIM_V)
    _store_out(acc3, out_row, in_heads, 448, 64, HEAD_DIM_V)


@triton.jit
def combine_splits_kernel(
    part_out_ptr, part_top_ptr, part_total_ptr, sink_ptr, sink_stride, out_ptr, lse_ptr, num_heads, num_splits,
    HAS_SINK: tl.constexpr, HEAD_DIM_V: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Merge the splits of one (request, head) and apply the sink.

    Grid ``(batch * num_heads, cdiv(HEAD_DIM_V, BLOCK_D))``.
    Maximum and sum arrive separately: folded into one lse, a score of -1e32 would swallow the sum.
    """
    row = tl.program_id(0).to(tl.int64)
    batch = row // num_heads
    head = row % num_heads
    split = tl.arange(0, BLOCK_S)
    in_splits = split < num_splits
    part = (batch * num_splits + split) * num_heads + head
    part_top = tl.load(part_top_ptr + part, mask=in_splits, other=float("-inf"))
    part_total = tl.load(part_total_ptr + part, mask=in_splits, other=0.0)

    top = _finite(tl.max(part_top, 0))
    weight = part_total * tl.exp2(part_top - top)
    total = tl.sum(weight, 0)
    lse = top + tl.log2(total)
    share = tl.where(total == 0.0, 0.0, weight / total)

    dim = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    in_dims = dim < HEAD_DIM_V
    part_out = tl.load(
        part_out_ptr + part[:, None] * HEAD_DIM_V + dim[None, :], mask=in_splits[:, None] & in_dims[None, :], other=0.0
    )
    out = tl.sum(part_out * share[:, None], 0)
    if HAS_SINK:
        half, whole = _sink_factors(lse, tl.load(sink_ptr + head * sink_stride) * LOG2_E)
        out = out * half * half * whole
    out = tl.where(total == 0.0, 0.0, out)
    tl.store(out_ptr + row * HEAD_DIM_V + dim, out.to(out_ptr.dtype.element_ty), mask=in_dims)
    if tl.program_id(1) == 0:
        tl.store(lse_ptr + row, lse * LN_2)
