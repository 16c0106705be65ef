"""In which order programs take turns, and how many of them a device holds at once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

#: Compute units by target, for ``Schedule.sm_count``: what NVIDIA's and AMD's data sheets give for A100, L40S, H200,
#: B200, RTX PRO 6000 Blackwell, GB10, MI300X and MI355X.
COMPUTE_UNITS = {
    "sm_80": 108,
    "sm_89": 142,
    "sm_90": 132,
    "sm_100": 148,
    "sm_120": 188,
    "sm_121": 48,
    "gfx942": 304,
    "gfx950": 256,
}

#: Share of the turns that waiting programs get while others are busy: most of their looks are in vain.
_LOOKS = 1 / 8
#: Share of the launches in which one program lags behind all others, which shows what does not wait for it.
_LAGS = 1 / 2
#: Share of the turns that program gets all the same.
_LAGGARDS_TURNS = 1 / 32


class Contender(Protocol):
    """One that may get the turn; ``number``: its program's place in the grid."""

    number: int


T = TypeVar("T", bound=Contender)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the programs of a grid are interleaved; the same schedule gives the same interleaving again.

    ``seed``: decides every choice that ``choices`` leaves open.  ``resident``: how many programs may have begun and
    not ended; by default ``sm_count`` x ``blocks_per_sm``.  ``sm_count``: by default that of the target, see
    ``COMPUTE_UNITS``.  ``blocks_per_sm``: 1 holds whatever registers and shared memory a kernel uses; say more for
    kernels whose occupancy is known.  ``yield_at``: programs change turns before every atomic and volatile access
    (``"atomics"``), or before every access to memory (``"memory"``).  ``launch_order``: hardware promises none.

    ``choices``: the first choices, one number a turn, modulo the number of programs that can run; 0 lets the program
    that ran last go on.  When given, all later choices are 0 and the seed is not used: what Hypothesis draws shrinks
    to few changes of turn.

    Raises ValueError if a count is below 1 or a name is unknown.
    """

    seed: int = 0
    resident: int | None = None
    sm_count: int | None = None
    blocks_per_sm: int = 1
    yield_at: Literal["atomics", "memory"] = "atomics"
    launch_order: Literal["ascending", "descending", "shuffled"] = "ascending"
    choices: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("resident", "sm_count", "blocks_per_sm"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise ValueError(f"{name}={count}: at least 1 is needed")
        if self.yield_at not in ("atomics", "memory"):
            raise ValueError(f"yield_at={self.yield_at!r}: 'atomics' or 'memory' is needed")
        if self.launch_order not in ("ascending", "descending", "shuffled"):
            raise ValueError(f"launch_order={self.launch_order!r}: 'ascending', 'descending' or 'shuffled' is needed")

    def on(self, target: str) -> Schedule:
        """Return the schedule with ``resident`` settled for ``target``, the name of a profile."""
        if self.resident is not None:
            return self
        units = self.sm_count or COMPUTE_UNITS[target]
        return replace(self, resident=units * self.blocks_per_sm)

    def chooser(self) -> Chooser:
        """Return what makes the choices of one launch."""
        return Chooser(self)


class Chooser:
    """Makes the choices of one launch."""

    def __init__(self, schedule: Schedule) -> None:
        self._random = random.Random(schedule.seed)
        self._choices = None if schedule.choices is None else iter(schedule.choices)
        self._order = schedule.launch_order
        self._laggard: int | None = None

    def launch_order(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of programs, given in ascending order, in the order in which they are launched."""
        order = numbers
        if self._order == "descending":
            order = numbers[::-1]
        elif self._order == "shuffled":
            shuffled: list[Any] = numbers.tolist()
            self._random.shuffle(shuffled)
            order = np.asarray(shuffled, np.int64)
        if self._random.random() < _LAGS:
            self._laggard = int(order[self._random.randrange(len(order))])
        return order

    def choose(self, busy: Sequence[T], waiting: Sequence[T]) -> T:
        """Return the program whose turn it is.

        ``waiting``: those that were in vain when they last looked, and may look again because something changed.  In
        either list the program that ran last comes first.
        """
        if self._choices is not None:
            able = [*busy, *waiting]
            return able[next(self._choices, 0) % len(able)]
        if self._laggard is not None and self._random.random() >= _LAGGARDS_TURNS:
            ahead = [one for one in busy if one.number != self._laggard]
            if ahead or waiting:
                busy = ahead
        among = busy
        if not busy or (waiting and self._random.random() < _LOOKS):
            among = waiting
        return among[self._random.randrange(len(among))]
