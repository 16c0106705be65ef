"""Shape operations of the builder: lanes move, nothing is computed; axes of size 1 stay lazy."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.vgpu import refusals
from harness.vgpu.elements import INT32, Block
from harness.vgpu.execution import Execution
from harness.vgpu.values import LEAD, Data, Value, combine, common

Shape = tuple[int, ...]


class Shapes:
    """The ``create_*`` methods that rearrange lanes."""

    execution: Execution

    def create_make_range(self, type: Block, start: int, end: int) -> Value:
        """Return start, ..., end - 1."""
        data = np.arange(start, end, dtype=np.int32).reshape((1,) * LEAD + (-1,))
        return Value(data, INT32, (end - start,))

    def create_splat(self, type: Block, a: Value) -> Value:
        """Spread a scalar over a block."""
        return self.create_splat_to(a, type.shape)

    def create_splat_to(self, a: Value, shape: Shape) -> Value:
        """Spread a scalar over a block of ``shape``."""
        return a.reshaped(lambda data: data.reshape(data.shape[:LEAD] + (1,) * len(shape)), shape)

    def create_unsplat(self, a: Value) -> Value:
        """Return the one element of a block."""
        return a.reshaped(lambda data: data.reshape(data.shape[:LEAD]), ())

    def create_expand_dims(self, a: Value, axis: int) -> Value:
        """Insert an axis of size 1."""
        return a.reshaped(lambda data: np.expand_dims(data, axis + LEAD), (*a.shape[:axis], 1, *a.shape[axis:]))

    def create_broadcast(self, a: Value, shape: Any) -> Value:
        """Widen axes of size 1."""
        self.execution.saw(tuple(shape))
        return a.reshaped(lambda data: data, tuple(shape))

    def create_reshape(self, a: Value, shape: Any, allow_reorder: bool) -> Value:
        """Change the shape, in C order."""
        new, old = tuple(shape), a.shape

        def change(data: Data) -> Data:
            if all(n == 1 for n in data.shape[LEAD:]):
                return data.reshape(data.shape[:LEAD] + (1,) * len(new))
            return np.broadcast_to(data, data.shape[:LEAD] + old).reshape(data.shape[:LEAD] + new)

        return a.reshaped(change, new)

    def create_trans(self, a: Value, order: Any) -> Value:
        """Permute the axes."""
        axes = (*range(LEAD), *(int(axis) + LEAD for axis in order))
        return a.reshaped(lambda data: np.transpose(data, axes), tuple(a.shape[int(axis)] for axis in order))

    def create_cat(self, a: Value, b: Value) -> Value:
        """Concatenate along the first axis."""
        refusals.one_type(self, "tl.cat", a.type, b.type)
        return combine((a, b), lambda data: _joined(data, (a, b), LEAD), (a.shape[0] + b.shape[0], *a.shape[1:]))

    def create_join(self, a: Value, b: Value) -> Value:
        """Stack along a new last axis of size 2."""
        refusals.one_type(self, "tl.join", a.type, b.type)
        return combine((a, b), _paired, (*a.shape, 2))

    def create_split(self, a: Value) -> tuple[Value, Value]:
        """Take the last axis, of size 2, apart."""
        return self._half(a, 0), self._half(a, 1)

    def _half(self, a: Value, which: int) -> Value:
        return a.reshaped(lambda data: data[..., min(which, data.shape[-1] - 1)], a.shape[:-1])

    def create_gather(self, source: Value, index: Value, axis: int) -> Value:
        """Pick elements along ``axis``."""
        where = index.full()
        lead = np.broadcast_shapes(source.lead, index.lead)
        wide = np.broadcast_to(where, lead + index.shape)

        def pick(data: Data) -> Data:
            return np.take_along_axis(np.broadcast_to(data, lead + source.shape), wide, axis + LEAD)

        if wide.size and (wide.min() < 0 or wide.max() >= source.shape[axis]):
            raise IndexError(
                f"tl.gather: index {int(wide.min())} to {int(wide.max())} into {source.shape[axis]} elements"
            )
        return source.reshaped(pick, index.shape)

    def create_histogram(self, a: Value, bins: int, mask: Value | None) -> Value:
        """Count the values 0, ..., bins - 1; others are left out."""
        lead = a.lead if mask is None else np.broadcast_shapes(a.lead, mask.lead)
        data = np.broadcast_to(a.full(), lead + a.shape)
        keep = (data >= 0) & (data < bins)
        if mask is not None:
            keep = keep & mask.data
        count = int(np.prod(lead))
        rows = np.broadcast_to(np.arange(count).reshape((*lead, 1)), data.shape)
        total = np.bincount((rows * bins + data)[keep], minlength=count * bins)
        return Value(total.reshape((*lead, bins)).astype(np.int32), INT32, (bins,))


def _paired(data: tuple[Data, ...]) -> Data:
    left, right = data
    pairs = np.empty((*common(left.shape, right.shape), 2), np.result_type(left, right))
    pairs[..., 0] = left
    pairs[..., 1] = right
    return pairs


def _joined(data: tuple[Data, ...], values: tuple[Value, ...], axis: int) -> Data:
    lead = np.broadcast_shapes(*(d.shape[:LEAD] for d in data))
    full = [np.broadcast_to(d, lead + v.shape) for d, v in zip(data, values, strict=True)]
    return np.concatenate(full, axis=axis)
