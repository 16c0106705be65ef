"""How much a launch moves: bytes that programs ask for by plain loads and stores, and how often they ask."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.vgpu.values import LEAD, Value

if TYPE_CHECKING:
    from harness.vgpu.execution import Execution


class Traffic(NamedTuple):
    """Bytes of the lanes that are on, once a program and lane, and loads and stores that programs came to.

    What atomic and volatile accesses move is not in it: how often programs look while they wait is nobody's promise.
    """

    loaded: int
    stored: int
    accesses: int


class Counter:
    """Counts the traffic of one launch; what a pass did counts once it is kept."""

    def __init__(self) -> None:
        self._kept = [0, 0, 0]
        self._pending = [0, 0, 0]

    @property
    def total(self) -> Traffic:
        """What was kept so far."""
        return Traffic(*self._kept)

    def add(self, execution: Execution, mask: Value | None, shape: tuple[int, ...], size: int, *, stored: bool) -> None:
        """Count an access of ``shape`` elements of ``size`` bytes in the lanes that ``mask`` leaves on, None for all.

        The same whatever part of the grid runs in step.
        """
        lead, running, lanes = execution.programs.lead, execution.mask, math.prod(shape)
        programs = execution.programs.count
        if running is not None:
            programs = int(np.count_nonzero(np.broadcast_to(running, lead)))
        if mask is None:
            on = programs * lanes
        elif running is None:
            on = int(np.count_nonzero(mask.data)) * (execution.programs.count * lanes // mask.data.size)
        else:
            data = mask.data
            repeated = lanes // math.prod(data.shape[LEAD:])
            each = np.count_nonzero(data, axis=tuple(range(LEAD, data.ndim))) * repeated
            on = int(np.broadcast_to(each, lead)[np.broadcast_to(running, lead)].sum())
        self._pending[stored] += on * size
        self._pending[2] += programs

    def keep(self) -> None:
        """Keep what was counted since."""
        self._kept = [old + new for old, new in zip(self._kept, self._pending, strict=True)]
        self.forget()

    def forget(self) -> None:
        """Forget what was counted since."""
        self._pending = [0, 0, 0]
