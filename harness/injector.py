"""Breaks a context manager at every step it takes, and crosses it with itself in two threads.

``inject`` lets an exception arrive at each call that the manager makes while it is entered and left, and at each call
of the body, one a run, and compares process-global state (``harness.state``) before and after. ``cross_threads`` runs
every order in which two threads can enter and leave.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

from harness.state import Difference, Snapshot, diff, restore, snapshot
from harness.thread_crossing import Crossing, cross_threads

__all__ = ["Crossing", "Injected", "Injection", "Leak", "Step", "cross_threads", "inject"]

Phase = Literal["enter", "body", "exit"]
#: The interpreter's own steps through a manager are not the manager's.
_UNTOUCHED = frozenset({__file__, contextlib.__file__})
#: A manager that takes more steps than this does not end.
_MOST_STEPS = 10_000


class Injected(BaseException):
    """Arrives in the middle of a manager, as an interrupt does: ``except Exception`` does not stop it."""


@dataclass(frozen=True)
class Step:
    """Where the exception arrived: instead of a call (``before``) or once it had done its work (``after``)."""

    phase: Phase
    when: Literal["before", "after"]
    call: str
    where: str

    def __str__(self) -> str:
        return f"{self.phase}, {self.when} {self.call} at {self.where}"


@dataclass(frozen=True)
class Leak:
    """State that an exception at ``step`` left changed; None: it changed although nothing was injected."""

    step: Step | None
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        changed = "; ".join(str(difference) for difference in self.differences)
        return f"{'no exception' if self.step is None else self.step}: {changed}"


@dataclass(frozen=True)
class Injection:
    """What was tried and what leaked."""

    steps: tuple[Step, ...]
    leaks: tuple[Leak, ...]

    def __str__(self) -> str:
        lines = [f"{len(self.leaks)} leaks in {len(self.steps)} steps", *map(str, self.leaks)]
        return "\n  ".join(lines)


def inject(
    manager_factory: Callable[[], AbstractContextManager[Any]],
    body: Callable[[Any], object] = lambda value: None,
    *,
    interrupts: bool = True,
) -> Injection:
    """Run ``with manager_factory() as value: body(value)`` once undisturbed and once for each step, and report leaks.

    A step is a call, to Python or C, made by the manager's own code or by ``body``, or by what they call. While
    entering and in the body the exception comes both before and after each call; while leaving, or leaving a manager
    inside, only after, since what a refused restoring call would have restored is nobody's fault. The body also fails
    as a whole, at its end. What comes after a call that succeeded is an interrupt, which few managers written as
    classes survive; without ``interrupts`` only calls that fail are tried.
    State that leaks is put back before the next run. Everything runs in the calling thread; its profiler is set aside
    meanwhile. Raises whatever the undisturbed run raises, RuntimeError if the steps do not come to an end.
    """
    steps: list[Step] = []
    leaks: list[Leak] = []
    profiler = sys.getprofile()
    try:
        for number in range(-1, _MOST_STEPS):
            probe = _Probe(number, interrupts=interrupts)
            before = snapshot()
            _run(manager_factory, body, probe)
            if differences := _left_changed(before):
                leaks.append(Leak(probe.fired, differences))
                restore(before)
            if probe.fired is not None:
                steps.append(probe.fired)
            elif number >= 0:
                return Injection(tuple(steps), tuple(leaks))
    finally:
        sys.setprofile(profiler)
    raise RuntimeError(f"inject: more than {_MOST_STEPS} steps; does the manager or the body wait for something?")


def _left_changed(before: Snapshot) -> tuple[Difference, ...]:
    if diff(before, snapshot()):
        # a generator that was never resumed cleans up when it is collected; it is young
        gc.collect(1)
    return diff(before, snapshot())


class _Probe:
    """Counts steps through ``sys.setprofile`` and raises at one of them."""

    def __init__(self, number: int, *, interrupts: bool) -> None:
        self._left = number
        self._interrupts = interrupts
        self.phase: Phase = "enter"
        self.fired: Step | None = None

    def at(self, phase: Phase) -> None:
        self.phase = phase
        # a step that fired has taken the profiler away with it
        if self.fired is None and self._left >= 0:
            sys.setprofile(self)

    def end_of_body(self) -> None:
        """Take the step that is the failure of the body as a whole."""
        sys.setprofile(None)
        self._step("after", "the body", "its end")

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        c_call = event.startswith("c_")
        caller = frame if c_call else frame.f_back
        if event == "c_exception" or caller is None or caller.f_code.co_filename in _UNTOUCHED:
            return
        name = getattr(argument, "__qualname__", repr(argument)) if c_call else frame.f_code.co_qualname
        when: Literal["before", "after"] = "before" if event.endswith("call") else "after"
        if when == "after" and not self._interrupts:
            return
        if when == "before" and (self.phase == "exit" or _leaves(name, caller)):
            return
        self._step(when, name, f"{caller.f_code.co_filename}:{caller.f_lineno}")

    def _step(self, when: Literal["before", "after"], call: str, where: str) -> None:
        if self.fired is not None:
            return
        if self._left == 0:
            self.fired = Step(self.phase, when, call, where)
            raise Injected(str(self.fired))
        self._left -= 1


def _leaves(name: str, frame: FrameType | None) -> bool:
    """Whether the call leaves an inner manager, or is made by one that is being left."""
    if name.endswith("__exit__"):
        return True
    while frame is not None and frame.f_code.co_filename != __file__:
        if frame.f_code.co_name == "__exit__":
            return True
        frame = frame.f_back
    return False


def _run(
    manager_factory: Callable[[], AbstractContextManager[Any]], body: Callable[[Any], object], probe: _Probe
) -> None:
    try:
        probe.at("enter")
        manager = manager_factory()
        enter, leave = type(manager).__enter__, type(manager).__exit__
        value = enter(manager)
        try:
            probe.at("body")
            body(value)
            probe.end_of_body()
        except BaseException as error:
            probe.at("exit")
            if not leave(manager, type(error), error, error.__traceback__):
                raise
        else:
            probe.at("exit")
            leave(manager, None, None, None)
    except Injected:
        if probe.fired is None:
            raise
    finally:
        sys.setprofile(None)
