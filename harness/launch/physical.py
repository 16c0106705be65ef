"""How many SMs (or CUs) the current context may use: asked of the driver, replaceable where there is none.

A green context or a MIG slice has its own number, which device properties do not show: inside a green context of 96 SMs
an H200 still reports 132. A source is therefore asked for the identity of what limits a device at this moment, and a
number is remembered for that identity only.
"""

from __future__ import annotations

import contextvars
import ctypes
import functools
import operator
import sys
import threading
import weakref
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from harness.launch.context import context_units

# CUDA driver API, CUdevice_attribute
_MULTIPROCESSOR_COUNT = 16


class NoDevice(RuntimeError):
    """There is no device whose SMs could be counted."""


class Physical(Protocol):
    """Answers about the devices of this process; every call is about the calling thread's current state.

    A source is known by its identity: what is remembered for one is not used for an equal one.
    """

    def current_device(self) -> int:
        """Return the index of the device that a launch without a device would use."""

    def context(self, device: int) -> Hashable:
        """Return what limits ``device`` now; two calls return equal values only if `count` would agree."""

    def count(self, device: int) -> int:
        """Return the SMs or CUs that a kernel launched on ``device`` now could occupy if nothing else ran."""


class DriverPhysical:
    """The devices that torch launches on.  Raises NoDevice where there are none."""

    def current_device(self) -> int:
        """Return torch's current device, without initialising CUDA: an untouched process launches on device 0."""
        torch = sys.modules.get("torch")
        return torch.cuda.current_device() if torch is not None and torch.cuda.is_initialized() else 0

    def context(self, device: int) -> Hashable:
        """Return the id of the current context if it is on ``device``: never reused, unlike its address."""
        return "device" if _is_rocm() else _Driver.open().context_id(device)

    def count(self, device: int) -> int:
        """Return the current context's SMs; the device's own where no context is current on it."""
        if _is_rocm():
            import torch

            # each partition (SPX, DPX, CPX) is a device with its own count
            return int(torch.cuda.get_device_properties(device).multi_processor_count)
        return _Driver.open().count(device)


class Described:
    """A device that is described instead of asked: number 0, with ``units`` SMs or CUs."""

    def __init__(self, units: int) -> None:
        self._units = units

    def current_device(self) -> int:
        """Return 0."""
        return 0

    def context(self, device: int) -> Hashable:
        """Return the one context there is."""
        return "device"

    def count(self, device: int) -> int:
        """Return the described number; raises NoDevice for another device."""
        if device:
            raise NoDevice(f"device {device}: only device 0 is described")
        return self._units


class _Driver:
    """The few calls of the CUDA driver that are needed."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NoDevice(f"no CUDA driver: {error}") from error
        if status := self._library.cuInit(0):
            raise NoDevice(f"cuInit returned {status}")

    @classmethod
    @functools.cache
    def open(cls) -> _Driver:
        """Load the driver once; a failure is not remembered."""
        return cls()

    def context_id(self, device: int) -> Hashable:
        context = self._current(device)
        # a driver without ids, older than CUDA 12, has no contexts of a part of the device either
        if context is None or not hasattr(self._library, "cuCtxGetId"):
            return "device"
        number = ctypes.c_ulonglong()
        self._call("cuCtxGetId", context, ctypes.byref(number))
        return number.value

    def count(self, device: int) -> int:
        units = context_units() if self._current(device) is not None else None
        if units is not None:
            return units
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), _MULTIPROCESSOR_COUNT, device)
        return value.value

    def _current(self, device: int) -> ctypes.c_void_p | None:
        """Return the calling thread's context, or None if it has none or one of another device."""
        context, owner = ctypes.c_void_p(), ctypes.c_int()
        self._call("cuCtxGetCurrent", ctypes.byref(context))
        if not context.value:
            return None
        self._call("cuCtxGetDevice", ctypes.byref(owner))
        return context if owner.value == device else None

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            raise NoDevice(f"{name} returned {status}")


def _is_rocm() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.version.hip is not None


_DRIVER: Physical = DriverPhysical()
_source: contextvars.ContextVar[Physical] = contextvars.ContextVar("physical", default=_DRIVER)
_counts: weakref.WeakKeyDictionary[Physical, dict[tuple[int, Hashable], int]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


@contextmanager
def physical_from(source: Physical) -> Iterator[Physical]:
    """Take SM counts from ``source`` inside the block, in this thread or task: a virtual GPU, a test's devices."""
    outer = _source.get()
    try:
        _source.set(source)
        yield source
    finally:
        _source.set(outer)


def source() -> Physical:
    """Return the source in force here."""
    return _source.get()


def physical_sms(device: int) -> int:
    """Return the SMs of the current context on device number ``device``; remembered by source, device and context."""
    asked = _source.get()
    key = (device, asked.context(device))
    with _lock:
        known = _counts.setdefault(asked, {})
        if key in known:
            return known[key]
    count = asked.count(device)
    with _lock:
        known[key] = count
    return count


def device_index(device: Any = None) -> int:
    """Return the number of ``device``: an int, ``"cuda:1"``, a ``torch.device``; what has no number is the current one.

    Raises TypeError for anything else, ValueError for a number below 0 or a text without one.
    """
    if isinstance(device, str):
        kind, colon, number = device.partition(":")
        if not kind.isalpha() or (colon and not number.isdecimal()):
            raise ValueError(f"device: want a form such as 'cuda' or 'cuda:1', got {device!r}")
        device = int(number) if colon else None
    elif hasattr(device, "index") and hasattr(device, "type"):
        device = device.index
    if device is None:
        return _source.get().current_device()
    if isinstance(device, bool):
        raise TypeError(f"device: want a device or its number, got {device!r}")
    try:
        index = operator.index(device)
    except TypeError:
        raise TypeError(f"device: want a device or its number, got {device!r}") from None
    if index < 0:
        raise ValueError(f"device: want a number >= 0, got {index}")
    return index
