"""What flows through a kernel: numpy data with three leading grid axes, and pointers that know their argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.vgpu.elements import Element
from harness.vgpu.storage import Region

#: Grid axes in front of every value, z first, so that C order is the hardware's program order.
LEAD = 3

Data = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Mixed:
    """Provenance of a block of pointers that do not share one region: ``regions[selector]`` for each lane."""

    regions: tuple[Region | None, ...]
    selector: NDArray[np.int16]


#: A region; several; or None for a plain address.
Base = Region | Mixed | None


class Value:
    """One value of all programs: ``data`` has shape [z, y, x, *block], each axis full or 1, broadcast lazily.

    Numbers: ``data`` holds them in ``type.held``.  Pointers: ``data`` holds byte offsets into the storage of
    ``base``, or addresses when ``base`` is None.
    """

    __slots__ = ("base", "data", "shape", "type")

    def __init__(self, data: Data, type: Element, shape: tuple[int, ...] = (), base: Base = None) -> None:
        self.data = data
        self.type = type
        self.shape = shape
        self.base = base

    @property
    def lead(self) -> tuple[int, ...]:
        """Sizes of the grid axes, 1 where the value is the same along one."""
        return self.data.shape[:LEAD]

    def full(self) -> Data:
        """Return the data with every block axis at its full size; grid axes stay as they are."""
        if self.data.shape[LEAD:] == self.shape:
            return self.data
        return np.broadcast_to(self.data, self.data.shape[:LEAD] + self.shape)

    def reshaped(self, change: Callable[[Data], Data], shape: tuple[int, ...]) -> Value:
        """Return the value rearranged by ``change``, which must move lanes only, with block shape ``shape``."""
        base = self.base
        if isinstance(base, Mixed):
            selector = np.broadcast_to(base.selector, np.broadcast_shapes(base.selector.shape, self.data.shape))
            data = np.broadcast_to(self.data, selector.shape)
            return Value(change(data), self.type, shape, Mixed(base.regions, change(selector)))
        return Value(change(self.data), self.type, shape, base)

    def with_data(self, data: Data, type: Element | None = None) -> Value:
        """Return the same lanes holding other data."""
        return Value(data, self.type if type is None else type, self.shape, self.base)

    def set_attr(self, name: str, value: Any) -> None:
        """Accept a compiler hint; it changes nothing here."""


def common(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that ``shapes`` broadcast to; ValueError where there is none.

    numpy's own function takes several microseconds, even for equal shapes.
    """
    result = shapes[0]
    for shape in shapes[1:]:
        if shape == result or not shape:
            continue
        if len(shape) != len(result):
            return np.broadcast_shapes(*shapes)
        sizes = []
        for n, m in zip(result, shape, strict=True):
            if n != m and n != 1 and m != 1:
                return np.broadcast_shapes(*shapes)
            sizes.append(m if n == 1 else n)
        result = tuple(sizes)
    return result


def scalar(value: Any, type: Element) -> Value:
    """Return a constant, the same in every program."""
    return Value(np.array(value, type.held, ndmin=LEAD), type)


def combine(values: tuple[Value, ...], merge: Callable[[tuple[Data, ...]], Data], shape: tuple[int, ...]) -> Value:
    """Merge values lane-wise (select, concatenate, stack); pointers of different regions become mixed."""
    first = values[0]
    data = merge(tuple(v.data for v in values))
    if all(v.base is first.base for v in values) and not isinstance(first.base, Mixed):
        return Value(data, first.type, shape, first.base)
    regions: list[Region | None] = []
    selectors = []
    for value in values:
        base = value.base
        if not isinstance(base, Mixed):
            base = Mixed((base,), np.zeros(value.data.shape, np.int16))
        numbers = []
        for region in base.regions:
            if not any(region is r for r in regions):
                regions.append(region)
            numbers.append(next(i for i, r in enumerate(regions) if r is region))
        selectors.append(np.asarray(numbers, np.int16)[np.broadcast_to(base.selector, value.data.shape)])
    return Value(data, first.type, shape, Mixed(tuple(regions), merge(tuple(selectors))))
