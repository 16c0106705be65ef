"""Branches and loops of rewritten kernels."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.vgpu.elements import INT64
from harness.vgpu.execution import MARKER
from harness.vgpu.faults import HangDetected, KernelFault
from harness.vgpu.predication import Predication, Round
from harness.vgpu.programs import Divergence, Where
from harness.vgpu.turns import Crowd
from harness.vgpu.values import LEAD, Data, Value

Index = NDArray[np.int64]

#: Iterations of a ``while`` loop before programs that have ended it part from those that have not.
_WASTED_ROUNDS = 8


class Flow(Predication):
    """Branches and loops."""

    def loop(self, masks: bool) -> Loop:
        """Start a ``while`` statement; ``masks``: its body can run under a mask."""
        return Loop(self, masks)

    def each(self, source: Any, *args: Any, **kwargs: Any) -> Each:
        """Start a ``for`` statement over a call, whose body can run under a mask."""
        return Each(self, source, args, kwargs)

    def iterate(self, source: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield the values of the variable of a ``for`` statement over a call."""
        return self.values(None, source, args, kwargs)

    def values(self, steps: Round | None, source: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
        """Yield the values of a ``for`` loop's variable: constants for a static range, tensors for others.

        ``steps``: how programs can end the loop at different times, if they can.
        """
        source = self.raw(source)
        if source is self.adapter.static_range:
            # the class checks that its bounds are compile-time values, and knows its own keywords
            ready = source(*map(self.constant, args), **{k: self.constant(v) for k, v in kwargs.items()})
            self._within_budget(len(range(ready.start.value, ready.end.value, ready.step.value)))
            for number in range(ready.start.value, ready.end.value, ready.step.value):
                yield self.constant(number)
        elif source is range or source is self.adapter.range:
            yield from self._range(steps, *args, **kwargs)
        else:
            yield from self.items(self.call(source, *args, **kwargs))

    def _range(
        self, steps: Round | None, first: Any, second: Any = None, step: Any = None, **hints: Any
    ) -> Iterator[Any]:
        second = hints.pop("arg2", second)
        start, end = (0, first) if self.raw(second) is None else (first, second)
        step = 1 if self.raw(step) is None else step
        begin, first_kind = self._edge(start)
        stop, second_kind = self._edge(end)
        stride, third_kind = self._edge(step)
        promote = self.semantic.integer_promote_impl
        kind = promote(promote(first_kind, second_kind), third_kind)
        element = self.adapter.element(kind)
        record = self.adapter.record(kind, ())
        if (stride == 0).any():
            self.builder.execution.settle()
            raise ValueError("range() arg 3 must not be zero")
        # programs that go round equally often stay together, wherever each begins
        trips = np.maximum(-((begin - stop) // stride), 0)
        most = self._most(trips, steps)
        self._within_budget(most)
        for number in range(most):
            if steps is not None and not (number < trips).all():
                steps.go_on(number < trips)
            yield self.make(Value((begin + number * stride).astype(element.held), element), record)
        if steps is not None:
            steps.leave()

    def _edge(self, given: Any) -> tuple[Index, Any]:
        """Return a bound of a range with the type that it has in the language."""
        number = self.raw(given)
        if number.__class__ is int and -(2**31) <= number < 2**31:
            return np.array(number, np.int64, ndmin=LEAD), self.adapter.dtypes["int32"]
        tensor = self.semantic.to_tensor(given)
        return tensor.handle.data.astype(np.int64), tensor.dtype

    def _within_budget(self, trips: int) -> None:
        """Raise HangDetected for a ``for`` loop that would go on for hours."""
        execution = self.builder.execution
        if trips > execution.limits.steps:
            what = f"for loop of {trips} iterations, more than the {execution.limits.steps} that it may have"
            raise execution.fault(HangDetected, what, program=execution.programs.at((0, 0, 0)))

    def _most(self, trips: Index, steps: Round | None) -> int:
        """Return how often the loop goes round; raises Divergence if programs had better not go together."""
        execution = self.builder.execution
        if trips.size == 1 or steps is None:
            return int(execution.uniform(Value(trips, INT64)))
        mask = execution.mask
        if mask is not None:
            trips = np.where(mask, trips, 0)
        most = int(trips.max())
        running = trips.size if mask is None else np.count_nonzero(np.broadcast_to(mask, trips.shape))
        if 2 * int(trips.sum()) < most * running and execution.costly:
            # programs that need between half as many iterations and as many waste less than one lane in two
            raise Divergence(np.frexp(trips.astype(np.float64))[1])
        return most

    def items(self, source: Any) -> Iterator[Any]:
        """Yield the members of a tuple."""
        source = self.raw(source) if isinstance(source, self.adapter.constexpr) else source
        for item in source:
            yield self.constant(item)


class Progress(Enum):
    """What changed in a loop's variables from one iteration to the next."""

    NONE = 0
    COUNTED = 1
    OTHER = 2


#: Iterations in vain after which a loop waits for other programs: two equal ones, or some that count their tries.
_PATIENCE = {Progress.NONE: 1, Progress.COUNTED: 16, Progress.OTHER: 1 << 62}


class Each(Round):
    """A ``for`` statement over a call."""

    def __init__(self, flow: Flow, source: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__(flow)
        self._values = flow.values(self, source, args, kwargs)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the values of the loop's variable."""
        return self._values


class Loop(Round):
    """A ``while`` statement, watched for iterations that get nowhere, or only with the help of other programs."""

    def __init__(self, flow: Flow, masks: bool) -> None:
        super().__init__(flow)
        self._masks = masks
        self._execution = flow.builder.execution
        self._limits = self._execution.limits
        self._execution.watched = True
        self._activity = self._execution.activity
        self._changes = self._activity.changes
        self._synchronised = self._activity.synchronised
        self._rounds = 0
        self._total = 0
        self._idle = 0
        self._tries = 0
        self._locals: dict[str, Any] = {}
        self._begin = time.monotonic()

    def test(self, condition: Any) -> bool:
        """Return whether to go round once more.

        Raises HangDetected when that cannot change anything, or, while other programs could, lets them.
        """
        if isinstance(condition, self._flow.adapter.condition):
            condition = condition.condition
        execution, activity = self._execution, self._activity
        synchronises = activity.synchronised != self._synchronised
        self._synchronised = activity.synchronised
        if activity.synchronised and execution.programs.count > execution.resident:
            raise Crowd
        if not self._goes_on(condition, synchronises):
            if self._tries and execution.turns is not None:
                execution.turns.proceed()
            self.leave()
            return False
        before, self._locals = self._locals, dict(sys._getframe(1).f_locals)
        if activity.changes != self._changes:
            self._changes = activity.changes
            self._idle = self._tries = 0
        else:
            self._idle += 1
            progress = self._progress(before, self._locals)
            self._tries = self._tries + 1 if progress is not Progress.OTHER else 0
            waits = synchronises or progress is Progress.NONE
            if waits and (self._tries >= _PATIENCE[progress] or (self._tries and execution.turns is not None)):
                # what this program did so far is no sign of a hang while others can change what it reads
                self._idle = 0
                execution.in_vain(
                    "while loop waits for a change that no program can make", _PATIENCE[progress], synchronises
                )
        self._total += 1
        if self._total > self._limits.steps:
            raise self._hang(f"while loop went round more than the {self._limits.steps} times that it may")
        if self._idle > self._limits.spins:
            raise self._hang(f"while loop went round {self._idle} times without a change of memory")
        if time.monotonic() > max(self._begin, activity.since) + self._limits.seconds:
            raise self._hang(f"while loop ran for {self._limits.seconds:g} s")
        return True

    def _goes_on(self, condition: Any, synchronises: bool) -> bool:
        if not self._masks or synchronises:
            # programs that wait for each other must not wait in step
            return self._flow.branch(condition)
        execution = self._execution
        going = self._flow.decide(condition)
        if isinstance(going, bool):
            return going
        self._rounds += 1
        running = going if execution.mask is None else execution.mask & going
        if self._rounds & (self._rounds - 1) == 0 and self._rounds >= _WASTED_ROUNDS and execution.costly:
            came = np.broadcast_to(True if self._outer is None else self._outer, execution.programs.lead)
            if 2 * np.count_nonzero(np.broadcast_to(running, came.shape)) < np.count_nonzero(came):
                raise Divergence(running)
        self.split = True
        execution.mask = running
        return True

    def _progress(self, before: dict[str, Any], after: dict[str, Any]) -> Progress:
        if before.keys() != after.keys():
            return Progress.OTHER
        mask = self._execution.mask
        found = Progress.NONE
        for name, new in after.items():
            old = before[name]
            if new is old or name.startswith(MARKER):
                continue
            if not (isinstance(new, self._flow.tensor) and isinstance(old, self._flow.tensor)):
                return Progress.OTHER
            a, b = old.handle, new.handle
            if not (isinstance(a, Value) and isinstance(b, Value)) or a.base is not b.base:
                return Progress.OTHER
            if not _equal(a.data, b.data, mask):
                if b.shape or b.type.floating or b.base is not None:
                    return Progress.OTHER
                found = Progress.COUNTED
        return found

    def _hang(self, what: str) -> KernelFault:
        return self._execution.fault(HangDetected, what, program=self._execution.programs.at((0, 0, 0)))


def _equal(a: Data, b: Data, mask: Where | None) -> bool:
    """Compare bits, in programs that run."""
    if a is b or (a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()):
        return True
    if mask is None or a.dtype != b.dtype or a.ndim != b.ndim:
        return False
    return bool(((a == b) | ~mask.reshape(mask.shape + (1,) * (a.ndim - LEAD))).all())
