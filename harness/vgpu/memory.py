"""Loads and stores: bounds, alignment, protection and initialisation of every access, by argument."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.vgpu import numerics
from harness.vgpu.clocks import Order
from harness.vgpu.elements import Element, Pointer, Scalar
from harness.vgpu.execution import Execution
from harness.vgpu.faults import Misaligned, OutOfBounds, UnwrittenRead, WriteToInput
from harness.vgpu.journal import place_of
from harness.vgpu.storage import Region, Written
from harness.vgpu.values import LEAD, Data, Mixed, Value, common

Lanes = NDArray[np.bool_]
Offsets = NDArray[np.int64]

#: Regions that one block of pointers made of addresses may have; a selector holds 16 bits.
_MOST_REGIONS = 1 << 14
_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3}


def addresses(value: Value) -> Offsets:
    """Return the absolute addresses that a block of pointers holds."""
    base = value.base
    if base is None:
        return value.data
    if isinstance(base, Region):
        return value.data + np.int64(base.storage.address)
    starts = np.asarray([0 if r is None else r.storage.address for r in base.regions], np.int64)
    return value.data + starts[base.selector]


def pointers(execution: Execution, data: Offsets, type: Element, shape: tuple[int, ...]) -> Value:
    """Return pointers made of addresses: each into the whole storage that holds it, so that it stays within that."""
    regions: list[Region | None] = [None]
    selector = np.zeros(data.shape, np.int16)
    offsets = data.copy()
    for region, _, lanes in _by_address(execution, data, None):
        if region is not None and lanes is not None and len(regions) < _MOST_REGIONS:
            selector[lanes] = len(regions)
            offsets[lanes] -= region.storage.address
            regions.append(region)
    if len(regions) == 1:
        return Value(data, type, shape)
    if selector.all() and len(regions) == 2:
        return Value(offsets, type, shape, regions[1])
    return Value(offsets, type, shape, Mixed(tuple(regions), selector))


def parts(execution: Execution, pointer: Value) -> list[tuple[Region | None, Offsets, Lanes | None]]:
    """Split a block of pointers by region: (region or None if there is none, offsets, which lanes or None for all)."""
    base = pointer.base
    if isinstance(base, Region):
        return [(base, pointer.data, None)]
    if isinstance(base, Mixed):
        found: list[tuple[Region | None, Offsets, Lanes | None]] = []
        for number, region in enumerate(base.regions):
            lanes = base.selector == number
            if not lanes.any():
                continue
            if region is None:
                for inner, offsets, these in _by_address(execution, pointer.data, lanes):
                    found.append((inner, offsets, these))
            else:
                found.append((region, pointer.data, lanes))
        return found
    return _by_address(execution, pointer.data, None)


def _by_address(
    execution: Execution, data: Offsets, lanes: Lanes | None
) -> list[tuple[Region | None, Offsets, Lanes | None]]:
    distinct, inverse = np.unique(data >> 6, return_inverse=True)
    inverse = inverse.reshape(data.shape)
    by_region: dict[int, tuple[Region | None, list[int]]] = {}
    for number, line in enumerate(distinct):
        region = execution.resolve(int(line) << 6) or execution.resolve((int(line) << 6) + 63)
        by_region.setdefault(id(region), (region, []))[1].append(number)
    found: list[tuple[Region | None, Offsets, Lanes | None]] = []
    for region, numbers in by_region.values():
        these = np.isin(inverse, numbers)
        if lanes is not None:
            these = these & lanes
        found.append((region, data - (0 if region is None else region.storage.address), these))
    return found


def load(
    execution: Execution, pointer: Value, mask: Value | None, other: Value | None, order: Order | None = None
) -> Value:
    """Return what ``pointer`` points at; lanes that ``mask`` turns off get ``other``, or zero.

    ``order``: what an atomic or volatile load orders, None for a plain one.
    """
    element = _element(pointer)
    execution.touch()
    execution.saw(pointer.shape)
    if execution.counter is not None and order is None:
        execution.counter.add(execution, mask, pointer.shape, element.bytes, stored=False)
    pieces = parts(execution, pointer)
    enabled = execution.active(mask, pointer.data.shape)
    if len(pieces) == 1 and pieces[0][2] is None:
        region, offsets, _ = pieces[0]
        if enabled is not None and np.logical_and.reduce(enabled, axis=None):
            enabled = mask = None
        bits = _read(execution, region, offsets, enabled, element, order)
    else:
        shape = common(pointer.data.shape, () if enabled is None else enabled.shape)
        bits = np.zeros(shape, element.stored)
        for region, offsets, lanes in pieces:
            assert lanes is not None
            active = lanes if enabled is None else lanes & enabled
            these = None if active.all() else active
            bits = np.where(active, _read(execution, region, offsets, these, element, order), bits)
    data = from_bits(bits, element)
    if mask is not None:
        instead: Data | int = 0
        if other is not None:
            instead = addresses(other) if isinstance(element, Pointer) else other.data
        data = np.where(mask.data, data, instead).astype(element.held, copy=False)
    return Value(data, element, pointer.shape)


def store(execution: Execution, pointer: Value, value: Value, mask: Value | None, order: Order | None = None) -> None:
    """Write ``value`` where ``pointer`` points, in the lanes that ``mask`` leaves on.

    ``order``: what an atomic store orders, None for a plain one.
    """
    element = _element(pointer)
    execution.touch()
    execution.saw(pointer.shape)
    if execution.counter is not None and order is None:
        execution.counter.add(execution, mask, pointer.shape, element.bytes, stored=True)
    bits = to_bits(value, element)
    enabled = execution.active(mask, pointer.data.shape, bits.shape)
    for region, offsets, lanes in parts(execution, pointer):
        active = lanes if enabled is None else enabled if lanes is None else lanes & enabled
        if active is not None:
            if active.all():
                active = None
            elif not active.any():
                continue
        checked = check(execution, region, offsets, active, element.bytes, "store")
        if execution.races is not None:
            execution.races.store(checked, offsets, active, bits, element.bytes, order)
        shape = common(offsets.shape, bits.shape, () if active is None else active.shape)
        index = _spread(offsets >> _SHIFT[element.bytes], shape)
        values = _spread(bits, shape)
        if active is None:
            write(execution, checked, index.reshape(-1), values.reshape(-1), element)
        else:
            on = _spread(active, shape)
            write(execution, checked, index[on], values[on], element)


def _spread(data: Data, shape: tuple[int, ...]) -> Data:
    """Return ``data`` broadcast to ``shape``; numpy takes as long for one that has it already."""
    return data if data.shape == shape else np.broadcast_to(data, shape)


def write(execution: Execution, region: Region, index: Offsets, bits: Data, element: Element) -> None:
    """Write checked elements and mark them as written."""
    storage = region.storage
    place = place_of(index)
    execution.write(storage.typed(element.stored), place, bits)
    if storage.written is not None:
        size = element.bytes
        execution.mark(storage.written.typed(size), place, Written.mark(size))


def check(
    execution: Execution, region: Region | None, offsets: Offsets, active: Lanes | None, size: int, access: str
) -> Region:
    """Return ``region`` if the access is legal; raise OutOfBounds, Misaligned or WriteToInput if it is not."""
    if region is None:
        bad = np.ones(offsets.shape, np.bool_) if active is None else active
        detail = f"address {_first(bad, offsets):#x} belongs to no tensor"
        raise execution.at_lanes(OutOfBounds, f"out of bounds {access}", bad, offsets, None, detail)
    outside = region.view.outside(offsets, size)
    if outside is not None:
        bad = outside if active is None else outside & active
        if bad.any():
            past = region.view.past(_first(bad, offsets))
            detail = f"{past} bytes past it, before the next element: the strides leave a gap" if past else ""
            raise execution.at_lanes(OutOfBounds, f"out of bounds {access}", _lanes(bad), offsets, region, detail)
    if size > 1 and int(np.bitwise_or.reduce(offsets, axis=None)) & (size - 1):
        bad = (offsets & (size - 1)) != 0
        if active is not None:
            bad = bad & active
        if bad.any():
            detail = f"an access of {size} bytes"
            raise execution.at_lanes(Misaligned, f"misaligned {access}", _lanes(bad), offsets, region, detail)
    if access != "load":
        _check_protection(execution, region, offsets, active, size, access)
    return region


def _first(bad: Lanes, offsets: Offsets) -> int:
    """Return the offset of the first of the ``bad`` lanes, in the order of the grid."""
    return int(np.broadcast_to(offsets, bad.shape)[np.unravel_index(int(np.argmax(bad)), bad.shape)])


def _check_protection(
    execution: Execution, region: Region, offsets: Offsets, active: Lanes | None, size: int, access: str
) -> None:
    for name, view in region.storage.protected:
        touched = view.contains_any(offsets, size)
        if touched is None:
            continue
        bad = touched if active is None else touched & active
        if bad.any():
            detail = "" if name == region.name else f"it is part of the input {name}"
            what = f"{access} to the input {name}"
            raise execution.at_lanes(WriteToInput, what, _lanes(bad), offsets, region, detail)


def _read(
    execution: Execution,
    region: Region | None,
    offsets: Offsets,
    active: Lanes | None,
    element: Element,
    order: Order | None,
) -> Data:
    if active is not None and not active.any():
        return np.zeros((1,) * offsets.ndim, element.stored)
    size = element.bytes
    if active is not None:
        offsets = np.where(active, offsets, 0 if region is None else region.view.start)
    region = check(execution, region, offsets, active, size, "load")
    if execution.races is not None:
        execution.races.load(region, offsets, active, size, order)
    flat = region.storage.typed(element.stored)
    if flat.size == 0:
        return np.zeros(offsets.shape, element.stored)
    index = offsets >> _SHIFT[size] if size > 1 else offsets
    # "clip" concerns only lanes that are off: the others are inside
    bits: Data = flat.take(index, mode="clip")
    written = region.storage.written
    if written is not None:
        bad = written.typed(size).take(index, mode="clip") != Written.mark(size)
        if active is not None:
            bad &= active
        if bad.any():
            if execution.unwritten_reads == "fault":
                raise execution.at_lanes(UnwrittenRead, "unwritten bytes read", _lanes(bad), offsets, region)
            execution.suspect(bad, offsets, region)
    return bits


def _lanes(bad: Lanes) -> Lanes:
    return bad if bad.ndim >= LEAD else bad.reshape((1,) * (LEAD - bad.ndim) + bad.shape)


def _element(pointer: Value) -> Element:
    assert isinstance(pointer.type, Pointer), "only pointers can be dereferenced"
    return pointer.type.element


def from_bits(bits: Data, element: Element) -> Data:
    """Return elements as they lie in memory, as held values."""
    if isinstance(element, Scalar):
        if element.narrow:
            decoded: Data = numerics.decode(bits, element.name)
            return decoded
        if element.bits == 1:
            return np.not_equal(bits, 0)
    return bits


def to_bits(value: Value, element: Element) -> Data:
    """Return held values as the elements that go to memory."""
    if isinstance(element, Pointer):
        return addresses(value)
    if element.narrow:
        return numerics.pack(value.data, element.name)
    return value.data.astype(element.stored, copy=False)
