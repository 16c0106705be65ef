"""Which bytes of a storage belong to a strided view, decided by arithmetic instead of a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Number of runs up to which a view whose axes do not nest is described by a table of intervals.
_TABLE_LIMIT = 1 << 22

Offsets = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class View:
    """Elements of one tensor: byte offsets into its storage.

    ``start``: offset of element 0; ``shape`` in elements; ``strides`` in bytes; ``itemsize`` in bytes.
    Expanded axes (stride 0) and overlapping windows are legal.
    """

    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def empty(self) -> bool:
        """Whether the view has no element."""
        return 0 in self.shape

    @cached_property
    def stop(self) -> int:
        """One past the last byte."""
        if self.empty:
            return self.start
        return self.start + self.itemsize + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @cached_property
    def dense(self) -> bool:
        """Whether the elements leave no gap between the first byte and the last."""
        _, outer, nested = self._runs
        return nested and not outer

    @cached_property
    def _runs(self) -> tuple[int, tuple[tuple[int, int], ...], bool]:
        """Length in bytes of a contiguous run, (stride, count) of the axes that repeat it, and whether these nest."""
        run = self.itemsize
        axes = sorted((s, n) for s, n in zip(self.strides, self.shape, strict=True) if s > 0 and n > 1)
        while axes and axes[0][0] <= run:
            stride, count = axes.pop(0)
            run += (count - 1) * stride
        span = run
        outer: list[tuple[int, int]] = []
        for stride, count in axes:
            if outer and stride == outer[-1][0] * outer[-1][1]:
                outer[-1] = (outer[-1][0], outer[-1][1] * count)
            elif stride > span:
                outer.append((stride, count))
            else:
                # at equality the last run of one repetition touches the first of the next
                return run, tuple(axes), False
            span += (count - 1) * stride
        return run, tuple(reversed(outer)), True

    @cached_property
    def _intervals(self) -> tuple[Offsets, Offsets]:
        """First bytes and ends of the contiguous parts, ascending and disjoint; the extent if they are too many."""
        run, axes, _ = self._runs
        if math.prod(count for _, count in axes) > _TABLE_LIMIT:
            return np.asarray([0], np.int64), np.asarray([self.stop - self.start], np.int64)
        starts = np.zeros(1, np.int64)
        for stride, count in axes:
            starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
        starts = np.unique(starts)
        first = np.r_[True, starts[1:] > starts[:-1] + run]
        last = np.r_[first[1:], True]
        return starts[first], starts[last] + run

    def outside(self, offsets: Offsets, size: int) -> Mask | None:
        """Return which accesses of ``size`` bytes at storage ``offsets`` are not wholly inside, or None if none is."""
        if self.empty:
            return np.ones(offsets.shape, np.bool_)
        run, outer, nested = self._runs
        bad: Mask
        if nested and not outer:
            first, last = np.minimum.reduce(offsets, axis=None), np.maximum.reduce(offsets, axis=None)
            if first >= self.start and last <= self.stop - size:
                return None
            bad = (offsets < self.start) | (offsets > self.stop - size)
            return bad
        rest = offsets - self.start
        if not nested:
            return self._outside_intervals(rest, size)
        bad = np.zeros(rest.shape, np.bool_)
        for stride, count in outer:
            step = rest // stride
            bad |= (step < 0) | (step >= count)
            rest = rest - step * stride
        bad |= rest > run - size
        return bad if bad.any() else None

    def _outside_intervals(self, rest: Offsets, size: int) -> Mask | None:
        starts, ends = self._intervals
        part = np.searchsorted(starts, rest, side="right") - 1
        bad: Mask = (part < 0) | (rest + size > ends[part])
        return bad if bad.any() else None

    def contains_any(self, offsets: Offsets, size: int) -> Mask | None:
        """Return which accesses touch at least one byte of the view, or None if none does."""
        if self.empty or offsets.size == 0:
            return None
        first, last = np.minimum.reduce(offsets, axis=None), np.maximum.reduce(offsets, axis=None)
        if last + size <= self.start or first >= self.stop:
            return None
        touched = np.zeros(offsets.shape, np.bool_)
        for byte in range(size):
            outside = self.outside(offsets + byte, 1)
            if outside is None:
                return np.ones(offsets.shape, np.bool_)
            touched |= ~outside
        return touched if touched.any() else None

    def index(self, offset: int) -> tuple[int, ...]:
        """Return the index, one number per axis, of the element at storage ``offset``.

        Beyond the view the outermost axis goes past its end, or below zero.
        """
        return self._place(offset)[0]

    def past(self, offset: int) -> int:
        """Return how many bytes ``offset`` lies past the element that ``index(offset)`` names, if beyond its last.

        0 within an element, and where the index itself is outside of the shape.
        """
        index, rest = self._place(offset)
        legal = all(0 <= i < n for i, n in zip(index, self.shape, strict=False))
        return rest if legal and rest >= self.itemsize else 0

    def _place(self, offset: int) -> tuple[tuple[int, ...], int]:
        rest = offset - self.start
        if not self.shape:
            return (rest // self.itemsize,), 0
        index = [0] * len(self.shape)
        order = sorted(
            (axis for axis, (s, n) in enumerate(zip(self.strides, self.shape, strict=True)) if s > 0 and n > 1),
            key=lambda axis: -self.strides[axis],
        )
        if not order:
            index[-1] = rest // self.itemsize
            return tuple(index), 0
        for axis in order:
            index[axis], rest = divmod(rest, self.strides[axis])
        return tuple(index), rest

    @property
    def numel(self) -> int:
        """Number of elements, repeated ones counted."""
        return math.prod(self.shape)


def strided(flat: NDArray[Any], view: View) -> NDArray[Any]:
    """Return a window [*shape, itemsize] over ``flat``, of which ``view`` counts the entries."""
    if view.empty:
        return np.empty((*view.shape, view.itemsize), flat.dtype)
    return np.lib.stride_tricks.as_strided(
        flat[view.start :], (*view.shape, view.itemsize), (*(n * flat.itemsize for n in view.strides), flat.itemsize)
    )
