"""``tl.map_elementwise``: the lanes of a block run a scalar function as if each were a program of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.vgpu.execution import Execution
from harness.vgpu.faults import UnsupportedOperation
from harness.vgpu.programs import Divergence, Programs, Where
from harness.vgpu.values import LEAD, Value

Indices = NDArray[np.int64]
#: A call of the scalar function on scalar values; returns its results.
Call = Callable[[Sequence[Value]], Sequence[Value]]


class Lanes:
    """The lanes of some blocks of one shape, in groups of ``pack`` neighbours that one call handles.

    Raises ValueError if the lanes do not divide into groups.
    """

    def __init__(self, execution: Execution, values: Sequence[Value], pack: int) -> None:
        self._execution = execution
        self._lead = execution.programs.lead
        self._shape = values[0].shape
        lanes = math.prod(self._shape)
        if lanes % pack:
            raise ValueError(f"map_elementwise: {lanes} elements in groups of {pack}")
        self._pack = pack
        self._each = lanes // pack
        #: Operands of a call, in its order: [lanes of all programs].
        self._operands = [
            (np.broadcast_to(v.data, self._lead + self._shape).reshape(-1, pack)[:, place], v.type)
            for v in values
            for place in range(pack)
        ]
        outer = execution.programs
        self._ids = [self._spread(ids) for ids in (outer.x, outer.y, outer.z)]
        self._mask = None if execution.mask is None else self._spread(execution.mask)

    def _spread(self, data: NDArray[Any]) -> NDArray[Any]:
        """Return what holds for programs once for each of their groups."""
        return np.repeat(np.broadcast_to(data, self._lead).reshape(-1), self._each)

    def run(self, call: Call) -> list[Value]:
        """Return the blocks of results, one for each of a call's results and of the elements of a group."""
        found: list[NDArray[Any]] = []
        types: list[Any] = []
        pending = [np.arange(self._ids[0].size)]
        while pending:
            these = pending.pop()
            try:
                with self._as_programs(these):
                    results = call([Value(data[these].reshape(-1, 1, 1), type) for data, type in self._operands])
            except Divergence as divergence:
                pending.extend(self._parted(these, divergence.wanted))
                continue
            if not found:
                types = [value.type for value in results]
                found = [np.zeros(self._ids[0].size, value.data.dtype) for value in results]
            for place, value in zip(found, results, strict=True):
                place[these] = np.broadcast_to(value.data.reshape(value.data.shape[:LEAD]), (these.size, 1, 1))[:, 0, 0]
        blocks = (np.stack(found[at : at + self._pack], axis=-1) for at in range(0, len(found), self._pack))
        return [
            Value(data.reshape(self._lead + self._shape), type)
            for data, type in zip(blocks, types[:: self._pack], strict=True)
        ]

    @contextmanager
    def _as_programs(self, these: Indices) -> Iterator[None]:
        execution = self._execution
        outer: tuple[Programs, Where | None] = execution.programs, execution.mask
        execution.programs = Programs(*(ids[these].reshape(-1, 1, 1) for ids in self._ids))
        execution.mask = None if self._mask is None else self._mask[these].reshape(-1, 1, 1)
        changes = execution.activity.synchronised
        try:
            yield
        finally:
            execution.programs, execution.mask = outer
        if execution.activity.synchronised != changes:
            raise execution.unsupported("map_elementwise(atomics)")

    def _parted(self, these: Indices, wanted: NDArray[Any]) -> list[Indices]:
        """Return the lanes that want different things apart from each other."""
        flat = np.broadcast_to(wanted, (these.size, 1, 1)).reshape(-1)
        distinct = np.unique(flat)
        if distinct.size < 2:
            raise self._refusal()
        return [these[flat == value] for value in distinct]

    def _refusal(self) -> UnsupportedOperation:
        return self._execution.unsupported("map_elementwise(divergent)")
