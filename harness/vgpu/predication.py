"""Branches on which programs disagree, run by all of them: each side by its own, under a mask, and joined again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.vgpu.operators import Operators
from harness.vgpu.programs import Divergence, Where
from harness.vgpu.values import LEAD, Data, Value, combine

#: What a variable holds that one side of a branch did not assign.
MISSING = object()


class Fork:
    """An ``if`` statement that is being run.

    ``then`` and ``otherwise``: whether any program takes this side; ``split``: whether both are taken.
    """

    def __init__(self, flow: Predication, where: Where | None, *, then: bool, otherwise: bool) -> None:
        self.then = then
        self.otherwise = otherwise
        self.split = where is not None
        self._flow = flow
        self._where = where
        self._outer: Where | None = None
        self._before: dict[str, Any] = {}
        self._then: dict[str, Any] = {}

    def begin(self, variables: Mapping[str, Any]) -> None:
        """Go to the first side; ``variables``: the kernel's local ones."""
        assert self._where is not None
        execution = self._flow.builder.execution
        self._before = dict(variables)
        self._outer = execution.mask
        execution.mask = self._where if self._outer is None else self._outer & self._where

    def turn(self, variables: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
        """Go to the other side; return what ``names`` held before."""
        assert self._where is not None
        self._then = dict(variables)
        self._flow.builder.execution.mask = ~self._where if self._outer is None else self._outer & ~self._where
        return [self._before.get(name, MISSING) for name in names]

    def end(self, variables: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
        """Join both sides; return what ``names`` hold from here on."""
        assert self._where is not None
        self._flow.builder.execution.mask = self._outer
        return [
            self._flow.joined(self._where, self._then.get(name, MISSING), variables.get(name, MISSING))
            for name in names
        ]


class Round:
    """One loop whose programs may end it at different times; ``split``: whether some have ended it already."""

    def __init__(self, flow: Predication) -> None:
        self._flow = flow
        self._outer = flow.builder.execution.mask
        self._before: dict[str, Any] = {}
        self.split = False

    def go_on(self, where: Where) -> None:
        """Let only the programs of ``where`` run the next iteration."""
        self.split = True
        self._flow.builder.execution.mask = where if self._outer is None else self._outer & where

    def leave(self) -> None:
        """Let all programs that came go on after the loop."""
        self.split = False
        self._flow.builder.execution.mask = self._outer

    def begin(self, variables: Mapping[str, Any]) -> None:
        """Remember the kernel's local variables before an iteration."""
        self._before = dict(variables)

    def end(self, variables: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
        """Return what ``names`` hold after an iteration, in all programs."""
        where = self._flow.builder.execution.mask
        assert where is not None
        return [
            self._flow.joined(where, variables.get(name, MISSING), self._before.get(name, MISSING)) for name in names
        ]


class Predication(Operators):
    """Decides branches.  Where programs disagree and masks do not do, Divergence separates them."""

    def scalar_of(self, condition: Any) -> Value:
        """Return a condition with one value a program; raises ValueError if a program has several."""
        value: Value = condition.handle
        if value.data.size > 1 and any(n > 1 for n in value.data.shape[LEAD:]):
            flat = value.data.reshape((*value.data.shape[:LEAD], -1))
            same = (flat == flat[..., :1]).all(-1)
            mask = self.builder.execution.mask
            if not (same if mask is None else same | ~mask).all():
                raise ValueError("the truth value of a block with more than one element is ambiguous")
            return Value(flat[..., 0], value.type)
        if value.data.ndim > LEAD:
            return Value(value.data.reshape(value.data.shape[:LEAD]), value.type)
        return value

    def branch(self, condition: Any) -> bool:
        """Decide a branch for all programs that run."""
        if not isinstance(condition, self.tensor):
            return bool(self.raw(condition))
        return bool(self.builder.execution.uniform(self.scalar_of(condition)))

    def decide(self, condition: Any) -> bool | Where:
        """Return what all programs that run decide, or, where they disagree, which of the programs say yes."""
        if not isinstance(condition, self.tensor):
            return bool(self.raw(condition))
        data = self.scalar_of(condition).data
        if data.size == 1:
            return bool(data.item())
        yes: Where = data != 0
        mask = self.builder.execution.mask
        if not (yes if mask is None else yes & mask).any():
            return False
        if (yes if mask is None else yes | ~mask).all():
            return True
        return yes

    def fork(self, condition: Any) -> Fork:
        """Begin an ``if`` statement."""
        where = self.decide(condition)
        if isinstance(where, bool):
            return Fork(self, None, then=where, otherwise=not where)
        return Fork(self, where, then=True, otherwise=True)

    def joined(self, where: Where, yes: Any, no: Any) -> Any:
        """Return ``yes`` in the programs of ``where`` and ``no`` in the others.

        Raises Divergence if no value of the language can be both.
        """
        if yes is no or no is MISSING:
            return yes
        if yes is MISSING:
            return no
        adapter = self.adapter
        if isinstance(yes, self.tensor) and isinstance(no, self.tensor):
            a, b = yes.handle, no.handle
            if yes.type == no.type and isinstance(a, Value) and isinstance(b, Value) and a.shape == b.shape:
                on = where.reshape(where.shape + (1,) * len(a.shape))
                if a.base is None and b.base is None:
                    chosen = Value(np.where(on, _ranked(a), _ranked(b)), a.type, a.shape)
                else:
                    chosen = combine((a, b), lambda data: np.where(on, data[0], data[1]), a.shape)
                return self.make(chosen, adapter.record(yes.dtype, a.shape))
        elif isinstance(yes, adapter.tuple) and isinstance(no, adapter.tuple) and len(yes) == len(no):
            members = [self.joined(where, a, b) for a, b in zip(yes, no, strict=True)]
            return adapter.tuple(members, yes.type)
        elif isinstance(yes, adapter.constexpr) and isinstance(no, adapter.constexpr) and yes.value == no.value:
            return yes
        raise Divergence(where)


def _ranked(value: Value) -> Data:
    """Return data with an axis for every axis of the block."""
    return value.data.reshape(value.data.shape + (1,) * (LEAD + len(value.shape) - value.data.ndim))
