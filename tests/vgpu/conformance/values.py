"""The inputs: every code of 8- and 16-bit types; of wider types a fixed special set and seeded random bit patterns.

All sets are arrays of bits, unsigned integers of the type's width.  Randomness is a bit generator's raw output, which
numpy promises to keep.
"""

from functools import cache

import numpy as np
import torch

# name: torch type, bytes
TYPES = {
    "fp64": (torch.float64, 8),
    "fp32": (torch.float32, 4),
    "bf16": (torch.bfloat16, 2),
    "fp16": (torch.float16, 2),
    "fp8e4nv": (torch.float8_e4m3fn, 1),
    "fp8e5": (torch.float8_e5m2, 1),
    "int1": (torch.bool, 1),
    **{f"{sign}int{8 * n}": (getattr(torch, f"{sign}int{8 * n}"), n) for n in (1, 2, 4, 8) for sign in ("", "u")},
}
FLOATS = ("fp32", "bf16", "fp16")
INTEGERS = tuple(name for name in TYPES if "int" in name and name != "int1")
#: Every launch covers whole blocks of this many elements.
BLOCK = 1024

# What a float32 input set holds beside random bits: zeros, the ends of the subnormals and of the normals, infinity,
# and NaNs: quiet, signalling, all ones, and a payload in the lower half only.
_FP32_SPECIAL = (
    *(0x00000000, 0x00000001, 0x00000002, 0x00400000, 0x007FFFFF, 0x00800000, 0x00800001),
    *(0x33800000, 0x34000000, 0x3EFFFFFF, 0x3F000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FC00000),
    *(0x40000000, 0x40200000, 0x40490FDB, 0x42B17218, 0x4B000000, 0x4B7FFFFF, 0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000),
)
_FP32_NAN = (0x7F800001, 0x7FA00000, 0x7FC00000, 0x7FC00001, 0x7FFFFFFF)
_FP64_SPECIAL = (
    *(0x0, 0x1, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x3FE0000000000000, 0x3FEFFFFFFFFFFFFF),
    *(0x3FF0000000000000, 0x3FF0000000000001, 0x3FF8000000000000, 0x4000000000000000, 0x4330000000000000),
    *(0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x36A0000000000000, 0x3810000000000000, 0x47EFFFFFF0000000),
)
_FP64_NAN = (0x7FF0000000000001, 0x7FF8000000000000, 0x7FFFFFFFFFFFFFFF)


def random_bits(seed, count, width):
    """``count`` seeded words of ``width`` bytes."""
    words = np.random.PCG64(seed).random_raw(-(-count * width // 8))
    return words.astype("<u8").view(f"<u{width}")[:count]


def _both_signs(bits, width):
    bits = np.asarray(bits, f"u{width}")
    return np.concatenate([bits, bits | bits.dtype.type(1 << (8 * width - 1))])


def whole_blocks(bits):
    """Repeat the beginning until whole blocks are full."""
    return np.resize(bits, -(-bits.size // BLOCK) * BLOCK)


def moderate(seed, count, low=-20, high=20):
    """Random float32 bits of either sign with magnitudes from 2**low to 2**high, evenly over exponents."""
    bits = random_bits(seed, count, 4)
    exponent = (bits >> np.uint32(23) & np.uint32(0xFF)) % np.uint32(high - low) + np.uint32(127 + low)
    return bits & np.uint32(0x807FFFFF) | exponent << np.uint32(23)


def _fp32():
    powers = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32).view(np.uint32)
    near = np.concatenate([powers, powers[1:] - 1, powers + 1])
    upper = random_bits(11, 256, 2).astype(np.uint32) << np.uint32(16)
    # halfway between neighbours in bf16, in fp16 and in the two 8-bit types, and one to either side
    halves = np.concatenate([upper | half for half in (0x8000, 0x7FFF, 0x8001)])
    fp16 = moderate(12, 192, -24, 16) & np.uint32(0xFFFFE000) | np.uint32(0x1000)
    fp8 = moderate(13, 96, -16, 16) & np.uint32(0xFFE00000) | np.uint32(0x00080000)
    e5m2 = moderate(14, 96, -16, 16) & np.uint32(0xFFE00000) | np.uint32(0x00100000)
    whole = np.arange(-40, 41, dtype=np.float32) / np.float32(2)
    parts = [_both_signs(_FP32_SPECIAL + _FP32_NAN, 4), _both_signs(near, 4), halves, fp16, fp8, e5m2]
    parts += [whole.view(np.uint32), moderate(15, 1024), random_bits(16, 1024, 4)]
    return whole_blocks(np.concatenate(parts))


def _fp64():
    powers = np.ldexp(1.0, np.arange(-160, 140)).view(np.uint64)
    parts = [_both_signs(_FP64_SPECIAL + _FP64_NAN, 8), _both_signs(powers, 8), random_bits(17, 512, 8)]
    wide = np.resize(moderate(18, 512, -30, 30), 512).view(np.float32).astype(np.float64).view(np.uint64)
    return whole_blocks(np.concatenate([*parts, wide | random_bits(19, 512, 8) & np.uint64(0x1FFFFFFF)]))


def _integers(width):
    bits = 8 * width
    powers = [1 << n for n in range(bits)]
    chosen = {0, *powers, *(p - 1 for p in powers), *(p + 1 for p in powers)}
    chosen |= {(1 << bits) - value for value in chosen if value}
    special = np.array(sorted(chosen), f"u{width}")
    small = np.arange(-16, 17).astype(f"i{width}").view(f"u{width}")
    return whole_blocks(np.concatenate([special, small, random_bits(20 + width, 400, width)]))


@cache
def every(name):
    """The input set of one operand of type ``name``."""
    width = TYPES[name][1]
    if name == "int1":
        return np.resize(np.array([0, 1], np.uint8), BLOCK)
    if width <= 2:
        return whole_blocks(np.arange(1 << 8 * width).astype(f"u{width}"))
    return {"fp32": _fp32, "fp64": _fp64}.get(name, lambda: _integers(width))()


def _special(name):
    if name == "fp32":
        return _both_signs(_FP32_SPECIAL + _FP32_NAN, 4)
    if name == "fp64":
        return _both_signs(_FP64_SPECIAL + _FP64_NAN, 8)
    if name in ("bf16", "fp16"):
        one, infinity, tiny = {"bf16": (0x3F80, 0x7F80, 0x0080), "fp16": (0x3C00, 0x7C00, 0x0400)}[name]
        return _both_signs([0, 1, tiny - 1, tiny, one, one + 1, infinity - 1, infinity, infinity + 1, 0x7FFF], 2)
    width = TYPES[name][1]
    return np.unique(every(name)[:: max(1, every(name).size // 40)]).astype(f"u{width}")


@cache
def pairs(name):
    """Two operands of type ``name``.

    8 bits: every pair.  Wider: every pair of special values; of 16 bits then every code with another, drawn with a
    seed; of wider ones random bits with random bits, and of floats numbers of like magnitude.
    """
    width = TYPES[name][1]
    if width == 1:
        codes = np.arange(256, dtype=np.uint8)
        return np.repeat(codes, 256), np.tile(codes, 256)
    left, right = (grid.ravel() for grid in np.meshgrid(_special(name), _special(name), indexing="ij"))
    if width == 2:
        codes = np.arange(1 << 16).astype(np.uint16)
        x, y = [codes], [codes[np.argsort(random_bits(31, 1 << 16, 4), kind="stable")]]
    else:
        x, y = [random_bits(32, 700, width)], [random_bits(33, 700, width)]
        if name == "fp32":
            x, y = [*x, moderate(34, 1200, -4, 4)], [*y, moderate(35, 1200, -4, 4)]
    return whole_blocks(np.concatenate([left, *x])), whole_blocks(np.concatenate([right, *y]))


@cache
def triples(name):
    """Three operands of type ``name``: special values and random bits, shuffled against each other."""
    x, y = pairs(name)
    if TYPES[name][1] == 2:
        x, y = x[:: x.size // 8192][:8192], y[:: y.size // 8192][:8192]
    third = y[np.argsort(random_bits(36, y.size, 4), kind="stable")]
    return x, y, third
