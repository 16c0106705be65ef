"""The accesses of one operation, lane by lane: which cells, by which programs, at which offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.vgpu.cells import Cells, Index
from harness.vgpu.faults import Location
from harness.vgpu.storage import Region
from harness.vgpu.values import LEAD, Data

Mask = NDArray[np.bool_]
#: Numbers of the programs that run, [z, y, x] with axes of size 1 where a number does not depend on them.
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Site:
    """A source line and what it does to memory: "load", "store", "atomic" or "look"."""

    way: str
    location: Location


@dataclass(frozen=True, eq=False)
class Touch:
    """The lanes of an operation that are on: cell, program, and byte offset into the storage, of each.

    ``programs`` is one number when a single program runs.
    """

    region: Region
    cells: Cells
    index: Index
    programs: Index | int
    offsets: Index

    def part(self, these: Mask) -> Touch:
        """Return some of the lanes."""
        programs = self.programs if isinstance(self.programs, int) else self.programs[these]
        return Touch(self.region, self.cells, self.index[these], programs, self.offsets[these])

    def present(self, dtype: np.dtype[Any]) -> Data:
        """Return what memory holds in each lane, in elements of ``dtype``."""
        found: Data = self.region.storage.typed(dtype)[self.offsets // dtype.itemsize]
        return found


def shape_of(numbers: Numbers, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of an operation's lanes.

    Along a grid axis on which all programs do the same the first and the last stand for all: what races with any
    other program races with one of these.
    """
    shape = np.broadcast_shapes(*shapes)
    lead = (min(n, 2) if m == 1 else n for m, n in zip(shape[:LEAD], numbers.shape, strict=True))
    return (*lead, *shape[LEAD:])


def on(data: Data, active: Mask | None, shape: tuple[int, ...]) -> Data:
    """Return the lanes of ``data`` that are on, as one axis."""
    lanes = np.broadcast_to(data, shape)
    return lanes.reshape(-1) if active is None else lanes[np.broadcast_to(active, shape)]


def programs_of(numbers: Numbers, active: Mask | None, shape: tuple[int, ...]) -> Index | int:
    """Return the program of each lane that is on."""
    if numbers.size == 1:
        return int(numbers.reshape(-1)[0])
    for axis, n in enumerate(shape[:LEAD]):
        if n < numbers.shape[axis]:
            numbers = numbers.take([0, -1], axis)
    return on(numbers.reshape(numbers.shape + (1,) * (len(shape) - LEAD)), active, shape)


def differ(a: Data, b: Data) -> Mask:
    """Compare bits."""
    bits = np.dtype(f"u{a.dtype.itemsize}")
    different: Mask = np.ascontiguousarray(a).view(bits) != np.ascontiguousarray(b).view(bits)
    return different
