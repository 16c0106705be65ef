"""Branches and loops of rewritten kernels."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from harness.vgpu.execution import Execution, Limits
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


class Loop:
    """Watches one ``while`` statement for iterations that get nowhere."""

    def __init__(self, flow: Flow, limits: Limits) -> None:
        self._flow = flow
        self._limits = limits
        self._idle = 0
        flow.builder.execution.watched = True
        self._changes = flow.builder.execution.changes
        self._locals: dict[str, Any] = {}
        self._end = time.monotonic() + limits.seconds

    def test(self, condition: Any) -> bool:
        """Return whether to go round once more; raises HangDetected when that cannot change anything."""
        if isinstance(condition, self._flow.adapter.condition):
            condition = condition.condition
        if not self._flow.branch(condition):
            return False
        execution = self._flow.builder.execution
        before, self._locals = self._locals, dict(sys._getframe(1).f_locals)
        if execution.changes != self._changes:
            self._changes = execution.changes
            self._idle = 0
        elif self._idle and self._same(before, self._locals):
            # no other program runs in between: equal states repeat for ever
            raise self._hang(execution, "while loop waits for a change that no program that runs can make")
        self._idle += 1
        if self._idle > self._limits.spins:
            raise self._hang(execution, f"while loop went round {self._idle} times without a change of memory")
        if time.monotonic() > self._end:
            raise self._hang(execution, f"while loop ran for {self._limits.seconds:g} s")
        return True

    def _same(self, before: dict[str, Any], after: dict[str, Any]) -> bool:
        tensor = self._flow.tensor
        if before.keys() != after.keys():
            return False
        for name, new in after.items():
            old = before[name]
            if new is old:
                continue
            if not (isinstance(new, tensor) and isinstance(old, tensor)):
                return False
            if not (isinstance(new.handle, Value) and isinstance(old.handle, Value)):
                return False
            if new.handle.base is not old.handle.base or not _equal(new.handle.data, old.handle.data):
                return False
        return True

    def _hang(self, execution: Execution, what: str) -> KernelFault:
        return execution.fault(HangDetected, what, program=execution.programs.at((0, 0, 0)))


def _equal(a: Data, b: Data) -> bool:
    return a is b or (a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes())
