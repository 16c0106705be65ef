"""Atomic operations: lane after lane in program order, vectorised over distinct addresses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.vgpu import memory, numerics
from harness.vgpu.arithmetic import name_of
from harness.vgpu.clocks import Order, order_of
from harness.vgpu.elements import FP32, INT1, Element, Pointer, Scalar, unsigned
from harness.vgpu.execution import Execution
from harness.vgpu.storage import Region
from harness.vgpu.values import Data, Value

#: Combines what memory holds with one operand per lane, both as they lie in memory.
Combine = Callable[[Data, Data], Data]


_COMBINE: dict[str, Combine] = {
    "ADD": np.add,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "UMAX": lambda old, new: np.maximum(unsigned(old), unsigned(new)).view(old.dtype),
    "UMIN": lambda old, new: np.minimum(unsigned(old), unsigned(new)).view(old.dtype),
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "XOR": np.bitwise_xor,
    "XCHG": lambda old, new: new,
}

_LONE = np.zeros(1, np.int64)
#: How often a poll with a timeout looks, whatever its timeout: time means nothing here.
_POLLS = 16


class Atomics:
    """The ``create_*`` methods for atomics."""

    execution: Execution

    def create_atomic_rmw(self, operation: Any, pointer: Value, value: Value, mask: Value, *order: Any) -> Value:
        """Combine memory with ``value`` in the lanes of ``mask``; return what was there before."""
        element = _element(pointer)
        name = name_of(operation)
        combine = _on_floats(self.execution, element, name) if element.floating and name != "XCHG" else _COMBINE[name]
        operand = memory.to_bits(value, element)
        return self._run(
            pointer, mask, element, (operand,), lambda old, given: combine(old, given[0]), order_of(*order)
        )

    def create_atomic_cas(self, pointer: Value, expected: Value, value: Value, *order: Any) -> Value:
        """Write ``value`` where memory holds ``expected``, bit for bit; return what was there before."""
        element = _element(pointer)
        operands = (memory.to_bits(expected, element), memory.to_bits(value, element))
        return self._run(
            pointer,
            None,
            element,
            operands,
            lambda old, given: np.where(_same(old, given[0]), given[1], old),
            order_of(*order),
        )

    def create_atomic_load(self, pointer: Value, mask: Value | None, *order: Any) -> Value:
        """Load."""
        wanted = order_of(*order)
        self.execution.synchronise(wanted)
        return memory.load(self.execution, pointer, mask, None, wanted)

    def create_atomic_store(self, pointer: Value, value: Value, mask: Value | None, *order: Any) -> None:
        """Store."""
        wanted = order_of(*order)
        self.execution.synchronise(wanted)
        memory.store(self.execution, pointer, value, mask, wanted)

    def create_atomic_poll(self, pointer: Value, expected: Value, timeout: Any, *order: Any) -> Value:
        """Wait until memory holds ``expected``; return whether it did before the timeout."""
        self.execution.settle()
        tries = _POLLS if isinstance(timeout, Value) else 0
        while True:
            found = self.create_atomic_load(pointer, None, *order)
            matched = found.data == expected.data
            tries -= 1
            if matched.all() or tries == 0:
                return Value(matched, INT1, pointer.shape)
            self.execution.in_vain("atomic_poll waits for a value that no program can store", 1, True)

    def _run(
        self,
        pointer: Value,
        mask: Value | None,
        element: Element,
        operands: tuple[Data, ...],
        change: Callable[[Data, tuple[Data, ...]], Data],
        order: Order,
    ) -> Value:
        execution = self.execution
        execution.synchronise(order)
        execution.saw(pointer.shape)
        shape = execution.lanes_of(pointer)
        old = np.zeros(shape, element.stored)
        enabled = execution.active(mask, shape)
        for region, offsets, lanes in memory.parts(execution, pointer):
            active = lanes if enabled is None else enabled if lanes is None else lanes & enabled
            on = np.ones(shape, np.bool_) if active is None else np.broadcast_to(active, shape)
            if not on.any():
                continue
            checked = memory.check(
                execution, region, np.where(on, offsets, _safe(region)), on, element.bytes, "atomic access"
            )
            index = np.broadcast_to(offsets // element.bytes, shape)[on]
            given = tuple(np.broadcast_to(operand, shape)[on] for operand in operands)
            old[on], changed = _in_turn(execution, checked, element, index, given, change)
            if index.size == 1 and execution.turns is not None:
                execution.see(checked, int(index[0]) * element.bytes, old[on].item(), bool(changed[0]))
            if execution.races is not None:
                execution.races.atomic(checked, offsets, on, changed, element.bytes, order, pointer.shape != ())
        return Value(memory.from_bits(old, element), element, pointer.shape)


def _in_turn(
    execution: Execution,
    region: Region,
    element: Element,
    index: NDArray[np.int64],
    given: tuple[Data, ...],
    change: Callable[[Data, tuple[Data, ...]], Data],
) -> tuple[Data, NDArray[np.bool_]]:
    """Apply ``change`` to each lane in order; lanes of distinct addresses go at once.

    Returns what each lane found, and whether it changed that.
    """
    flat = region.storage.typed(element.stored)
    old = np.empty(index.shape, element.stored)
    changed = np.empty(index.shape, np.bool_)
    for turn in _turns(index):
        here = index[turn]
        found = old[turn] = flat[here]
        new = change(found, tuple(g[turn] for g in given))
        changed[turn] = ~_same(found, new)
        memory.write(execution, region, here, new, element)
    return old, changed


def _turns(index: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return sets of lanes without a repeated address: first the first lane of each address, then the second, ..."""
    if index.size == 1:
        return [_LONE]
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    if starts.size == index.size:
        return [order]
    lengths = np.diff(np.r_[starts, index.size])
    rank = np.arange(index.size) - np.repeat(starts, lengths)
    by_rank = np.argsort(rank, kind="stable")
    bounds = np.cumsum(np.bincount(rank))[:-1]
    return list(np.split(order[by_rank], bounds))


def _on_floats(execution: Execution, element: Element, name: str) -> Combine:
    """Return a sum (``FADD``, or ``REDUCE_ADD`` through a descriptor) or an extreme of floats as they lie in memory."""
    profile = execution.profile
    if name == "FADD" and profile.ftz_atomic_add and element is FP32:
        return lambda old, new: numerics.flush(numerics.flush(old) + numerics.flush(new))
    function = {"MAX": numerics.maximum, "MIN": numerics.minimum}.get(name)
    of_numbers: Combine = np.add if function is None else partial(function, propagate_nan=False)
    if not element.narrow:
        return of_numbers
    assert isinstance(element, Scalar)
    fmt = element.name

    def combine(old: Data, new: Data) -> Data:
        total = of_numbers(numerics.decode(old, fmt), numerics.decode(new, fmt))
        return numerics.pack(total if function else numerics.round_to(total, fmt, profile), fmt)

    return combine


def _same(a: Data, b: Data) -> Data:
    """Compare bits, so that NaN equals itself and zeros of different sign do not."""
    if a.dtype.kind == "f":
        bits = np.dtype(f"u{a.dtype.itemsize}")
        a, b = a.view(bits), np.ascontiguousarray(b).view(bits)
    equal: Data = np.equal(a, b)
    return equal


def _safe(region: Region | None) -> int:
    return 0 if region is None else region.view.start


def _element(pointer: Value) -> Element:
    assert isinstance(pointer.type, Pointer), "only pointers can be dereferenced"
    return pointer.type.element
