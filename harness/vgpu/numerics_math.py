"""Elementwise functions whose result on a GPU is not numpy's: flushed subnormals, NaN rules, rounded steps.

Arrays are float32 or float64 and keep their shape; rounding to a narrower type is the caller's ``round_to``.
A result depends on the element alone, never on its place in the array, so that permuting inputs permutes outputs:
that rules out ``torch.exp2``, whose vectorised and scalar loops differ by an ulp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness.vgpu.formats import as_tensor, has_nan
from harness.vgpu.profiles import Profile

Array = NDArray[Any]

_SMALLEST_NORMAL = np.float32(2.0**-126)
_ZERO = np.float32(0)
#: The constant of ``tl.exp``, rounded to float32 as in the compiled kernel (0x3FB8AA3B).
_LOG2_E = np.float32(1.4426950408889634)


def flush(x: Array) -> Array:
    """Return float32 ``x`` with every subnormal replaced by the zero of its sign."""
    tiny = np.abs(x) < _SMALLEST_NORMAL
    return np.where(tiny, np.copysign(_ZERO, x), x) if tiny.any() else x


def _flushed(function: Callable[[Array], Array], x: Array, flushes: bool) -> Array:
    with np.errstate(invalid="ignore"):
        if flushes and x.dtype == np.float32:
            return flush(function(flush(x)))
        return function(x)


def exp2(x: Array, profile: Profile) -> Array:
    """Return 2**x, exact at integers; a float32 result below 2**-126 is +0 where ``ex2`` flushes.

    The device's ``ex2.approx`` is within 2 ulp of this (PTX ISA, "ex2"; 2 measured on an H200).
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        result: Array = np.exp2(x)
        if profile.ftz_exp2 and x.dtype == np.float32:
            # exactly the arguments whose result is subnormal; a subnormal argument gives 1 either way
            tiny = x < -126
            if tiny.any():
                result = np.where(tiny, _ZERO, result)
    return result


def exp(x: Array, profile: Profile) -> Array:
    """Return e**x; as compiled for NVIDIA, float32 is 2**(x * log2(e)) with the product rounded, never flushed.

    The rounded product makes the relative error grow with |x|, to 5e-6 at x = 88, on the device as here.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if profile.exp_by_exp2 and x.dtype == np.float32:
            return np.asarray(np.exp2(x * _LOG2_E))
        return np.asarray(np.exp(x))


def log2(x: Array, profile: Profile) -> Array:
    """Return log2(x): -inf at 0, NaN below; subnormals count in full, on the device too."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log2(x))


def log(x: Array, profile: Profile) -> Array:
    """Return ln(x): -inf at 0, NaN below; subnormals count in full, on the device too."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(x))


def sqrt(x: Array, profile: Profile) -> Array:
    """Return the square root, correctly rounded; a float32 subnormal counts as zero where ``sqrt`` flushes.

    ``sqrt.approx.ftz`` was within 1 ulp of this on an H200.
    """
    return _flushed(np.sqrt, x, profile.ftz_sqrt)


def rsqrt(x: Array, profile: Profile) -> Array:
    """Return 1 / sqrt(x), infinite with its sign at +-0 and, where ``rsqrt`` flushes, at subnormals.

    ``rsqrt.approx.ftz`` was within 1 ulp of this on an H200.
    """
    with np.errstate(divide="ignore"):
        return _flushed(_rsqrt, x, profile.ftz_sqrt)


def _rsqrt(x: Array) -> Array:
    # in float64: the quotient of two float32 roundings would be an ulp off
    return np.asarray(1 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


def div(a: Array, b: Array, profile: Profile) -> Array:
    """Return a / b, correctly rounded.

    float32 ``/`` compiles to ``div.full.f32``, within 2 ulp of the quotient (PTX ISA, "div"; 1 measured on an
    H200, and the same infinities, zeros and NaNs).
    """
    with np.errstate(all="ignore"):
        return np.asarray(np.divide(a, b))


def fused(x: Array, y: Array, z: Array) -> Array:
    """Return x * y + z of float32 in float64, rounded to odd, so that the caller's rounding is the only one."""
    product = x.astype(np.float64) * y
    total = product + z
    # what float64 lost: nonzero means that the last bit must become 1 for the second rounding to be right
    back = total - product
    error = (product - (total - back)) + (z - back)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0)
    towards = np.where((error > 0) == (total > 0), bits, bits - 1)
    return np.where(inexact, towards | 1, bits).view(np.float64)


def remainder(a: Array, b: Array, profile: Profile) -> Array:
    """Return a % b with the sign of a.

    For NVIDIA the compiler makes of it fma(-trunc(a / b), b, a), and a where b is infinite: beyond 2**24 times b the
    result is no remainder, and may be larger than b (bit-equal to an H200).  float64 rounds the product as well.
    """
    with np.errstate(all="ignore"):
        if profile.vendor != "cuda":
            return np.asarray(np.fmod(a, b))
        times = -np.trunc(a / b)
        narrow = a.dtype == np.float32
        left = fused(times, b, a).astype(np.float32) if narrow else times * b + a
        return np.where(np.isinf(b), a, left)


def sin(x: Array, profile: Profile) -> Array:
    """Return sin(x), NaN at infinities."""
    return _flushed(np.sin, x, profile.ftz_libdevice)


def cos(x: Array, profile: Profile) -> Array:
    """Return cos(x), NaN at infinities."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.cos(x))


def tanh(x: Array, profile: Profile) -> Array:
    """Return tanh(x); a float32 subnormal counts as zero where libdevice flushes."""
    return _flushed(np.tanh, x, profile.ftz_libdevice)


def erf(x: Array, profile: Profile) -> Array:
    """Return erf(x); a float32 subnormal counts as zero where libdevice flushes."""
    return _flushed(lambda y: np.asarray(torch.special.erf(as_tensor(y)).numpy()), x, profile.ftz_libdevice)


def floor(x: Array, profile: Profile) -> Array:
    """Return the floor; a negative float32 subnormal gives -0 where ``cvt.rmi.ftz`` is used."""
    return _flushed(np.floor, x, profile.ftz_libdevice)


def ceil(x: Array, profile: Profile) -> Array:
    """Return the ceiling; a positive float32 subnormal gives +0 where ``cvt.rpi.ftz`` is used."""
    return _flushed(np.ceil, x, profile.ftz_libdevice)


def maximum(a: Array, b: Array, *, propagate_nan: bool) -> Array:
    """Return the larger of a and b; a NaN wins (``max.NaN``) or loses against a number (``max``).

    +0 is larger than -0 (PTX ISA, "max").
    """
    return _extreme(np.maximum, a, b, np.float32(0.0), propagate_nan)


def minimum(a: Array, b: Array, *, propagate_nan: bool) -> Array:
    """Return the smaller of a and b; a NaN wins (``min.NaN``) or loses against a number (``min``).

    -0 is smaller than +0 (PTX ISA, "min").
    """
    return _extreme(np.minimum, a, b, np.float32(-0.0), propagate_nan)


def clamp(x: Array, low: Array, high: Array, *, propagate_nan: bool, profile: Profile) -> Array:
    """Return min(max(x, low), high); low and high are numbers.

    Where a NaN does not propagate it gives ``low``; between a constant and its negative, from sm_90 on, the limit of
    its sign: ``min.xorsign.abs`` (measured on an H200).
    """
    result = minimum(maximum(x, low, propagate_nan=propagate_nan), high, propagate_nan=propagate_nan)
    if propagate_nan or not profile.clamp_by_sign or low.size != 1 or high.size != 1 or low.flat[0] != -high.flat[0]:
        return result
    return np.where(np.isnan(x), np.copysign(high, x), result) if has_nan(x) else result


def _extreme(function: Callable[[Array, Array], Array], a: Array, b: Array, zero: np.float32, propagate: bool) -> Array:
    with np.errstate(invalid="ignore"):
        result = function(a, b)
        if result.dtype.kind != "f" or result.size == 0:
            return result
        # np.fmax is no help here: it lets a signalling NaN win
        if not propagate and has_nan(result):
            result = np.where(np.isnan(a), b, np.where(np.isnan(b), a, result))
        # of two zeros numpy returns the second
        if not result.all():
            mixed = (a == b) & (result == 0) & (np.signbit(a) != np.signbit(b))
            if mixed.any():
                result = np.where(mixed, zero.astype(result.dtype), result)
        return result
