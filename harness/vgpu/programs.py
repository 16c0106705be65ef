"""Sets of programs that run at once, and how a disagreement splits them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Grid = tuple[int, int, int]
#: Which programs, [z, y, x]; axes of size 1 hold for all.
Where = NDArray[np.bool_]


class Divergence(Exception):
    """Programs of one set want different values where only one is possible.  ``wanted``: [z, y, x], axes may be 1."""

    def __init__(self, wanted: NDArray[Any]) -> None:
        self.wanted = wanted
        super().__init__("programs diverge")


class Programs:
    """Program ids as three arrays that broadcast to [z, y, x]: a box of the grid, or a list along the first axis."""

    def __init__(self, x: Ids, y: Ids, z: Ids) -> None:
        self.x = x
        self.y = y
        self.z = z
        self.lead: tuple[int, ...] = np.broadcast_shapes(x.shape, y.shape, z.shape)
        #: Number of programs.
        self.count = math.prod(self.lead)

    @classmethod
    def box(cls, x: Ids, y: Ids, z: Ids) -> Programs:
        """Return every combination of the ids of three axes."""
        return cls(x.reshape(1, 1, -1), y.reshape(1, -1, 1), z.reshape(-1, 1, 1))

    def at(self, lead_index: tuple[int, ...]) -> tuple[int, int, int]:
        """Return the (x, y, z) of the program at ``lead_index``; an index of an axis of size 1 is ignored."""
        found = []
        for ids in (self.x, self.y, self.z):
            found.append(int(ids[tuple(0 if n == 1 else i for i, n in zip(lead_index, ids.shape, strict=True))]))
        return found[0], found[1], found[2]

    def split(self, wanted: NDArray[Any]) -> list[Programs]:
        """Return one set per distinct value of ``wanted``, in order of their first program."""
        varying = [axis for axis in range(3) if wanted.shape[axis] > 1]
        if len(varying) == 1 and all(ids.shape[varying[0]] in (1, self.lead[varying[0]]) for ids in self._ids):
            axis = varying[0]
            values = wanted.reshape(-1)
            return [
                Programs(*(np.compress(values == v, ids, axis) if ids.shape[axis] > 1 else ids for ids in self._ids))
                for v in _in_order(values)
            ]
        values = np.broadcast_to(wanted, self.lead).reshape(-1)
        flat = [np.broadcast_to(ids, self.lead).reshape(-1) for ids in self._ids]
        return [Programs(*(ids[values == v].reshape(-1, 1, 1) for ids in flat)) for v in _in_order(values)]

    def chunks(self, size: int) -> list[Programs]:
        """Return sets of at most ``size`` programs, in program order."""
        flat = [np.broadcast_to(ids, self.lead).reshape(-1, 1, 1) for ids in self._ids]
        return [Programs(*(ids[i : i + size] for ids in flat)) for i in range(0, self.count, size)]

    def numbers(self, grid: Grid) -> NDArray[np.int64]:
        """Return the numbers of the programs in ``grid``, x fastest, in program order."""
        nx, ny, _ = grid
        x, y, z = (np.broadcast_to(ids, self.lead).reshape(-1).astype(np.int64) for ids in self._ids)
        numbers: NDArray[np.int64] = (z * ny + y) * nx + x
        return numbers

    @classmethod
    def single(cls, number: int, grid: Grid) -> Programs:
        """Return one program by its number in ``grid``."""
        nx, ny, _ = grid
        return _box((number % nx, 1), (number // nx % ny, 1), (number // (nx * ny), 1))

    @property
    def _ids(self) -> tuple[Ids, Ids, Ids]:
        return self.x, self.y, self.z


def _in_order(values: NDArray[Any]) -> list[Any]:
    distinct, first = np.unique(values, return_index=True)
    return list(distinct[np.argsort(first)])


def boxes(grid: Grid, start: int, size: int) -> Iterator[tuple[Programs, int]]:
    """Yield boxes of at most ``size`` programs that cover ``grid`` from program ``start`` on, in program order.

    Also yields the number of the first program after each box.
    """
    nx, ny, nz = grid
    total = nx * ny * nz
    while start < total:
        x, y, z = start % nx, start // nx % ny, start // (nx * ny)
        if x or size < nx:
            width = min(size, nx - x)
            yield _box((x, width), (y, 1), (z, 1)), start + width
            start += width
        elif y or size < nx * ny:
            rows = min(size // nx, ny - y)
            yield _box((0, nx), (y, rows), (z, 1)), start + rows * nx
            start += rows * nx
        else:
            planes = min(size // (nx * ny), nz - z)
            yield _box((0, nx), (0, ny), (z, planes)), start + planes * nx * ny
            start += planes * nx * ny


def _box(*ranges: tuple[int, int]) -> Programs:
    return Programs.box(*(np.arange(first, first + n, dtype=np.int32) for first, n in ranges))
