"""Device code of ``sparse_mla_decode``: what the splits of a row hand over, and their merge.

The output of a split may travel in float16, half the bytes of float32. Each row has a unit, a power of two, that brings
its largest number to about 2^14: all 11 bits of float16 are kept down to 2^-26 of it, and the one rounding more is an
eighth of the last one's. A tile of heads with a smaller number, or a finite one beside an infinite one, comes in
float32 instead: its units and its float16 numbers are 0.
"""

import triton
import triton.language as tl

from kernels._overlap import wait_for_previous

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
#: What the smallest number of a row may be of its largest: one exponent to spare for the normalising factor's rounding.
RANGE = tl.constexpr(2.0**-26)


@triton.jit
def finite(top):
    """Return the running maximum to subtract: 0 where it is infinite, so that no inf - inf appears."""
    return tl.where(tl.abs(top) == float("inf"), 0.0, top)


@triton.jit
def power_of_two(biased_exponent):
    """Return 2^(biased_exponent - 127) as float32, for 1 to 254."""
    return (biased_exponent << 23).to(tl.float32, bitcast=True)


@triton.jit
def sink_factors(lse, sink):
    """Return (half, whole) with half * half * whole = 1 / (1 + 2^(sink - lse)), both arguments in base 2.

    In two halves, so that a sink far above the scores does not underflow before it meets a large value.
    """
    above = sink - lse
    return tl.exp2(-0.5 * tl.maximum(above, 0.0)), 1.0 / (1.0 + tl.exp2(-tl.abs(above)))


@triton.jit
def _larger(one, other):
    return tl.maximum(tl.abs(one), tl.abs(other))


@triton.jit
def _smaller(one, other):
    return tl.minimum(tl.abs(one), tl.abs(other))


@triton.jit
def unit_of(acc):
    """Return (unit, loses) of ``acc`` float32 [rows, columns], which a factor of 1 to 2 will still normalise.

    ``unit`` int32 [rows]: biased exponent of the factor that brings a row's largest number into [2^13, 2^14).
    ``loses``: whether numbers of a row are too far apart for float16, whose normal ones begin at 2^-14, or a finite one
    is beside an infinite one. In the largest unit, of rows below 2^-112, even the smallest float32 is a float16.
    """
    largest = tl.reduce(acc, 1, _larger)
    smallest = tl.reduce(acc, 1, _smaller)
    unit = tl.minimum(267 - ((largest.to(tl.int32, bitcast=True) >> 23) & 255), 253)
    loses = smallest < largest * RANGE
    return unit, tl.max(loses.to(tl.int32), 0) > 0


@triton.jit
def combine_splits_kernel(
    part_out_ptr, part_whole_ptr, part_unit_ptr, part_top_ptr, part_total_ptr, sink_ptr, sink_stride, out_ptr, lse_ptr,
    num_heads, num_splits,
    HAS_SINK: tl.constexpr, HEAD_DIM_V: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    """Merge the splits of one (request, head) and apply the sink.

    Grid ``(batch * num_heads, cdiv(HEAD_DIM_V, BLOCK_D))``.
    Maximum and sum arrive separately: folded into one lse, a score of -1e32 would swallow the sum.
    """
    HALF: tl.constexpr = part_out_ptr.dtype.element_ty == tl.float16
    row = tl.program_id(0).to(tl.int64)
    batch = row // num_heads
    head = row % num_heads
    split = tl.arange(0, BLOCK_S)
    in_splits = split < num_splits
    part = (batch * num_splits + split) * num_heads + head
    dim = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    in_dims = dim < HEAD_DIM_V
    place = part[:, None] * HEAD_DIM_V + dim[None, :]
    wait_for_previous(OVERLAP)
    part_out = tl.load(part_out_ptr + place, mask=in_splits[:, None] & in_dims[None, :], other=0.0)
    if HALF:
        part_unit = tl.load(part_unit_ptr + part, mask=in_splits, other=1.0)
    part_top = tl.load(part_top_ptr + part, mask=in_splits, other=float("-inf"))
    part_total = tl.load(part_total_ptr + part, mask=in_splits, other=0.0)

    top = finite(tl.max(part_top, 0))
    weight = part_total * tl.exp2(part_top - top)
    total = tl.sum(weight, 0)
    lse = top + tl.log2(total)
    share = tl.where(total == 0.0, 0.0, weight / total)
    if HALF:
        # the unit first: it and the share may both be small
        part_out = part_out.to(tl.float32) * part_unit[:, None]
    out = tl.sum(part_out * share[:, None], 0)
    if HALF:  # noqa: SIM102 (decided by the compiler)
        if tl.min(part_unit, 0) == 0.0:
            in_float32 = (part_unit == 0.0)[:, None] & in_dims[None, :]
            part_whole = tl.load(part_whole_ptr + place, mask=in_float32, other=0.0)
            out += tl.sum(part_whole * share[:, None], 0)
    if HAS_SINK:
        half, whole = sink_factors(lse, tl.load(sink_ptr + head * sink_stride) * LOG2_E)
        out = out * half * half * whole
    out = tl.where(total == 0.0, 0.0, out)
    tl.store(out_ptr + row * HEAD_DIM_V + dim, out.to(out_ptr.dtype.element_ty), mask=in_dims)
    if tl.program_id(1) == 0:
        tl.store(lse_ptr + row, lse * LN_2)
