"""Promises of a kernel to the compiler that can be checked where they are made.

``tl.multiple_of`` is one: loads become as wide as it says.  ``tl.max_contiguous`` is not: offsets that a last tile
clamps break it in Triton's own matrix products, on lanes whose results nobody keeps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.vgpu.elements import Pointer
from harness.vgpu.execution import Execution
from harness.vgpu.faults import BrokenPromise
from harness.vgpu.values import LEAD, Data, Value


def check_multiple(execution: Execution, value: Value, factors: Sequence[int]) -> None:
    """Raise BrokenPromise unless each run of consecutive integers, along each axis, begins at a multiple of its factor.

    That is what the compiler takes the promise for (AxisInfo, "divisibility").  Addresses are not looked at.
    """
    if isinstance(value.type, Pointer) or value.base is not None or value.data.dtype.kind not in "iu":
        return
    data = value.full()
    axes = range(LEAD, LEAD + len(value.shape)) if value.shape else (None,)
    for axis, factor in zip(axes, factors, strict=False):
        bad = _begins(data, axis) & (data % factor != 0)
        running = execution.active(None, bad.shape)
        if running is not None:
            bad = bad & running
        if bad.any():
            first = int(data[np.unravel_index(int(np.argmax(bad)), bad.shape)])
            detail = f"{first} is {first % factor} more than one"
            if value.shape:
                place = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape)[LEAD:])
                detail += f", and begins a run at {place} of the block"
            what = f"what is promised to be a multiple of {factor} is none"
            raise execution.at_lanes(BrokenPromise, what, bad, np.zeros((1,) * LEAD, np.int64), None, detail)


def _begins(data: Data, axis: int | None) -> Data:
    """Return where an element does not follow the one before it."""
    begins: Data = np.ones(data.shape, np.bool_)
    if axis is not None and data.shape[axis] > 1:
        later = [slice(None)] * data.ndim
        later[axis] = slice(1, None)
        begins[tuple(later)] = np.diff(data, axis=axis) != 1
    return begins
