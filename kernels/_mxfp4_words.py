"""MXFP4 weights as 32-bit words: eight E2M1 codes a word, decoded to bfloat16 in few instructions.

Columns are multiplied in *stored order*, in which each thread of a matrix instruction finds its weights in 16
consecutive bytes, one scale group: activations are put into that order once, weights stay as they are.
"""

from typing import Any

import triton
import triton.language as tl

from kernels._fp4 import GROUP, e8m0_to_bfloat16

#: Scale bytes up to this one are multiplied once: 2^(b - 1) is finite in bfloat16 up to 128, and whether any of many
#: bytes is larger than 127 can be seen in one bit.
LARGEST_FAST_SCALE = 127

_GROUP = tl.constexpr(GROUP)
_FAST = tl.constexpr(LARGEST_FAST_SCALE)
_TWO_126 = tl.constexpr(2.0**126)

# $0..$7: codes 0, 4, 1, 5, 2, 6, 3, 7 of the word $8 times the bfloat16 pair $9.  A code and the one four later are in
# the two halves of a register; the integer product puts sign and magnitude where bfloat16 has sign, exponent and
# mantissa (see kernels._fp4), and adding -0 keeps the sign of a zero.
_DECODE = """{
.reg .b32 word, high, pair, factor, two126, zero;
mov.b32 word, $8;
mov.b32 factor, $9;
mov.b32 two126, 0x7E807E80;
mov.b32 zero, 0x80008000;
shr.u32 high, word, 8;
and.b32 pair, word, 0x000F000F;
mul.lo.u32 pair, pair, 0x1040;
and.b32 pair, pair, 0x81C081C0;
SCALE
mov.b32 {$0, $1}, pair;
and.b32 pair, word, 0x00F000F0;
mul.lo.u32 pair, pair, 0x104;
and.b32 pair, pair, 0x81C081C0;
SCALE
mov.b32 {$2, $3}, pair;
and.b32 pair, high, 0x000F000F;
mul.lo.u32 pair, pair, 0x1040;
and.b32 pair, pair, 0x81C081C0;
SCALE
mov.b32 {$4, $5}, pair;
and.b32 pair, high, 0x00F000F0;
mul.lo.u32 pair, pair, 0x104;
and.b32 pair, pair, 0x81C081C0;
SCALE
mov.b32 {$6, $7}, pair;
}"""
_TIMES_FACTOR = "fma.rn.bf16x2 pair, pair, factor, zero;"
_TIMES_TWO_126 = "fma.rn.bf16x2 pair, pair, two126, zero;"
_FAST_PTX = tl.constexpr(_DECODE.replace("SCALE", _TIMES_FACTOR))
_EXACT_PTX = tl.constexpr(_DECODE.replace("SCALE", f"{_TIMES_TWO_126}\n{_TIMES_FACTOR}"))
_CONSTRAINTS = tl.constexpr(",".join(["=h"] * 8 + ["r", "r"]))


@tl.core.builtin
def on_nvidia(_semantic: Any = None) -> tl.constexpr:
    """Whether the code is compiled for an NVIDIA target; the virtual GPU takes the portable form of everything."""
    return tl.constexpr(_semantic.builder.options.backend_name == "cuda")


@triton.jit
def _portable(words, factor, NUMBER: tl.constexpr, EXACT: tl.constexpr):
    # Codes NUMBER and NUMBER + 4 of every word, times ``factor``.
    nibbles = (words.to(tl.uint32, bitcast=True) >> (4 * NUMBER)) & 0x000F000F
    bits = (nibbles * 0x1040) & 0x81C081C0
    first = bits.to(tl.uint16).to(tl.bfloat16, bitcast=True)
    second = (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    if EXACT:
        first *= _TWO_126
        second *= _TWO_126
    return first * factor, second * factor


@triton.jit
def _decode(words, pair, EXACT: tl.constexpr, PTX: tl.constexpr):
    # Codes 0, 4, 1, 5, 2, 6, 3, 7 times the factor that both halves of ``pair`` hold.
    if PTX and on_nvidia():
        assembly: tl.constexpr = _EXACT_PTX if EXACT else _FAST_PTX
        c0, c4, c1, c5, c2, c6, c3, c7 = tl.inline_asm_elementwise(
            assembly, _CONSTRAINTS, [words, pair],
            dtype=(tl.bfloat16,) * 8, is_pure=True, pack=1,
        )  # fmt: skip
    else:
        factor = pair.to(tl.uint16).to(tl.bfloat16, bitcast=True)
        c0, c4 = _portable(words, factor, 0, EXACT)
        c1, c5 = _portable(words, factor, 1, EXACT)
        c2, c6 = _portable(words, factor, 2, EXACT)
        c3, c7 = _portable(words, factor, 3, EXACT)
    return c0, c4, c1, c5, c2, c6, c3, c7


@triton.jit
def weights_of(words, exponents, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, QUADS: tl.constexpr,
               PAIRS: tl.constexpr, EXACT: tl.constexpr, PTX: tl.constexpr):  # fmt: skip
    """bfloat16 weights ``[BLOCK_N, BLOCK_K]`` in stored order; QUADS and PAIRS see ``to_stored_order``.

    ``words``: int32 ``[BLOCK_N, BLOCK_K / 8]``; ``exponents``: int32 scale bytes ``[BLOCK_N, BLOCK_K / 32]``.  Without
    EXACT weights whose scale byte is above LARGEST_FAST_SCALE are wrong.
    """
    if EXACT:
        half = e8m0_to_bfloat16(exponents.to(tl.uint8)).to(tl.uint16, bitcast=True).to(tl.int32)
    else:
        # The scale times the 2^126 that decoded codes lack.
        half = (exponents + 126) << 7
    pair = half * 0x10001
    pair = tl.reshape(tl.broadcast_to(pair[:, :, None], (BLOCK_N, BLOCK_K // _GROUP, 4)), (BLOCK_N, BLOCK_K // 8))
    c0, c4, c1, c5, c2, c6, c3, c7 = _decode(words, pair, EXACT, PTX)
    first = tl.join(tl.join(c0, c2), tl.join(c1, c3))
    second = tl.join(tl.join(c4, c6), tl.join(c5, c7))
    return _stored(tl.join(first, second), BLOCK_N, BLOCK_K, QUADS, PAIRS)


@triton.jit
def _stored(values, ROWS: tl.constexpr, BLOCK_K: tl.constexpr, QUADS: tl.constexpr, PAIRS: tl.constexpr):
    # [.., word, code / 2 % 2, code % 2, code / 4]: columns to stored order.
    split = tl.reshape(values, (ROWS, BLOCK_K // (QUADS * _GROUP), QUADS, 4, 2, 2, 2))
    split = tl.permute(split, (0, 1, 3, 2, 4, 5, 6)) if PAIRS == 4 else tl.permute(split, (0, 1, 3, 4, 5, 2, 6))
    return tl.reshape(split, (ROWS, BLOCK_K))


@triton.jit
def to_stored_order(values, ROWS: tl.constexpr, BLOCK_K: tl.constexpr, QUADS: tl.constexpr, PAIRS: tl.constexpr):
    """``values`` ``[ROWS, BLOCK_K]`` with its columns in stored order.

    QUADS groups of 32 are taken together, a thread's columns of each PAIRS pairs at a time, 1 or 4.
    """
    codes = tl.reshape(values, (ROWS, BLOCK_K // (QUADS * _GROUP), QUADS, 4, 2, 2, 2))
    codes = tl.permute(codes, (0, 1, 3, 2, 5, 6, 4)) if PAIRS == 4 else tl.permute(codes, (0, 1, 3, 5, 6, 2, 4))
    return tl.reshape(codes, (ROWS, BLOCK_K))


@triton.jit
def stored_position(column, QUADS: tl.constexpr, PAIRS: tl.constexpr):
    """Where ``column`` is in stored order."""
    within = column % (QUADS * _GROUP)
    quad, word, code = within // _GROUP, within // 8 % 4, within % 8
    pair = (word * QUADS + quad) * 4 + code % 4 if PAIRS == 4 else (word * 4 + code % 4) * QUADS + quad
    return column - within + pair * 2 + code // 4
