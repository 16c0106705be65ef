"""What one program knows of the others: vector clocks, and what release operations leave for acquire operations.

Every program counts its own steps; a step ends at each release and at each ``tl.debug_barrier``.  A program has two
threads here, because a scalar atomic is issued by one thread of it: thread 2p made the scalar stores and atomics of
program p, thread 2p + 1 stands for all those that made the block stores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Steps that can be told apart, see ``harness.vgpu.cells``.
MOST_STEPS = (1 << 20) - 1

#: For each thread the last of its steps that somebody knows of.
Vector = NDArray[np.int32]


@dataclass(frozen=True)
class Order:
    """What an atomic or volatile access orders: whether it acquires and whether it releases, for the whole device."""

    acquire: bool = False
    release: bool = False

    @property
    def synchronises(self) -> bool:
        """Whether it orders anything but itself."""
        return self.acquire or self.release


RELAXED = Order()


def order_of(semantics: Any = None, scope: Any = None) -> Order:
    """Return the order that the compiler's enumerations ``semantics`` and ``scope`` ask for.

    An order among the threads of one program orders nothing between programs.
    """
    if semantics is None or (scope is not None and str(scope.name) == "CTA"):
        return RELAXED
    name = str(semantics.name)
    return Order("ACQUIRE" in name, "RELEASE" in name)


class Clock:
    """The steps of one program and its knowledge of the others."""

    def __init__(self, number: int) -> None:
        self.number = number
        #: The step that is being made.
        self.now = 1
        #: The last step whose block stores happen before what the program's first thread does now.
        self.gathered = 0
        self.known: Vector | None = None

    def barrier(self) -> None:
        """Order the stores of all threads before what any thread does from now on."""
        self.gathered = self.now
        self._step()

    def _step(self) -> None:
        self.now += 1
        if self.now > MOST_STEPS:
            raise OverflowError(f"races: program {self.number} synchronised more than {MOST_STEPS} times")

    def acquire(self, vector: Vector) -> None:
        """Learn what a release left behind."""
        if self.known is None:
            self.known = vector.copy()
        else:
            np.maximum(self.known, vector, out=self.known)

    def release(self, threads: int, every_thread: bool) -> Vector:
        """Return what an acquire learns from a release, by one thread or by every one; begins a new step."""
        if every_thread:
            self.gathered = self.now
        left = np.zeros(threads, np.int32) if self.known is None else self.known.copy()
        left[2 * self.number] = self.now
        left[2 * self.number + 1] = self.gathered
        self._step()
        return left


class Releases:
    """What releases left behind, by number; 0 is nothing."""

    def __init__(self) -> None:
        self._left: list[Vector | None] = [None]
        self._free: list[int] = []
        #: How many may be kept before it is worth looking for those that no element refers to any more.
        self.limit = 512

    def __getitem__(self, number: int) -> Vector:
        found = self._left[number]
        assert found is not None
        return found

    @property
    def crowded(self) -> bool:
        """Whether it is time to forget what is not used."""
        return len(self._left) - len(self._free) > self.limit

    def add(self, vector: Vector) -> int:
        """Keep a vector; return its number."""
        if self._free:
            number = self._free.pop()
            self._left[number] = vector
            return number
        self._left.append(vector)
        return len(self._left) - 1

    def forget_all_but(self, used: set[int]) -> None:
        """Drop every vector whose number is not in ``used``."""
        for number in range(1, len(self._left)):
            if number not in used and self._left[number] is not None:
                self._left[number] = None
                self._free.append(number)
        self.limit = max(512, 2 * len(used))
