"""Branches and loops of rewritten kernels."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np

from harness.vgpu.execution import Crowd, Limits
from harness.vgpu.faults import HangDetected, KernelFault
from harness.vgpu.operators import Operators
from harness.vgpu.values import LEAD, Data, Value


class Flow(Operators):
    """Decides branches; where programs disagree, Divergence separates them."""

    def branch(self, condition: Any) -> bool:
        """Decide a branch for all programs of the set."""
        if not isinstance(condition, self.tensor):
            return bool(self.raw(condition))
        value: Value = condition.handle
        if value.data.size > 1 and any(n > 1 for n in value.data.shape[LEAD:]):
            flat = value.data.reshape((*value.data.shape[:LEAD], -1))
            if not (flat == flat[..., :1]).all():
                raise ValueError("the truth value of a block with more than one element is ambiguous")
            value = Value(flat[..., 0], value.type)
        return bool(self.builder.execution.uniform(value))

    def loop(self) -> Loop:
        """Start watching a ``while`` statement."""
        return Loop(self, self.builder.execution.limits)

    def iterate(self, source: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield the values of a ``for`` loop's variable: constants for a static range, tensors for others."""
        source = self.raw(source)
        if source is self.adapter.static_range:
            # the class checks that its bounds are compile-time values, and knows its own keywords
            ready = source(*map(self.constant, args), **{k: self.constant(v) for k, v in kwargs.items()})
            for number in range(ready.start.value, ready.end.value, ready.step.value):
                yield self.constant(number)
        elif source is range or source is self.adapter.range:
            yield from self._range(*args, **kwargs)
        else:
            yield from self.items(self.call(source, *args, **kwargs))

    def _range(self, first: Any, second: Any = None, step: Any = None, **hints: Any) -> Iterator[Any]:
        second = hints.pop("arg2", second)
        start, end = (0, first) if self.raw(second) is None else (first, second)
        step = 1 if self.raw(step) is None else step
        bounds = [self.semantic.to_tensor(bound) for bound in (start, end, step)]
        promote = self.semantic.integer_promote_impl
        kind = promote(promote(bounds[0].dtype, bounds[1].dtype), bounds[2].dtype)
        element = self.adapter.element(kind)
        record = self.adapter.record(kind, ())
        for number in range(*(int(self.builder.execution.uniform(bound.handle)) for bound in bounds)):
            yield self.make(Value(np.full((1,) * LEAD, number, element.held), element), record)

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


class Loop:
    """Watches one ``while`` statement for iterations that get nowhere, or only with the help of other programs."""

    def __init__(self, flow: Flow, limits: Limits) -> None:
        self._flow = flow
        self._limits = limits
        self._execution = flow.builder.execution
        self._execution.watched = True
        self._activity = self._execution.activity
        self._changes = self._activity.changes
        self._synchronised = self._activity.synchronised
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
        if synchronises and execution.programs.count > execution.resident:
            raise Crowd
        if not self._flow.branch(condition):
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
        if self._idle > self._limits.spins:
            raise self._hang(f"while loop went round {self._idle} times without a change of memory")
        if time.monotonic() > max(self._begin, activity.since) + self._limits.seconds:
            raise self._hang(f"while loop ran for {self._limits.seconds:g} s")
        return True

    def _progress(self, before: dict[str, Any], after: dict[str, Any]) -> Progress:
        if before.keys() != after.keys():
            return Progress.OTHER
        found = Progress.NONE
        for name, new in after.items():
            old = before[name]
            if new is old:
                continue
            if not (isinstance(new, self._flow.tensor) and isinstance(old, self._flow.tensor)):
                return Progress.OTHER
            a, b = old.handle, new.handle
            if not (isinstance(a, Value) and isinstance(b, Value)) or a.base is not b.base:
                return Progress.OTHER
            if not _equal(a.data, b.data):
                if b.shape or b.type.floating or b.base is not None:
                    return Progress.OTHER
                found = Progress.COUNTED
        return found

    def _hang(self, what: str) -> KernelFault:
        return self._execution.fault(HangDetected, what, program=self._execution.programs.at((0, 0, 0)))


def _equal(a: Data, b: Data) -> bool:
    return a is b or (a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes())
