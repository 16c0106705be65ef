"""NVIDIA's device library: what has one right answer, such as directed rounding, conversions and counts of bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.vgpu import numerics
from harness.vgpu.elements import unsigned
from harness.vgpu.profiles import Profile

Array = NDArray[Any]
#: Of operands, the target's rules, and the numpy type of the result.
Exact = Callable[[tuple[Array, ...], Profile, "np.dtype[Any]"], Array]

_ROUNDINGS = ("rn", "rz", "rd", "ru")


def _nearest_and_error(kind: str, x: tuple[Array, ...]) -> tuple[Array, Array]:
    """Return the float32 result rounded to nearest, and a number with the sign of exact - rounded.

    ``x``: float64 arrays that hold float32 values, so that products and what is left of a quotient are exact.
    """
    if kind == "fadd":
        total = _odd_sum(x[0], x[1])
    elif kind == "fsub":
        total = _odd_sum(x[0], -x[1])
    elif kind == "fmul":
        total = x[0] * x[1]
    elif kind == "fmaf":
        total = _odd_sum(x[0] * x[1], x[2])
    else:
        if kind == "frcp":
            x = (np.ones_like(x[0]), x[0])
        exact = np.sqrt(x[0]) if kind == "fsqrt" else x[0] / x[1]
        nearest = exact.astype(np.float32)
        back = nearest.astype(np.float64)
        left = x[0] - back * back if kind == "fsqrt" else (x[0] - back * x[1]) * np.sign(x[1])
        # of infinite results nothing is left but their place
        return nearest, np.where(np.isfinite(back), left, exact - back)
    nearest = total.astype(np.float32)
    return nearest, total - nearest.astype(np.float64)


def _odd_sum(a: Array, b: Array) -> Array:
    """Return a + b in float64, rounded to odd: on the same side of every float32 as the exact sum."""
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0)
    towards = np.where((error > 0) == (total > 0), bits, bits - 1)
    return np.where(inexact, towards | 1, bits).view(np.float64)


def _directed(kind: str, rounding: str) -> Exact:
    def call(data: tuple[Array, ...], profile: Profile, to: np.dtype[Any]) -> Array:
        flush = profile.ftz_libdevice
        given = [numerics.flush(d) if flush else d for d in data]
        wide = tuple(d.astype(np.float64) for d in np.broadcast_arrays(*given))
        nearest, error = _nearest_and_error(kind, wide)
        result = _towards(rounding, nearest, error)
        if rounding == "rd" and kind in ("fadd", "fsub", "fmaf"):
            first = wide[0] * wide[1] if kind == "fmaf" else wide[0]
            last = -wide[-1] if kind == "fsub" else wide[-1]
            # IEEE 754, 6.3: a sum that cancels is -0 when rounding down
            zeros = np.signbit(first) | np.signbit(last)
            result = np.where((result == 0) & (error == 0) & zeros, np.float32(-0.0), result)
        made: Array = numerics.flush(result) if flush else result
        return made

    return call


_WHOLE: dict[str, Callable[[Array], Array]] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
_INTEGERS = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}


def _to_integer(kind: str, rounding: str) -> Exact:
    def call(data: tuple[Array, ...], profile: Profile, to: np.dtype[Any]) -> Array:
        x = data[0]
        if x.dtype == np.float32 and profile.ftz_libdevice:
            x = numerics.flush(x)
        return numerics.float_to_int(_WHOLE[rounding](x), _INTEGERS[kind], profile).view(to)

    return call


def _from_integer(kind: str, rounding: str) -> Exact:
    def call(data: tuple[Array, ...], profile: Profile, to: np.dtype[Any]) -> Array:
        x = data[0] if kind in ("int", "ll") else unsigned(data[0])
        nearest = x.astype(to)
        if rounding == "rn":
            return nearest
        # exact: of 64 bits the upper half less the rounded number is small
        upper = (x >> x.dtype.type(32)).astype(np.float64) if x.itemsize == 8 else np.zeros(x.shape)
        lower = (x & x.dtype.type(0xFFFFFFFF)).astype(np.float64) if x.itemsize == 8 else x.astype(np.float64)
        error = (upper * 2.0**32 - nearest.astype(np.float64)) + lower
        return _towards(rounding, nearest, error)

    return call


def _narrowed(rounding: str) -> Exact:
    def call(data: tuple[Array, ...], profile: Profile, to: np.dtype[Any]) -> Array:
        nearest = data[0].astype(to)
        return _towards(rounding, nearest, data[0] - nearest.astype(np.float64))

    return call


def _towards(rounding: str, nearest: Array, error: Array) -> Array:
    """Return float32 rounded as asked, given it rounded to nearest and a number with the sign of exact - rounded."""
    if rounding == "rn":
        return nearest
    positive = (nearest > 0) | ((nearest == 0) & (error > 0))
    below = (error < 0) & ((rounding == "rd") | ((rounding == "rz") & positive))
    above = (error > 0) & ((rounding == "ru") | ((rounding == "rz") & ~positive))
    result = np.where(below, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    return np.where(above, np.nextafter(nearest, np.float32(np.inf)), result)


def _plain(function: Callable[..., Array]) -> Exact:
    return lambda data, profile, to: np.asarray(function(*data)).astype(to)


def _bits(data: tuple[Array, ...], profile: Profile, to: np.dtype[Any]) -> Array:
    return np.ascontiguousarray(data[0]).view(to)


def _unsigned(function: Callable[..., Array]) -> Exact:
    return lambda data, profile, to: np.asarray(function(*(unsigned(d) for d in data))).astype(to)


def _length(x: Array) -> Array:
    """Return how many bits unsigned numbers have, leading zeros left out."""
    length = np.zeros(x.shape, np.int32)
    for shift in (32, 16, 8, 4, 2, 1):
        if shift < x.itemsize * 8:
            high = x >> x.dtype.type(shift)
            length += np.where(high != 0, shift, 0).astype(np.int32)
            x = np.where(high != 0, high, x)
    counted: Array = length + (x != 0)
    return counted


def _clz(x: Array) -> Array:
    return x.itemsize * 8 - _length(x)


def _ffs(x: Array) -> Array:
    return _length(x & (~x + x.dtype.type(1)))


def _brev(x: Array) -> Array:
    count = x.itemsize * 8
    result = np.zeros_like(x)
    one = x.dtype.type(1)
    for bit in range(count):
        result |= (x >> x.dtype.type(bit) & one) << x.dtype.type(count - 1 - bit)
    return result


def _mul24(x: Array, y: Array) -> Array:
    signed = x.dtype.kind == "i"
    a, b = ((d << d.dtype.type(8)) >> d.dtype.type(8) if signed else d & d.dtype.type(0xFFFFFF) for d in (x, y))
    product: Array = a * b
    return product


def _ilogb(x: Array) -> Array:
    x = numerics.flush(x) if x.dtype == np.float32 else x
    lowest, highest = -(2**31), 2**31 - 1
    exponent = np.frexp(x.astype(np.float64))[1] - 1
    return np.where(np.isnan(x) | (x == 0), lowest, np.where(np.isinf(x), highest, exponent))


def _half_away(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.copysign(np.floor(np.abs(wide) + 0.5), wide)


def _table() -> dict[str, Exact]:
    found: dict[str, Exact] = {
        "isnanf": _plain(np.isnan),
        "isnand": _plain(np.isnan),
        "isinff": _plain(np.isinf),
        "isinfd": _plain(np.isinf),
        "finitef": _plain(np.isfinite),
        "isfinited": _plain(np.isfinite),
        "signbitf": _plain(np.signbit),
        "signbitd": _plain(np.signbit),
        "abs": _plain(np.abs),
        "llabs": _plain(np.abs),
        "mul24": _plain(_mul24),
        "umul24": _unsigned(_mul24),
        "ilogb": _plain(_ilogb),
        "ilogbf": _plain(_ilogb),
        "popc": _unsigned(_popc),
    }
    for wide in ("", "ll"):
        found |= {f"clz{wide}": _unsigned(_clz), f"ffs{wide}": _unsigned(_ffs), f"brev{wide}": _unsigned(_brev)}
    found["popcll"] = found["popc"]
    for name in ("float_as_int", "float_as_uint", "int_as_float", "uint_as_float"):
        found[name] = _bits
    found |= {"double_as_longlong": _bits, "longlong_as_double": _bits}
    for rounding in _ROUNDINGS:
        for kind in ("fadd", "fsub", "fmul", "fdiv", "frcp", "fsqrt", "fmaf"):
            found[f"{kind}_{rounding}"] = _directed(kind, rounding)
        found[f"double2float_{rounding}"] = _narrowed(rounding)
        for kind in _INTEGERS:
            found[f"float2{kind}_{rounding}"] = found[f"double2{kind}_{rounding}"] = _to_integer(kind, rounding)
            found[f"{kind}2float_{rounding}"] = _from_integer(kind, rounding)
    for kind in _INTEGERS:
        found[f"{kind}2double_rn"] = _from_integer(kind, "rn")
    found |= {"llrintf": _to_integer("ll", "rn"), "llrint": _to_integer("ll", "rn")}
    found |= {name: _rounded_away for name in ("llround", "llroundf")}
    found["fmaf"] = found["fmaf_rn"]
    # of float64 only what numpy rounds as the device does
    found |= {"dadd_rn": _plain(np.add), "dsub_rn": _plain(np.subtract), "dmul_rn": _plain(np.multiply)}
    found |= {"ddiv_rn": _plain(np.divide), "dsqrt_rn": _plain(np.sqrt), "drcp_rn": _plain(lambda x: 1 / x)}
    return found


def _rounded_away(data: tuple[Array, ...], profile: Profile, to: np.dtype[Any]) -> Array:
    return numerics.float_to_int(_half_away(data[0]), np.int64, profile).view(to)


def _popc(x: Array) -> Array:
    count = np.zeros(x.shape, np.int32)
    for bit in range(x.itemsize * 8):
        count += (x >> x.dtype.type(bit) & x.dtype.type(1)).astype(np.int32)
    return count


#: By name without the library's prefix.
EXACT: dict[str, Exact] = _table()
