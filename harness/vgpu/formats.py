"""Storage formats of the virtual GPU: codes to float32 and back, without rounding.

Values of the 8- and 16-bit formats are held as float32, which represents each of them exactly.  A NaN is held
with its sign and its mantissa bits at the top of the float32 mantissa, so that a load and a store keep every code.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

F32 = NDArray[np.float32]

#: From here a call of torch or the second table costs less than it saves.
_LARGE = 1 << 12
_UPPER = 1 if sys.byteorder == "little" else 0
_INFINITY_BITS = np.uint32(0x7F800000)
_FNUZ_NAN_BITS = np.uint32(0xFFC00000)


@dataclass(frozen=True, kw_only=True)
class Format:
    """One binary floating-point storage format: a sign bit, then exponent and mantissa.

    ``special``: ``"ieee"`` has infinities and NaNs at the top exponent; ``"fn"`` has NaN at all ones only;
    ``"fnuz"`` has one NaN, at the code of negative zero; ``"none"`` has neither.
    ``largest``: largest finite value that a conversion gives.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    special: Literal["ieee", "fn", "fnuz", "none"]
    largest: float

    @property
    def bits(self) -> int:
        """Width of one code."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def storage(self) -> type[np.unsignedinteger[Any]]:
        """Unsigned integer type of one code."""
        return np.uint8 if self.bits == 8 else np.uint16


def _format(name: str, exponent: int, mantissa: int, bias: int, special: Any, largest: float) -> Format:
    return Format(
        name=name, exponent_bits=exponent, mantissa_bits=mantissa, bias=bias, special=special, largest=largest
    )


#: By Triton's names.  Layouts: OCP "8-bit Floating Point Specification" 1.0 for fp8e4nv (E4M3) and fp8e5 (E5M2);
#: the AMD CDNA3 ISA for fp8e4b8 (E4M3 fnuz) and fp8e5b16 (E5M2 fnuz); Triton's own conversion for fp8e4b15, which
#: clamps to 1.75 although the code above it decodes to 1.875.
FORMATS = {
    f.name: f
    for f in (
        _format("bf16", 8, 7, 127, "ieee", float.fromhex("0x1.fep127")),
        _format("fp16", 5, 10, 15, "ieee", 65504.0),
        _format("fp8e4nv", 4, 3, 7, "fn", 448.0),
        _format("fp8e5", 5, 2, 15, "ieee", 57344.0),
        _format("fp8e4b8", 4, 3, 8, "fnuz", 240.0),
        _format("fp8e5b16", 5, 2, 16, "fnuz", 57344.0),
        _format("fp8e4b15", 4, 3, 15, "none", 1.75),
    )
}


def format_of(name: str) -> Format:
    """Return the format called ``name``; raises ValueError listing the known names."""
    try:
        return FORMATS[name]
    except KeyError:
        raise ValueError(f"no storage format {name!r}; there are: {', '.join(FORMATS)}") from None


def decode(bits: NDArray[Any], fmt: str) -> F32:
    """Return the float32 values, same shape, of ``bits`` (uint8 or int8, uint16 or int16) in format ``fmt``."""
    codes = bits.view(format_of(fmt).storage)
    if fmt == "bf16":
        values = np.zeros((*codes.shape, 2), dtype=np.uint16)
        values[..., _UPPER] = codes
        return values.view(np.float32)[..., 0]
    if codes.size < _LARGE or not codes.flags.c_contiguous or codes.size % 2:
        return look_up(decode_table(fmt), codes)
    if fmt == "fp16":
        return _decode_fp16(codes)
    # half as many look-ups: two neighbouring codes find two float32 at once
    pairs = _pair_table(fmt).take(codes.reshape(-1).view(np.uint16))
    return pairs.view(np.float32).reshape(codes.shape)


def pack(values: NDArray[Any], fmt: str) -> NDArray[Any]:
    """Return the codes, uint8 or uint16, of float32 ``values`` that all came from ``decode`` or ``round_to``.

    The inverse of ``decode``: every code survives, each NaN included.  Other values give arbitrary codes.
    """
    f = format_of(fmt)
    x = np.asarray(values, dtype=np.float32, order="C")
    if fmt == "bf16":
        return upper_half(x)
    if f.bits == 8:
        return look_up(_pack_table(fmt), upper_half(x))
    return _pack_fp16(x)


def look_up(table: NDArray[Any], index: NDArray[Any]) -> NDArray[Any]:
    """Return ``table[index]`` as an array even for one element."""
    return np.asarray(table.take(index))


def upper_half(x: F32) -> NDArray[np.uint16]:
    """Return the upper 16 bits of each float32 of a contiguous array, as a new array of the same shape."""
    return x.reshape(-1).view(np.uint16)[_UPPER::2].reshape(x.shape).copy()


def has_nan(x: NDArray[Any]) -> bool:
    """Return whether floating ``x`` holds a NaN; max() propagates it and costs less than ``isnan`` and ``any``."""
    if x.size == 0:
        return False
    largest = np.maximum.reduce(x, axis=None)
    return bool(largest != largest)


def as_tensor(x: NDArray[Any]) -> torch.Tensor:
    """Return a torch view of ``x``, or of a copy where torch would warn: it knows no read-only memory."""
    return torch.from_numpy(x if x.flags.writeable and x.flags.c_contiguous else x.copy(order="C"))


@cache
def decode_table(fmt: str) -> F32:
    """Return the value of every code of ``fmt``, shape [2**bits]; read-only."""
    f = format_of(fmt)
    codes = np.arange(1 << f.bits, dtype=np.uint32)
    sign = codes >> np.uint32(f.bits - 1) << np.uint32(31)
    exponent = codes >> np.uint32(f.mantissa_bits) & np.uint32((1 << f.exponent_bits) - 1)
    mantissa = codes & np.uint32((1 << f.mantissa_bits) - 1)
    fraction = np.where(exponent == 0, 0.0, 1.0) + mantissa * 2.0**-f.mantissa_bits
    with np.errstate(over="ignore"):
        magnitude = np.ldexp(fraction, np.maximum(exponent, 1).astype(np.int32) - f.bias).astype(np.float32)
    bits = magnitude.view(np.uint32) | sign
    special_bits = sign | _INFINITY_BITS | mantissa << np.uint32(23 - f.mantissa_bits)
    if f.special == "ieee":
        bits = np.where(exponent == (1 << f.exponent_bits) - 1, special_bits, bits)
    elif f.special == "fn":
        bits = np.where(codes & np.uint32(0x7F) == 0x7F, special_bits, bits)
    elif f.special == "fnuz":
        bits = np.where(codes == 0x80, _FNUZ_NAN_BITS, bits)
    table: F32 = bits.view(np.float32)
    table.flags.writeable = False
    return table


@cache
def _pair_table(fmt: str) -> NDArray[np.uint64]:
    """Return the bits of two float32 for every two 8-bit codes in memory order, shape [65536]; read-only."""
    codes = np.arange(1 << 16, dtype=np.uint16).view(np.uint8)
    table: NDArray[np.uint64] = decode_table(fmt)[codes].view(np.uint64)
    table.flags.writeable = False
    return table


def _decode_fp16(codes: NDArray[np.uint16]) -> F32:
    values: F32 = as_tensor(codes.view(np.float16)).to(torch.float32).numpy()
    if has_nan(values):
        # the conversion instruction sets the quiet bit
        nan = np.isnan(values)
        values[nan] = decode_table("fp16")[codes[nan]]
    return values


@cache
def _pack_table(fmt: str) -> NDArray[np.uint8]:
    values = decode_table(fmt)
    table = np.zeros(1 << 16, dtype=np.uint8)
    table[upper_half(values)] = np.arange(values.size, dtype=np.uint8)
    table.flags.writeable = False
    return table


def _pack_fp16(x: F32) -> NDArray[np.uint16]:
    codes: NDArray[np.uint16] = as_tensor(x).to(torch.float16).numpy().view(np.uint16)
    if has_nan(x):
        # the conversion instruction sets the quiet bit
        nan = np.isnan(x)
        bits = x.view(np.uint32)[nan]
        sign = bits >> np.uint32(16) & np.uint32(0x8000)
        codes[nan] = (sign | np.uint32(0x7C00) | bits >> np.uint32(13) & np.uint32(0x3FF)).astype(np.uint16)
    return codes


def decode_e8m0(codes: NDArray[np.uint8]) -> F32:
    """Return 2**(code - 127) as float32, 255 as NaN (OCP "Microscaling Formats" 1.0, 5.4.1).

    Code 0 is 2**-127, a float32 subnormal, exactly.
    """
    return look_up(_e8m0_table(), codes.view(np.uint8))


@cache
def _e8m0_table() -> F32:
    table: F32 = np.ldexp(np.float64(1), np.arange(-127, 129)).astype(np.float64)
    table[255] = np.nan
    table = table.astype(np.float32)
    table.flags.writeable = False
    return table


def decode_e2m1(codes: NDArray[np.uint8]) -> F32:
    """Return the float32 values of 4-bit codes 0 to 15, one a byte (OCP "Microscaling Formats" 1.0, 5.3.3).

    Raises IndexError for a byte above 15.
    """
    return look_up(_E2M1, codes.view(np.uint8))


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)
_E2M1.flags.writeable = False
