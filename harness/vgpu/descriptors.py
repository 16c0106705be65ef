"""Tensor descriptors and block pointers: a box of a tensor, addressed by the coordinates of its corner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.vgpu import memory
from harness.vgpu.arithmetic import name_of
from harness.vgpu.atomics import Atomics
from harness.vgpu.elements import FP32, INT1, Pointer
from harness.vgpu.execution import Execution
from harness.vgpu.faults import Misaligned
from harness.vgpu.numerics import nearest_tf32
from harness.vgpu.values import LEAD, Data, Value, scalar

#: Alignment in bytes that TMA demands of the base, of all strides but the last, and of the last offset
#: (CUDA driver API, cuTensorMapEncodeTiled: globalAddress and globalStrides are multiples of 16).
_TMA_ALIGNMENT = 16
#: The NaN that is read outside of a tensor, by the element's width in bits (measured on an H200; 8 bits have none, and
#: 64 have no descriptor, there).
_TMA_NAN = {8: 0x7F, 16: 0x7FF7, 32: 0x7FF77FF7, 64: 0x7FF8000000000000}


@dataclass(frozen=True, eq=False)
class Box:
    """A tensor in memory and the shape of the block that one access moves.

    ``base``: pointer to element 0; ``shape``, ``strides``, ``offsets``: scalars in elements.  ``padding``: what is
    read outside of ``shape``, "zero" or "nan".  ``checked``: axes along which the bounds are respected.  ``signed``:
    whether its integers have a sign.
    """

    base: Value
    shape: tuple[Value, ...]
    strides: tuple[Value, ...]
    offsets: tuple[Value, ...]
    block_shape: tuple[int, ...]
    padding: str = "zero"
    checked: tuple[int, ...] = ()
    round_f32_to_tf32: bool = False
    signed: bool = True

    def set_attr(self, name: str, value: Any) -> None:
        """Accept a compiler hint; it changes nothing here."""


def _pad(padding: Any) -> str:
    return "nan" if padding is not None and name_of(padding) == "PAD_NAN" else "zero"


def _along(data: Data, axis: int, rank: int) -> Data:
    """Give per-program numbers, or a range, the block axis ``axis``."""
    return data.reshape(data.shape[:LEAD] + tuple(-1 if i == axis else 1 for i in range(rank)))


class Descriptors(Atomics):
    """The ``create_*`` methods for descriptors and, on Triton 3.7, block pointers."""

    execution: Execution
    #: Called for a descriptor that a kernel makes, where that needs memory of the launch; None: nobody asks.
    scratch: Callable[[], object] | None = None
    #: Whether the descriptor being made is an argument, which the launch itself writes.
    by_host = False

    def create_make_tensor_descriptor(
        self,
        base: Value,
        shape: Sequence[Value],
        strides: Sequence[Value],
        block_shape: Sequence[int],
        is_signed: bool,
        padding: Any,
    ) -> Box:
        """Describe a tensor; base and strides must be aligned as the hardware demands."""
        assert isinstance(base.type, Pointer)
        self.execution.settle()
        # elsewhere it becomes pointers
        if self.scratch is not None and not self.by_host and self.execution.profile.native_tma:
            self.scratch()
        size = base.type.element.bytes
        for region, offsets, lanes in memory.parts(self.execution, base):
            bad = offsets % _TMA_ALIGNMENT != 0
            if lanes is not None:
                bad = bad & lanes
            if bad.any():
                detail = f"the base must be a multiple of {_TMA_ALIGNMENT} bytes"
                raise self.execution.at_lanes(Misaligned, "misaligned tensor descriptor", bad, offsets, region, detail)
        for axis, stride in enumerate(strides[:-1]):
            if (stride.data * size % _TMA_ALIGNMENT).any():
                detail = f"stride {axis} is {int(stride.data.reshape(-1)[0]) * size} bytes, no multiple of 16"
                raise self.execution.fault(Misaligned, "misaligned tensor descriptor", detail=detail)
        rank = len(shape)
        zero = scalar(0, shape[0].type)
        return Box(
            base,
            tuple(shape),
            tuple(strides),
            (zero,) * rank,
            tuple(block_shape),
            _pad(padding),
            tuple(range(rank)),
            signed=is_signed,
        )

    def create_tensor_descriptor_type(self, block: Any, is_signed: bool) -> Any:
        """Return the type of a descriptor: that of its block."""
        return block

    def create_descriptor_load(self, box: Box, indices: Sequence[Value], *policy: Any) -> Value:
        """Load the block whose corner is at ``indices``."""
        return self._load_box(replace(box, offsets=tuple(indices)))

    def create_descriptor_store(self, box: Box, value: Value, indices: Sequence[Value]) -> None:
        """Store the part of ``value`` that lies inside the tensor."""
        pointers, mask = self._lanes(replace(box, offsets=tuple(indices)))
        memory.store(self.execution, pointers, value, mask)

    def create_descriptor_reduce(self, kind: Any, box: Box, value: Value, indices: Sequence[Value]) -> None:
        """Combine a block with memory atomically."""
        pointers, mask = self._lanes(replace(box, offsets=tuple(indices)))
        assert isinstance(box.base.type, Pointer)
        name = name_of(kind)
        if box.base.type.element.floating:
            name = "REDUCE_ADD" if name == "ADD" else name
        elif not box.signed and name in ("MIN", "MAX"):
            name = f"U{name}"
        self.create_atomic_rmw(_Named(name), pointers, value, mask)

    def create_descriptor_gather(self, box: Box, rows: Value, column: Value, type: Any) -> Value:
        """Load the given rows, from ``column`` on."""
        return self._load_box(self._rows(box, rows, column))

    def create_descriptor_scatter(self, box: Box, value: Value, rows: Value, column: Value) -> None:
        """Store to the given rows, from ``column`` on."""
        pointers, mask = self._lanes(self._rows(box, rows, column))
        memory.store(self.execution, pointers, value, mask)

    def _rows(self, box: Box, rows: Value, column: Value) -> Box:
        return replace(box, offsets=(rows, column), block_shape=(rows.shape[0], box.block_shape[1]))

    def _load_box(self, box: Box) -> Value:
        pointers, mask = self._lanes(box)
        assert isinstance(pointers.type, Pointer)
        element = pointers.type.element
        other = None
        if box.padding == "nan" and element.floating:
            bits = np.full((1,) * (LEAD + len(box.block_shape)), _TMA_NAN[element.bits]).astype(f"u{element.bytes}")
            other = Value(memory.from_bits(bits.view(element.stored), element), element, box.block_shape)
        loaded = memory.load(self.execution, pointers, mask, other)
        if box.round_f32_to_tf32 and element is FP32:
            return loaded.with_data(nearest_tf32(loaded.data))
        return loaded

    def _lanes(self, box: Box) -> tuple[Value, Value]:
        """Return a pointer for each lane of the block, and which lanes are inside."""
        assert isinstance(box.base.type, Pointer)
        size = box.base.type.element.bytes
        rank = len(box.block_shape)
        data = box.base.data.reshape(box.base.data.shape[:LEAD] + (1,) * rank)
        inside = np.ones((1,) * (LEAD + rank), np.bool_)
        for axis, count in enumerate(box.block_shape):
            corner = box.offsets[axis].data.astype(np.int64)
            if corner.ndim == LEAD:
                step = np.arange(count, dtype=np.int64).reshape((1,) * LEAD + (-1,))
                position = _along(corner[..., None] + step, axis, rank)
            else:
                position = _along(corner, axis, rank)
            data = data + position * (_along(box.strides[axis].data.astype(np.int64), axis, rank) * size)
            if axis in box.checked:
                limit = _along(box.shape[axis].data.astype(np.int64), axis, rank)
                inside = inside & (position >= 0) & (position < limit)
        return Value(data, box.base.type, box.block_shape, box.base.base), Value(inside, INT1, box.block_shape)

    def create_make_block_ptr(
        self,
        base: Value,
        shape: Sequence[Value],
        strides: Sequence[Value],
        offsets: Sequence[Value],
        block_shape: Sequence[int],
        order: Sequence[int],
    ) -> Box:
        """Make a block pointer."""
        return Box(base, tuple(shape), tuple(strides), tuple(offsets), tuple(block_shape))

    def create_advance(self, box: Box, steps: Sequence[Value]) -> Box:
        """Move a block pointer."""
        moved = (o.with_data(o.data + s.data) for o, s in zip(box.offsets, steps, strict=True))
        return replace(box, offsets=tuple(moved))

    def create_tensor_pointer_load(self, box: Box, boundary_check: Sequence[int], padding: Any, *policy: Any) -> Value:
        """Load through a block pointer."""
        return self._load_box(replace(box, checked=tuple(boundary_check), padding=_pad(padding)))

    def create_tensor_pointer_store(self, box: Box, value: Value, boundary_check: Sequence[int], *policy: Any) -> None:
        """Store through a block pointer."""
        pointers, mask = self._lanes(replace(box, checked=tuple(boundary_check)))
        memory.store(self.execution, pointers, value, mask)


@dataclass(frozen=True)
class _Named:
    name: str
