"""MXFP4 weights in a Triton kernel: E2M1 codes and their block scales to exact floating operands.

Every finite E2M1 value times 2^(b - 127) is a bfloat16, subnormals included (the smallest step is 2^-128, bfloat16
reaches down to 2^-133), and it overflows to infinity exactly where float32 does.  So E8M0-scaled weights are exact in
bfloat16, and a NaN scale (byte 255) makes NaN weights: the operands of the matrix multiply are the dequantised weights.
"""

import triton
import triton.language as tl

# Codes that share one scale (OCP Microscaling Formats, MXFP4).
GROUP = 32

# tl.constexpr twins of Python constants: a jitted function may read no other globals.
_GROUP_BYTES = tl.constexpr(GROUP // 2)
_TWO_126 = tl.constexpr(2.0**126)


@triton.jit
def e8m0_to_bfloat16(scale_bytes):
    """2^(b - 127) for uint8 exponents, any shape; byte 0 is the subnormal 2^-127, byte 255 is NaN."""
    exponent = scale_bytes.to(tl.uint16)
    bits = tl.where(exponent == 0, 0x0040, tl.where(exponent == 255, 0x7FC0, exponent << 7))
    return bits.to(tl.uint16).to(tl.bfloat16, bitcast=True)


@triton.jit
def unpack_e2m1(packed):
    """Two bfloat16 tensors, low nibbles and high nibbles of the uint8 tensor ``packed``."""
    # Both nibbles of a byte at once, one in each half of a register, as the tensor core wants them.  The second
    # multiply places sign and magnitude, n * (2^12 + 2^6): sign at 15, the code's other bits at 8..6, where bfloat16
    # keeps the low exponent bits and the high mantissa bit.
    nibbles = (packed.to(tl.uint32) * 0x1001) & 0x000F000F
    bits = (nibbles * 0x1040) & 0x81C081C0
    # Read as bfloat16 that is the value times 2^-126 (0.5 as a subnormal).
    low = bits.to(tl.uint16).to(tl.bfloat16, bitcast=True) * _TWO_126
    high = (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True) * _TWO_126
    return low, high


@triton.jit
def code_offsets(BLOCK_K: tl.constexpr):
    """Byte offsets ``[1, BLOCK_K / 32, 16]`` of one row's codes, scale group by scale group."""
    group = tl.arange(0, BLOCK_K // 2 // _GROUP_BYTES)
    byte = tl.arange(0, _GROUP_BYTES)
    return (group * _GROUP_BYTES)[None, :, None] + byte[None, None, :]


@triton.jit
def dequantise(packed, scale, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, OPERAND: tl.constexpr):
    """Weights ``[BLOCK_N, BLOCK_K]`` of type OPERAND, columns in natural order.

    ``packed``: uint8 ``[BLOCK_N, BLOCK_K / 32, 16]``; ``scale``: ``[BLOCK_N, BLOCK_K / 32]``, uint8 exponents or
    float32 values.  Float32 scales need OPERAND float32; with exponents both operand types are exact.
    """
    even, odd = unpack_e2m1(packed)
    if scale.dtype == tl.uint8:
        factor = e8m0_to_bfloat16(scale)[:, :, None]
        weights = tl.join(even * factor, odd * factor)
    else:
        factor = scale[:, :, None]
        weights = tl.join(even.to(tl.float32) * factor, odd.to(tl.float32) * factor)
    return tl.reshape(weights, (BLOCK_N, BLOCK_K)).to(OPERAND)
