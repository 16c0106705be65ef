"""The statistics that verdicts rest on: Student's t, an interval of a median, Holm's correction.

Written out because a comparison needs three functions of them and nothing else here needs a package for statistics.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Steps of the continued fraction: it has converged to the last bit long before, whatever the degrees of freedom.
_STEPS = 300
_TINY = 1e-300


def student_sf(t: Array | float, df: Array | float) -> Array:
    """Return P(T > t) of Student's distribution with ``df`` degrees of freedom; NaN where ``df`` is not positive."""
    t, df = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(df, dtype=np.float64))
    known = np.where(df > 0, df, 1.0)
    with np.errstate(all="ignore"):
        # the smaller of the two tails is the one that the incomplete beta function gives
        tail = 0.5 * _incomplete_beta_half(known / 2, known / (known + t * t))
        result = np.where(t >= 0, tail, 1 - tail)
    return np.where(df > 0, result, np.nan)


def student_quantile(tail: float, df: Array | float) -> Array:
    """Return the t that ``student_sf`` maps to ``tail``, which is at most 1/2; NaN where ``df`` is not positive.

    Degrees of freedom that are no whole number, or below ten no half of one, are rounded down: a little further out.
    """
    df = np.asarray(df, dtype=np.float64)
    coarse = np.where(df < 10, np.maximum(np.floor(2 * df) / 2, 0.5), np.floor(df))
    distinct, place = np.unique(np.where(df > 0, coarse, np.nan), return_inverse=True)
    values = [_quantile(tail, float(value)) if value > 0 else math.nan for value in distinct]
    return np.array(values)[place].reshape(np.shape(df))


@functools.lru_cache(maxsize=4096)
def _quantile(tail: float, df: float) -> float:
    """Return one quantile by bisection, to the last bits."""
    low, high = 0.0, 1.0
    while student_sf(high, df) > tail and high < 1e300:
        low, high = high, high * 8
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_sf(middle, df) > tail else (low, middle)
    return (low + high) / 2


def _incomplete_beta_half(a: Array, x: Array) -> Array:
    """Return the regularised incomplete beta function I_x(a, 1/2)."""
    distinct, place = np.unique(a, return_inverse=True)
    logs = [math.lgamma(value + 0.5) - math.lgamma(value) - math.lgamma(0.5) for value in distinct]
    front = np.exp(np.array(logs)[place].reshape(a.shape) + a * np.log(x) + 0.5 * np.log1p(-x))
    half = np.full_like(a, 0.5)
    mirrored = x > (a + 1) / (a + 2.5)
    p, q = np.where(mirrored, half, a), np.where(mirrored, a, half)
    part = front * _fraction(p, q, np.where(mirrored, 1 - x, x)) / p
    result = np.where(mirrored, 1 - part, part)
    return np.where(x <= 0, 0.0, np.where(x >= 1, 1.0, result))


def _fraction(a: Array, b: Array, x: Array) -> Array:
    """Return Lentz's evaluation of the continued fraction of the incomplete beta function."""

    def nonzero(values: Array) -> Array:
        return np.where(np.abs(values) < _TINY, _TINY, values)

    c = np.ones_like(x)
    d = 1 / nonzero(1 - (a + b) * x / (a + 1))
    total = d.copy()
    for m in range(1, _STEPS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / nonzero(1 + numerator * d)
            c = nonzero(1 + numerator / c)
            step = c * d
            total = total * step
        if np.nanmax(np.abs(step - 1), initial=0.0) < 1e-15:
            break
    return total


def holm(p: Array) -> Array:
    """Return ``p`` adjusted over its last axis by Holm's method.

    Rejecting what stays at or below alpha keeps the chance of any wrong rejection at or below alpha, whatever the
    dependence between the tests.
    """
    count = p.shape[-1]
    order = np.argsort(p, axis=-1)
    scaled = np.take_along_axis(p, order, axis=-1) * np.arange(count, 0, -1)
    adjusted = np.minimum(np.maximum.accumulate(scaled, axis=-1), 1.0)
    result = np.empty_like(adjusted)
    np.put_along_axis(result, order, adjusted, axis=-1)
    return result


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return two of ``samples`` between which the median lies with at least ``confidence``, were they independent.

    By order statistics, so without an assumption about their distribution.  Of few samples: the smallest and largest.
    """
    ordered, count = sorted(samples), len(samples)
    # the widest rank whose lower binomial tail, P(at most rank - 1 samples lie below the median), stays within budget
    allowed, rank, tail = (1 - confidence) / 2, 0, 0.0
    log_half = count * math.log(0.5)
    while rank < count // 2:
        tail += math.exp(math.lgamma(count + 1) - math.lgamma(rank + 1) - math.lgamma(count - rank + 1) + log_half)
        if tail > allowed:
            break
        rank += 1
    lower = max(rank - 1, 0)
    return ordered[lower], ordered[count - 1 - lower]
