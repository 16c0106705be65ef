"""Float conversion by search, the reference of the cast tests.

It shares nothing with the code under test: it sorts the values of all codes, takes the midpoints of neighbours
(exact in float64) and looks up where each input falls; a tie goes to the even code.
"""

import numpy as np

from harness.vgpu import numerics, profiles

TARGETS = ("bf16", "fp16", "fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16")
LARGEST = {
    "bf16": float.fromhex("0x1.fep127"),
    "fp16": 65504.0,
    "fp8e4nv": 448.0,
    "fp8e5": 57344.0,
    "fp8e4b8": 240.0,
    "fp8e5b16": 57344.0,
}
WIDTH = {fmt: 16 if fmt in ("bf16", "fp16") else 8 for fmt in TARGETS}
FNUZ = ("fp8e4b8", "fp8e5b16")
CUDA = [name for name in profiles.names() if name.startswith("sm_")]
DIRECT = [name for name in CUDA if name not in ("sm_80", "sm_89")]
H200 = profiles.profile("sm_90")


def storage(fmt):
    return np.uint8 if WIDTH[fmt] == 8 else np.uint16


def widen(x):
    """float64; converting a signalling NaN would warn."""
    with np.errstate(invalid="ignore"):
        return x.astype(np.float64)


def grid(fmt):
    """Positive finite values of ``fmt`` in ascending order: index is code."""
    values = widen(numerics.decode(np.arange(1 << (WIDTH[fmt] - 1)).astype(storage(fmt)), fmt))
    return values[np.isfinite(values) & (values <= LARGEST[fmt])]


def reference(x, fmt, *, rounding="rtne", saturate=None, nan=None):
    """Codes of float64 ``x``, by search.  ``saturate``: overflow and infinity give the largest finite value."""
    saturate = WIDTH[fmt] == 8 if saturate is None else saturate
    nan = (0x80 if fmt in FNUZ else (1 << (WIDTH[fmt] - 1)) - 1) if nan is None else nan
    values = grid(fmt)
    magnitude = np.abs(np.where(np.isnan(x), 0.0, x))
    below = np.searchsorted(values, magnitude, side="right") - 1
    if rounding == "rtne":
        middle = np.append((values[:-1] + values[1:]) / 2, np.inf)
        # one more step beyond the largest value decides what overflows
        middle[-1] = values[-1] + (values[-1] - values[-2]) / 2
        up = (magnitude > middle[below]) | ((magnitude == middle[below]) & (below % 2 == 1))
        code = below + up
    else:
        code = below
    last = len(values) - 1
    infinity = {"fp8e4nv": 0x7F, "fp8e4b8": 0x80, "fp8e5b16": 0x80}.get(fmt, last + 1)
    if rounding == "rtne":
        code = np.where(code > last, last if saturate else infinity, code)
        code = np.where(np.isinf(x), last if saturate and fmt not in FNUZ else infinity, code)
    else:
        code = np.where(np.isinf(x), infinity, code)
    negative = np.signbit(x) & ~((fmt in FNUZ) & ((code == 0) | (code == 0x80)))
    code = code | negative.astype(np.int64) << (WIDTH[fmt] - 1)
    return np.where(np.isnan(x), nan, code).astype(storage(fmt))


def differing(actual, expected, x):
    """(input, got, wanted) of the first few differences."""
    bad = np.flatnonzero(actual != expected)
    return [(float(x[i]).hex(), hex(actual[i]), hex(expected[i])) for i in bad[:5]]


def boundaries(fmt):
    """float32 values at, and one ulp beside, every code and every midpoint; both signs; the ends of float32."""
    values = grid(fmt)
    step = values[-1] - values[-2]
    points = np.concatenate(
        [values, (values[:-1] + values[1:]) / 2, values[-1] + step * np.array([0.5, 1.0, 1.5, 2.0])]
    )
    with np.errstate(over="ignore"):
        points = points.astype(np.float32)
    bits = points[np.isfinite(points)].view(np.uint32).astype(np.int64)
    ends = np.array([0x00000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000])
    near = np.unique(np.concatenate([bits - 1, bits, bits + 1, ends]).clip(0, 0x7F800000)).astype(np.uint32)
    return np.concatenate([near, near | np.uint32(0x80000000)]).view(np.float32)


ALL_UPPER_HALVES = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
LOWER_HALVES = np.array([0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
FLOATS = (ALL_UPPER_HALVES[:, None] | LOWER_HALVES).ravel().view(np.float32)
