"""E4M3 codes in 32-bit words, four a word, decoded in few instructions.

``cvt.rn.f16x2.e4m3x2`` takes a register's half, and ptxas lets it read either half of one. Through bytes LLVM builds
the upper half anew, in four instructions a word, before each conversion of it.
"""

from typing import Any

import triton
import triton.language as tl

from harness import Expected
from kernels._fp4 import e8m0_to_bfloat16

# $0..$3: the codes of the word $4 as float16
_TO_FLOAT16 = tl.constexpr("""{
.reg .b16 lower, upper;
.reg .b32 pair;
mov.b32 {lower, upper}, $4;
cvt.rn.f16x2.e4m3x2 pair, lower;
mov.b32 {$0, $1}, pair;
cvt.rn.f16x2.e4m3x2 pair, upper;
mov.b32 {$2, $3}, pair;
}""")
# $0..$3: the codes of the word $4 times the bfloat16 pair $5. Adding -0 keeps the sign of a zero.
_SCALED = tl.constexpr("""{
.reg .b16 lower, upper, even, odd;
.reg .b32 pair, first, second, zero;
.reg .f32 left, right;
mov.b32 zero, 0x80008000;
mov.b32 {lower, upper}, $4;
cvt.rn.f16x2.e4m3x2 first, lower;
cvt.rn.f16x2.e4m3x2 second, upper;
mov.b32 {even, odd}, first;
cvt.f32.f16 left, even;
cvt.f32.f16 right, odd;
cvt.rn.bf16x2.f32 pair, right, left;
fma.rn.bf16x2 pair, pair, $5, zero;
mov.b32 {$0, $1}, pair;
mov.b32 {even, odd}, second;
cvt.f32.f16 left, even;
cvt.f32.f16 right, odd;
cvt.rn.bf16x2.f32 pair, right, left;
fma.rn.bf16x2 pair, pair, $5, zero;
mov.b32 {$2, $3}, pair;
}""")
# $0: $2 and $1 as bfloat16, rounded to nearest
_PAIR = tl.constexpr("cvt.rn.bf16x2.f32 $0, $2, $1;")


@tl.core.builtin
def converts_e4m3(_semantic: Any = None) -> tl.constexpr:
    """Whether the code is compiled for an NVIDIA target that converts E4M3; the virtual GPU takes portable forms."""
    options = _semantic.builder.options
    return tl.constexpr(options.backend_name == "cuda" and "fp8e4nv" in options.supported_fp8_dtypes)


def refused_without_e4m3(kernel: str) -> Expected:
    """Return the declaration that Triton refuses ``kernel``, which converts E4M3, on sm_80 and sm_86."""
    return Expected(
        verdict="REFUSED",
        targets=("sm80", "sm86"),
        says="fp8e4nv not supported",
        because="conversions of E4M3 begin at sm_89",
        kernel=kernel,
    )


@triton.jit
def _four(c0, c1, c2, c3):
    # Codes in the order of memory: [.., half of the word, byte of the half].
    return tl.join(tl.join(c0, c2), tl.join(c1, c3))


@triton.jit
def float16_of(words):
    """Return float16 ``[.., 2, 2]``, the codes of int32 ``words`` by half and byte, where ``converts_e4m3``."""
    c0, c1, c2, c3 = tl.inline_asm_elementwise(
        _TO_FLOAT16, "=h,=h,=h,=h,r", [words], dtype=(tl.float16,) * 4, is_pure=True, pack=1
    )
    return _four(c0, c1, c2, c3)


@triton.jit
def scaled(words, exponents):
    """Return bfloat16 ``[.., 2, 2]``: the codes times 2^(exponent - 127), rounded once, where ``converts_e4m3``.

    ``exponents``: int32 scale bytes of the words, 255 for NaN.
    """
    half = e8m0_to_bfloat16(exponents.to(tl.uint8)).to(tl.uint16, bitcast=True).to(tl.int32)
    c0, c1, c2, c3 = tl.inline_asm_elementwise(
        _SCALED, "=h,=h,=h,=h,r,r", [words, tl.broadcast_to(half * 0x10001, words.shape)],
        dtype=(tl.bfloat16,) * 4, is_pure=True, pack=1,
    )  # fmt: skip
    return _four(c0, c1, c2, c3)


@triton.jit
def bfloat16_of(values):
    """Round float32 ``values`` to bfloat16, two in one instruction, where ``converts_e4m3``.

    Where both forms of a value are used, ptxas would convert each by itself.
    """
    return tl.inline_asm_elementwise(_PAIR, "=r,r,r", [values], dtype=tl.bfloat16, is_pure=True, pack=2)
