"""Reductions and scans over one block axis, in an order that does not depend on how many programs run at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from harness.vgpu import refusals
from harness.vgpu.arithmetic import Host, finish
from harness.vgpu.elements import Element, unsigned
from harness.vgpu.values import LEAD, Data, Value

#: Combines two lists of values of one shape, as the kernel's combine function does.
Fold = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]

_BITWISE: dict[str, Any] = {"xor": np.bitwise_xor, "or": np.bitwise_or, "and": np.bitwise_and}


def reduce(
    host: Host, values: Sequence[Value], axis: int, kind: str | None, is_unsigned: bool, fold: Fold
) -> list[Value]:
    """Return each value with ``axis`` removed.

    ``kind`` names a known combine function: "sum", "max", "min", "argmax", "argmin", "xor", "or"; with None,
    neighbours are folded pairwise.
    """
    first = values[0]
    if kind is not None:
        refusals.arithmetic(host, first.type)
    shape = first.shape[:axis] + first.shape[axis + 1 :]
    at = axis + LEAD
    data = first.full()
    if kind == "sum" and first.type.floating:
        return [Value(_sum(host, data, at, first.type), first.type, shape)]
    if kind == "sum":
        return [Value(np.add.reduce(data, axis=at, dtype=data.dtype), first.type, shape)]
    if kind in _BITWISE:
        return [Value(_BITWISE[kind].reduce(data, axis=at), first.type, shape)]
    if kind in ("max", "min"):
        return [Value(_extreme(data, at, kind, is_unsigned), first.type, shape)]
    if kind in ("argmax", "argmin") and not (first.type.floating and np.isnan(data).any()):
        keys = unsigned(data) if is_unsigned else data
        where = np.expand_dims(np.argmax(keys, axis=at) if kind == "argmax" else np.argmin(keys, axis=at), at)
        return [Value(_pick(v.full(), where, at), v.type, shape) for v in values]
    return _pairwise(values, axis, fold)


def _sum(host: Host, data: Data, at: int, type: Element) -> Data:
    """Add halves until one is left; narrow types round after every addition."""
    data = np.moveaxis(data, at, LEAD)
    while data.shape[LEAD] > 1:
        half = data.shape[LEAD] // 2
        total = finish(host, data[:, :, :, :half] + data[:, :, :, half : 2 * half], type)
        data = total if data.shape[LEAD] % 2 == 0 else np.concatenate([total, data[:, :, :, -1:]], axis=LEAD)
    return data[:, :, :, 0]


def _extreme(data: Data, at: int, kind: str, is_unsigned: bool) -> Data:
    """Return the extreme; NaN loses against a number and -0 is less than +0."""
    if data.dtype.kind != "f":
        keys = unsigned(data) if is_unsigned else data
        found = keys.max(axis=at) if kind == "max" else keys.min(axis=at)
        return np.asarray(found).view(data.dtype)
    result: Data = (np.fmax if kind == "max" else np.fmin).reduce(data, axis=at)
    zero = result == 0
    if zero.any():
        wins = (data == 0) & (np.signbit(data) != (kind == "max"))
        sign = np.where(wins.any(axis=at) == (kind == "max"), data.dtype.type(0.0), data.dtype.type(-0.0))
        result = np.where(zero, sign, result)
    return result


def _pick(data: Data, where: Data, at: int) -> Data:
    lead = np.broadcast_shapes(data.shape[:LEAD], where.shape[:LEAD])
    wide = np.broadcast_to(data, lead + data.shape[LEAD:])
    return np.take_along_axis(wide, np.broadcast_to(where, lead + where.shape[LEAD:]), axis=at).squeeze(at)


def _pairwise(values: Sequence[Value], axis: int, fold: Fold) -> list[Value]:
    current = list(values)
    while (count := current[0].shape[axis]) > 1:
        even = [_every_second(v, axis, 0) for v in current]
        odd = [_every_second(v, axis, 1) for v in current]
        if count % 2:
            raise ValueError(f"reduction over {count} elements: not a power of two")
        current = list(fold(even, odd))
    return [_without(v, axis) for v in current]


def _every_second(value: Value, axis: int, start: int) -> Value:
    shape = list(value.shape)
    shape[axis] //= 2
    data = value.full()[(slice(None),) * (axis + LEAD) + (slice(start, None, 2),)]
    return Value(data, value.type, tuple(shape), value.base)


def _without(value: Value, axis: int) -> Value:
    shape = value.shape[:axis] + value.shape[axis + 1 :]
    return Value(value.full().squeeze(axis + LEAD), value.type, shape, value.base)


def scan(host: Host, values: Sequence[Value], axis: int, kind: str | None, reverse: bool, fold: Fold) -> list[Value]:
    """Return the running combination of each value along ``axis``; ``kind`` may be "sum" or "prod"."""
    first = values[0]
    if kind is not None:
        refusals.arithmetic(host, first.type)
    at = axis + LEAD
    if reverse:
        values = [Value(np.flip(v.full(), at), v.type, v.shape, v.base) for v in values]
    if kind in ("sum", "prod") and not first.type.narrow:
        function = np.cumsum if kind == "sum" else np.cumprod
        data = values[0].full()
        result = [Value(function(data, axis=at, dtype=data.dtype), first.type, first.shape)]
    else:
        result = _doubling(values, axis, fold)
    if reverse:
        result = [Value(np.flip(v.full(), at), v.type, v.shape, v.base) for v in result]
    return result


def _doubling(values: Sequence[Value], axis: int, fold: Fold) -> list[Value]:
    """Combine with the element 1, 2, 4, ... places before."""
    current = list(values)
    count = current[0].shape[axis]
    position = np.arange(count).reshape((-1,) + (1,) * (len(current[0].shape) - axis - 1))
    distance = 1
    while distance < count:
        before = [Value(np.roll(v.full(), distance, axis + LEAD), v.type, v.shape) for v in current]
        combined = fold(before, current)
        current = [
            Value(np.where(position >= distance, new.full(), old.full()), old.type, old.shape)
            for new, old in zip(combined, current, strict=True)
        ]
        distance *= 2
    return current
