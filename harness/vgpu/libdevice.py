"""NVIDIA's device library: its functions by name, how far each may be from the exact result, and what it is here.

A float32 function is computed in float64 and rounded once, so it is correctly rounded but for a few values in a
billion; a float64 function is numpy's or torch's.  The bounds are those of the CUDA C++ Programming Guide, appendix
"Mathematical Functions", tables of maximum ulp errors; the rounding in the last place is not predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness.vgpu import numerics

Array = NDArray[Any]
Compute = Callable[..., Array]


@dataclass(frozen=True)
class Function:
    """A function of floats.

    ``ulp``, ``wide_ulp``: most that the device's float32 and float64 results differ from the correctly rounded one,
    None where nothing is promised for all arguments.  ``flushes``: whether the float32 function takes subnormal
    operands, and results, for zeros: Triton asks the library for that.  ``own``: ``compute`` takes float32 as it is.
    """

    compute: Compute
    ulp: int | None
    wide_ulp: int | None
    flushes: bool = True
    own: bool = False

    def __call__(self, *data: Array, flush: bool) -> Array:
        """Return the function of float32 or float64 arrays; ``flush``: whether the target flushes subnormals."""
        with np.errstate(all="ignore"):
            if data[0].dtype != np.float32:
                return np.asarray(self.compute(*data))
            flushed = flush and self.flushes
            given = [numerics.flush(d) if flushed and d.dtype == np.float32 else d for d in data]
            if not self.own:
                given = [d.astype(np.float64) if d.dtype == np.float32 else d for d in given]
            result = np.asarray(self.compute(*given)).astype(np.float32, copy=False)
            return numerics.flush(result) if flushed else result


def _torch(function: Callable[..., torch.Tensor]) -> Compute:
    def call(*data: Array) -> Array:
        result: Array = function(*(torch.from_numpy(np.ascontiguousarray(d)) for d in data)).numpy()
        return result

    return call


def _at_infinity(function: Callable[..., torch.Tensor], value: Compute) -> Compute:
    """Return ``function`` with ``value`` of x where x is infinite."""
    finite = _torch(function)
    return lambda x: np.where(np.isinf(x), value(x), finite(x))


def _turns(x: Array) -> tuple[Array, Array]:
    """Return which quarter turn pi * x is nearest to, 0 to 3, and how far it is from there, in [-pi/4, pi/4]."""
    reduced = np.fmod(x, 2.0)
    quarter = np.rint(2 * reduced)
    return np.remainder(quarter, 4.0), np.pi * (reduced - quarter / 2)


def _sinpi(x: Array) -> Array:
    quarter, left = _turns(x)
    sizes = np.where(quarter % 2 == 0, np.sin(left), np.cos(left))
    result = np.where(quarter >= 2, -sizes, sizes)
    return np.where(np.isfinite(x) & (x == np.rint(x)), np.copysign(0.0, x), result)


def _cospi(x: Array) -> Array:
    quarter, left = _turns(x)
    sizes = np.where(quarter % 2 == 0, np.cos(left), np.sin(left))
    result = np.where((quarter == 1) | (quarter == 2), -sizes, sizes)
    return np.where(result == 0, 0.0, result)


def _tgamma(x: Array) -> Array:
    size = np.exp(_torch(torch.lgamma)(x))
    whole = np.floor(x)
    sign = np.where((x < 0) & (np.remainder(whole, 2.0) != 0), -1.0, 1.0)
    pole = (x == whole) & (x < 0)
    return np.where(pole | (x == -np.inf), np.nan, np.where(x == 0, 1 / x, sign * size))


def _remainder(x: Array, y: Array) -> Array:
    """The remainder of IEEE 754: the quotient is rounded to nearest, ties to even."""
    by = np.abs(y)
    left = np.fmod(np.abs(x), 2 * by)
    less = left - by
    nearer = np.where(less + less >= by, less - by, less)
    left = np.where(left + left > by, nearer, left)
    left = np.where(np.isinf(by) & np.isfinite(x), np.abs(x), left)
    result = np.where(np.signbit(x), -left, left)
    return np.where(left == 0, np.copysign(0.0, x), np.where(by == 0, np.nan, result))


def _logb(x: Array) -> Array:
    exponent = np.frexp(x)[1] - 1.0
    return np.where(np.isfinite(x), np.where(x == 0, -np.inf, exponent), np.abs(x))


def _divided(x: Array, y: Array) -> Array:
    """``div.approx``: a divisor beyond 2**126 has a reciprocal that flushes."""
    large = (np.abs(y) > 2.0**126) & np.isfinite(y)
    return np.where(large, x * np.copysign(0.0, y), x / y)


def _norm(*x: Array) -> Array:
    result = x[0]
    for other in x[1:]:
        result = np.hypot(result, other)
    return result


def _reciprocal(function: Compute) -> Compute:
    return lambda *x: 1 / function(*x)


_ERF, _ERFC = _torch(torch.special.erf), _torch(torch.special.erfc)
_NDTRI = _torch(torch.special.ndtri)
_LOG2_E, _LOG2_10 = np.float32(1 / np.log(2.0)), np.float32(np.log2(10.0))

#: By name, without the suffix of float32.
FUNCTIONS: dict[str, Function] = {
    "exp": Function(np.exp, 2, 1),
    "exp2": Function(np.exp2, 2, 1),
    "exp10": Function(lambda x: np.power(10.0, x), 2, 1),
    "expm1": Function(np.expm1, 1, 1),
    "log": Function(np.log, 1, 1, flushes=False),
    "log2": Function(np.log2, 1, 1, flushes=False),
    "log10": Function(np.log10, 2, 1, flushes=False),
    "log1p": Function(np.log1p, 1, 1),
    "logb": Function(_logb, None, 0),
    "sqrt": Function(np.sqrt, 1, 0),
    "rsqrt": Function(lambda x: 1 / np.sqrt(x), 2, 1),
    "cbrt": Function(np.cbrt, 1, 1),
    "rcbrt": Function(_reciprocal(np.cbrt), 1, 1),
    "sin": Function(np.sin, 2, 2),
    "cos": Function(np.cos, 2, 2),
    "tan": Function(np.tan, 4, 2),
    "sinpi": Function(_sinpi, 2, 2),
    "cospi": Function(_cospi, 2, 2),
    "asin": Function(np.arcsin, 4, 2),
    "acos": Function(np.arccos, 3, 2),
    "atan": Function(np.arctan, 2, 2),
    "atan2": Function(np.arctan2, 3, 2),
    "sinh": Function(np.sinh, 3, 2),
    "cosh": Function(np.cosh, 2, 1),
    "tanh": Function(np.tanh, 2, 1),
    "asinh": Function(np.arcsinh, 3, 3),
    "acosh": Function(np.arccosh, 4, 3),
    "atanh": Function(np.arctanh, 3, 2),
    "pow": Function(np.power, 8, 2, flushes=False),
    "powi": Function(lambda x, n: np.power(x, n.astype(np.float64)), None, None),
    "erf": Function(_ERF, 2, 2),
    "erfc": Function(_ERFC, 4, 5),
    "erfinv": Function(_torch(torch.special.erfinv), 2, 5),
    "erfcinv": Function(lambda x: np.where(x < 0, np.nan, -_NDTRI(x / 2) / np.sqrt(2.0)), 4, None),
    "erfcx": Function(_torch(torch.special.erfcx), 4, None),
    "normcdf": Function(lambda x: 0.5 * _ERFC(-x * np.sqrt(0.5)), 5, None),
    "normcdfinv": Function(_NDTRI, 5, 8, flushes=False),
    # larger between -10.001 and -2.264, where the function has zeros
    "lgamma": Function(_torch(torch.lgamma), None, None),
    "tgamma": Function(_tgamma, None, None),
    "cyl_bessel_i0": Function(_at_infinity(torch.special.i0, np.abs), 6, 6),
    "cyl_bessel_i1": Function(_at_infinity(torch.special.i1, np.copy), 6, 6),
    # absolute bounds from |x| = 8 on
    "j0": Function(_torch(torch.special.bessel_j0), None, None),
    "j1": Function(_torch(torch.special.bessel_j1), None, None),
    "y0": Function(_torch(torch.special.bessel_y0), None, None),
    "y1": Function(_torch(torch.special.bessel_y1), None, None),
    "hypot": Function(np.hypot, 3, 2),
    "rhypot": Function(_reciprocal(np.hypot), 2, 1),
    "norm3d": Function(_norm, 3, 2),
    "norm4d": Function(_norm, 3, 2),
    "rnorm3d": Function(_reciprocal(_norm), 2, 1),
    "rnorm4d": Function(_reciprocal(_norm), 2, 1),
    "fmod": Function(np.fmod, 0, 0),
    "remainder": Function(_remainder, 0, 0),
    "fdim": Function(lambda x, y: np.where(x <= y, 0.0, x - y), 0, 0, flushes=False),
    "floor": Function(np.floor, 0, 0),
    "ceil": Function(np.ceil, 0, 0),
    "trunc": Function(np.trunc, 0, 0),
    "rint": Function(np.rint, 0, 0),
    "nearbyint": Function(np.rint, 0, 0),
    "round": Function(lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), 0, 0),
    "fabs": Function(np.abs, 0, 0),
    "copysign": Function(np.copysign, 0, 0, flushes=False),
    "saturatef": Function(lambda x: np.where(np.isnan(x), 0.0, np.clip(x, 0.0, 1.0) + 0.0), 0, None),
    "ldexp": Function(lambda x, n: np.ldexp(x, n.astype(np.int32)), None, 0, flushes=False),
    "scalbn": Function(lambda x, n: np.ldexp(x, n.astype(np.int32)), None, 0, flushes=False),
    "nextafter": Function(np.nextafter, None, 0, flushes=False, own=True),
    # of the product in float32, as the device computes it: ex2.approx.ftz (PTX ISA: 2 ulp)
    "fast_expf": Function(lambda x: np.exp2((x * _LOG2_E).astype(np.float64)), 2, None, own=True),
    "fast_exp10f": Function(lambda x: np.exp2((x * _LOG2_10).astype(np.float64)), 2, None, own=True),
    "fast_fdividef": Function(_divided, 2, None),
    # lg2.approx, sin.approx and cos.approx have absolute bounds, in parts of their domain
    "fast_log2f": Function(np.log2, None, None),
    "fast_logf": Function(np.log, None, None),
    "fast_log10f": Function(np.log10, None, None),
    "fast_powf": Function(np.power, None, None),
    "fast_sinf": Function(np.sin, None, None),
    "fast_cosf": Function(np.cos, None, None),
    "fast_tanf": Function(np.tan, None, None),
}
