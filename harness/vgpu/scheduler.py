"""Programs that take turns: a greenlet each, at most so many of them resident, and what it means when all wait."""

from __future__ import annotations

import contextvars
import importlib
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.vgpu.execution import Execution, locate
from harness.vgpu.faults import Deadlock, HangDetected, KernelFault, Location
from harness.vgpu.programs import Grid, Programs
from harness.vgpu.schedule import Schedule
from harness.vgpu.turns import Activity, Sight

#: Groups of waiting programs that a message names.
_LINES = 4


class Fiber:
    """One program that has begun and not ended."""

    def __init__(self, number: int, programs: Programs) -> None:
        self.number = number
        self.programs = programs
        self.place = programs.at((0, 0, 0))
        self.activity = Activity()
        #: The greenlet that runs it; set when it is launched.
        self.greenlet: Any = None
        #: The device's progress when the program last found nothing to do, -1 while it does not wait.
        self.waiting_since = -1
        #: How often it has looked since then in vain, and how often it may.
        self.looks = 0
        self.patience = 0
        self.synchronises = False
        self.seen: Sight | None = None


class Scheduler:
    """Runs a list of programs, one at a time, and changes turns where they touch what others may touch.

    Used as ``Execution.turns``: a program calls ``pause`` before such an access, and ``wait`` when a loop went round
    without getting anywhere.
    """

    def __init__(self, execution: Execution, body: Callable[[], Any], schedule: Schedule) -> None:
        assert schedule.resident is not None, "Schedule.on settles it"
        self._execution = execution
        self._body = body
        self._resident = schedule.resident
        self._chooser = schedule.chooser()
        self.everywhere = schedule.yield_at == "memory"
        self._greenlet: Any = importlib.import_module("greenlet").greenlet
        self._hub: Any = None
        self._fibers: dict[int, Fiber] = {}
        self._running: Fiber | None = None
        #: Programs launched and finished; with the changes of memory, the device's progress.
        self._turnover = 0
        #: Programs that changed an element by an atomic operation, by ``Sight.key``.
        self._arrived: dict[tuple[int, int], set[tuple[int, int, int]]] = {}

    # -- what programs call

    def pause(self) -> None:
        """Let another program go on, if the schedule says so."""
        self._hub.switch()

    def wait(self, patience: int, synchronises: bool) -> None:
        """Let others go on: a loop of the running program went round and changed nothing.

        ``patience``: how often it may look again while nothing at all changes.
        """
        fiber = self._running
        assert fiber is not None
        progress = self._progress
        fiber.looks = fiber.looks + 1 if fiber.waiting_since == progress else 0
        fiber.waiting_since = progress
        fiber.patience = patience
        fiber.synchronises = synchronises
        fiber.seen = self._execution.seen if synchronises else None
        self._hub.switch()

    def proceed(self) -> None:
        """Note that the running program left a loop in which it had waited."""
        assert self._running is not None
        self._running.waiting_since = -1
        self._running.looks = 0

    def arrive(self, key: tuple[int, int]) -> None:
        """Note that the running program changed the one element of ``Sight.key`` by an atomic operation."""
        assert self._running is not None
        self._arrived.setdefault(key, set()).add(self._running.place)

    # -- the device

    @property
    def _progress(self) -> int:
        return self._execution.changes + self._turnover

    def run(self, numbers: NDArray[np.int64], grid: Grid) -> None:
        """Run programs of ``grid``, by their numbers, ascending, to their end; those left out have ended already.

        Raises what a program raises, or Deadlock.
        """
        execution = self._execution
        self._hub = importlib.import_module("greenlet").getcurrent()
        order = self._chooser.launch_order(numbers)
        launched = 0
        execution.watched = True
        execution.turns = self
        finished = math.prod(grid) - len(order)
        latest = time.monotonic()
        try:
            while launched < len(order) or self._fibers:
                while launched < len(order) and len(self._fibers) < self._resident:
                    self._launch(int(order[launched]), grid)
                    launched += 1
                fiber = self._next()
                if fiber is None:
                    raise self._stuck(len(order) - launched, finished)
                self._switch(fiber)
                if fiber.greenlet.dead:
                    del self._fibers[id(fiber)]
                    self._turnover += 1
                    finished += 1
                    latest = time.monotonic()
                elif time.monotonic() - latest > execution.limits.seconds:
                    raise self._slow(fiber)
        finally:
            execution.turns = None
            for fiber in self._fibers.values():
                if not fiber.greenlet.dead:
                    fiber.greenlet.throw()

    def _launch(self, number: int, grid: Grid) -> None:
        fiber = Fiber(number, Programs.single(number, grid))
        fiber.greenlet = self._greenlet(self._body)
        # numpy's error state is a context variable
        fiber.greenlet.gr_context = contextvars.copy_context()
        self._fibers[id(fiber)] = fiber
        self._turnover += 1

    def _next(self) -> Fiber | None:
        """Return the program whose turn it is, or None if all have waited long enough."""
        progress = self._progress
        busy: list[Fiber] = []
        hopeful: list[Fiber] = []
        patient: list[Fiber] = []
        for fiber in self._fibers.values():
            if fiber.waiting_since < 0:
                busy.append(fiber)
            elif fiber.waiting_since != progress:
                hopeful.append(fiber)
            elif fiber.looks < fiber.patience:
                patient.append(fiber)
        if busy or hopeful:
            for able in (busy, hopeful):
                if self._running in able:
                    able.remove(self._running)
                    able.insert(0, self._running)
            return self._chooser.choose(busy, hopeful)
        # nothing changes meanwhile, so the order does not matter, but the waits must be equally long
        return min(patient, key=lambda f: f.looks) if patient else None

    def _switch(self, fiber: Fiber) -> None:
        execution = self._execution
        self._running = fiber
        execution.enter(fiber.programs, fiber.activity)
        fiber.activity.since = time.monotonic()
        fiber.greenlet.switch()

    # -- when nothing goes on

    def _stuck(self, never_launched: int, finished: int) -> KernelFault:
        waiting = list(self._fibers.values())
        first = min(waiting, key=lambda f: f.place[::-1])
        resident = len(waiting)
        total = resident + never_launched + finished
        counts = f"{resident} resident, {never_launched} never launched, {finished} finished, {total} in the grid"
        kind = Deadlock if any(f.synchronises for f in waiting) else HangDetected
        what = "deadlock: every resident program waits" if kind is Deadlock else "every resident program loops"
        fault = kind(
            f"{what} for a change that none of them can make ({counts})",
            location=self._at(first),
            kernel=self._execution.kernel,
            program=first.place,
            detail="; ".join(self._described(waiting)),
        )
        if isinstance(fault, Deadlock):
            fault.resident, fault.never_launched = resident, never_launched
            fault.finished, fault.total = finished, total
        return fault

    def _at(self, fiber: Fiber) -> Location:
        return locate(fiber.greenlet.gr_frame, self._execution.library)

    def _described(self, waiting: Sequence[Fiber]) -> list[str]:
        """Return where how many programs wait, what they see there, and how many changed it."""
        groups: dict[tuple[Location, str], int] = {}
        for fiber in waiting:
            seen = ""
            if fiber.seen is not None:
                arrived = self._arrived.get(fiber.seen.key, ())
                seen = f", seeing {fiber.seen}, which {len(arrived)} program{'s' * (len(arrived) != 1)} changed"
            key = (self._at(fiber), seen)
            groups[key] = groups.get(key, 0) + 1
        ordered = sorted(groups.items(), key=lambda item: -item[1])
        lines = [f"{count} wait{'s' * (count == 1)} at {at}{seen}" for (at, seen), count in ordered[:_LINES]]
        return lines + ["..."] * (len(ordered) > _LINES)

    def _slow(self, fiber: Fiber) -> KernelFault:
        execution = self._execution
        what = f"programs take turns and none has ended for {execution.limits.seconds:g} s"
        return HangDetected(what, location=self._at(fiber), kernel=execution.kernel, program=fiber.place)
