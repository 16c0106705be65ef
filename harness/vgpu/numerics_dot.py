"""``tl.dot`` on values held as float32: operands rounded as ``input_precision`` says, each sum rounded to float32."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.vgpu.formats import F32, has_nan
from harness.vgpu.numerics_cast import round_to
from harness.vgpu.profiles import Profile

INPUT_PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")

_TF32_KEPT = np.uint32(0xFFFFE000)
_TF32_HALF = np.uint32(0x00001000)
# 64 MiB an array: larger products are rare, and dear enough to pay for their pages.
_SCRATCH_ELEMENTS = 1 << 23
_FLOAT32_MAX = float(np.finfo(np.float32).max)

# Which parts of a and b are multiplied, smallest products first: the Triton pass "tritongpu-F32DotTC".
_TWO_PARTS = ((1, 0), (0, 1))
_THREE_PARTS = ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1))


def dot(
    a: NDArray[Any],
    b: NDArray[Any],
    acc: NDArray[Any] | None = None,
    *,
    input_precision: str = "ieee",
    profile: Profile,
    operand: str = "fp32",
    out: str = "fp32",
) -> NDArray[Any]:
    """Return ``acc + a @ b``, shape [..., M, N], for a [..., M, K] and b [..., K, N]; leading axes broadcast.

    ``operand`` is the format name of both operands: only ``"fp32"`` is rounded by ``input_precision``.
    ``out`` names the accumulator: ``"fp32"``; ``"fp16"``, held as float32 and rounded once at the end;
    ``"fp64"``; ``"int32"``, which wraps.  Products of narrow operands are exact; a sum of products is rounded to
    float32 once and depends on its row and column alone; 0 times infinity is NaN.  Raises ValueError for an unknown
    ``input_precision``.
    """
    if input_precision not in INPUT_PRECISIONS:
        raise ValueError(f"no input_precision {input_precision!r}; there are: {', '.join(INPUT_PRECISIONS)}")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if out == "int32":
            return _integer_dot(a, b, acc)
        product = _fp32_product(a, b, input_precision, profile) if operand == "fp32" else matmul(a, b)
        result = product if acc is None else acc + product
        return round_to(result, "fp16", profile) if out == "fp16" else result


def matmul(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return ``a @ b`` over the last two axes, in the operands' dtype.

    float32 operands are summed in float64 and rounded once: a float32 product of a matrix library sums a column in an
    order that depends on the column's place, a tensor core does not, and in float64 the products of 16-bit and tf32
    operands add up exactly.  A sum that may pass float32's range on the way stays in float32, to overflow where
    hardware does; no sum of another row or column notices.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if a.dtype != np.float32 or b.dtype != np.float32:
            return _batched(a, b)
        sums = _summed(a, b).astype(np.float32)
        if _peak(a) * _peak(b) * a.shape[-1] <= _FLOAT32_MAX:
            return sums
        reach = _peaks(a, -1) * _peaks(b, -2) * a.shape[-1]
        return np.where(reach > _FLOAT32_MAX, _batched(a, b), sums)


def _summed(a: F32, b: F32) -> NDArray[np.float64]:
    left, right = _float64("left", a), _float64("right", b)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.matmul(left, right, out=_scratch.take("sums", (*lead, a.shape[-2], b.shape[-1])))


def _peaks(x: F32, axis: int) -> NDArray[np.float64]:
    """Return the largest finite magnitudes along ``axis``, which stays with size 1."""
    peaks: F32 = np.max(np.abs(x), axis=axis, where=np.isfinite(x), initial=0.0, keepdims=True)
    return peaks.astype(np.float64)


def _peak(x: F32) -> float:
    """Return the largest finite magnitude."""
    largest = float(np.maximum.reduce(np.abs(x), axis=None, initial=0.0))
    if math.isfinite(largest):
        return largest
    return float(np.max(np.abs(x), where=np.isfinite(x), initial=0.0))


class _Scratch(threading.local):
    """float64 arrays that products use again: taking new pages costs more than the product itself."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[np.float64]] = {}

    def take(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return an array of ``shape`` with any content, valid until ``name`` is taken again."""
        size = math.prod(shape)
        array = self.arrays.get(name)
        if array is None or array.size < size:
            array = np.empty(size, np.float64)
            if size <= _SCRATCH_ELEMENTS:
                self.arrays[name] = array
        return array[:size].reshape(shape)


_scratch = _Scratch()


def _float64(name: str, x: F32) -> NDArray[np.float64]:
    """Return ``x`` as float64, with size 1 where its leading axes are broadcast."""
    once = x[tuple(slice(1) if stride == 0 else slice(None) for stride in x.strides[:-2])]
    wide = _scratch.take(name, once.shape)
    np.copyto(wide, once)
    return wide


def _batched(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return ``a @ b``; a ``b`` shared by the whole batch becomes one large product."""
    if a.ndim == b.ndim > 2 and all(size == 1 for size in b.shape[:-2]):
        rows = np.matmul(a.reshape(-1, a.shape[-1]), b.reshape(b.shape[-2:]))
        return np.asarray(rows.reshape(*a.shape[:-1], b.shape[-1]))
    return np.asarray(np.matmul(a, b))


def to_tf32(x: F32) -> F32:
    """Return float32 ``x`` without its 13 lower mantissa bits, which ``mma`` ignores in a tf32 operand.

    A NaN stays NaN whatever its payload.
    """
    kept = (np.asarray(x, dtype=np.float32, order="C").view(np.uint32) & _TF32_KEPT).view(np.float32)
    return np.where(np.isnan(x), x, kept) if has_nan(x) else kept


def nearest_tf32(x: F32) -> F32:
    """Return float32 ``x`` rounded to tf32 as ``cvt.rna.tf32.f32`` does: to nearest, ties away from zero."""
    bits = np.asarray(x, dtype=np.float32, order="C").view(np.uint32)
    rounded = ((bits + _TF32_HALF) & _TF32_KEPT).view(np.float32)
    return np.where(np.isfinite(x), rounded, x)


def _fp32_product(a: F32, b: F32, precision: str, profile: Profile) -> NDArray[Any]:
    if precision == "ieee" or (precision.startswith("tf32") and not profile.tf32):
        return matmul(a, b)
    if precision == "tf32":
        return matmul(to_tf32(a), to_tf32(b))
    if precision == "tf32x3":
        left, right = (_split(x, nearest_tf32, to_tf32) for x in (a, b))
    else:

        def to_bf16(x: F32) -> F32:
            return round_to(x, "bf16", profile)

        narrows = (to_bf16, to_bf16) if precision == "bf16x3" else (to_bf16, to_bf16, to_bf16)
        left, right = (_split(x, *narrows) for x in (a, b))
    low: Any = 0
    for i, j in _THREE_PARTS if len(left) == 3 else _TWO_PARTS:
        low = low + matmul(left[i], right[j])
    # inf - inf in the low parts must not hide what the high parts say; the pass does the same
    return np.asarray(np.where(np.isnan(low), np.float32(0), low) + matmul(left[0], right[0]))


def _split(x: F32, *narrows: Callable[[F32], F32]) -> list[F32]:
    """Return narrowed parts of ``x`` that add up to it, nearly; largest first."""
    parts = []
    for narrow in narrows:
        parts.append(narrow(x))
        x = x - parts[-1]
    return parts


def _integer_dot(a: NDArray[Any], b: NDArray[Any], acc: NDArray[Any] | None) -> NDArray[np.int32]:
    # float64 holds any sum of fewer than 2**37 products of 8-bit integers, and has a fast matmul
    total = matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    if acc is not None:
        total += acc
    return total.astype(np.int32)
