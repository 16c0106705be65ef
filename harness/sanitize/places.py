"""Which tensors live on the emulated device: a mark on each storage, shared by all its views."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import torch
from torch.multiprocessing import reductions

#: A reference to a storage that does not keep it alive; torch gives it no types.
StorageWeakRef: Any = reductions.StorageWeakRef

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)


class Place(Enum):
    """Where a storage is.

    ``EITHER`` is a tensor that torch made by itself, inside of an operation or of the backward pass, by the options
    of a tensor whose true device is always the CPU: it goes along with whatever it meets.
    """

    HOST = 0
    DEVICE = 1
    PINNED = 2
    EITHER = 3


class _Thread(threading.local):
    #: Whether this thread runs below the emulation, where tensors are what they really are.
    below = False
    #: Whether the program itself asked for the tensor that is being made, so that "cpu" means the CPU.
    explicit = False


_thread = _Thread()
_real_device: Any = torch._C.TensorBase.device.__get__
_storage: Any = torch._C.TensorBase.untyped_storage


def is_below() -> bool:
    """Whether this thread runs below the emulation."""
    return _thread.below


def is_explicit() -> bool:
    """Whether a device that is named now was named by the program."""
    return _thread.explicit


@contextmanager
def below(on: bool = True) -> Iterator[None]:
    """Show tensors as what they really are, CPU tensors, inside the block; with False, as emulated again."""
    old = _thread.below, _thread.explicit
    _thread.below, _thread.explicit = on, False
    try:
        yield
    finally:
        _thread.below, _thread.explicit = old


@contextmanager
def explicit() -> Iterator[None]:
    """Take devices that are named inside the block as the program's own words."""
    old, _thread.explicit = _thread.explicit, True
    try:
        yield
    finally:
        _thread.explicit = old


def real_device(tensor: torch.Tensor) -> torch.device:
    """Return the device that torch itself knows."""
    found: torch.device = _real_device(tensor)
    return found


class Places:
    """Marks of storages; what has no mark is on the host."""

    #: Expired marks are looked for when this many are kept, then at twice the number that is left.
    FIRST_SWEEP = 4096

    def __init__(self) -> None:
        self._marks: dict[int, tuple[Any, Place]] = {}
        self._sweep_at = self.FIRST_SWEEP

    def of(self, tensor: torch.Tensor) -> Place:
        """Return where ``tensor`` is; one without a storage of its own (sparse, a wrapper) counts as host memory."""
        try:
            # an address is not reused while a weak reference holds it
            found = self._marks.get(_storage(tensor)._cdata)
        except RuntimeError:
            return Place.HOST
        return Place.HOST if found is None else found[1]

    def mark(self, tensor: torch.Tensor, place: Place) -> None:
        """Say where the storage of ``tensor`` is."""
        try:
            storage = _storage(tensor)
        except RuntimeError:
            return
        key = storage._cdata
        if place is Place.HOST:
            self._marks.pop(key, None)
            return
        known = self._marks.get(key)
        if known is None or known[1] is not place:
            self._marks[key] = (StorageWeakRef(storage), place)
            if len(self._marks) >= self._sweep_at:
                self._sweep()

    def device(self, tensor: torch.Tensor) -> torch.device:
        """Return the device that the program is to see."""
        real = real_device(tensor)
        if _thread.below or real.type != "cpu":
            return real
        place = self.of(tensor)
        if place is Place.DEVICE or (place is Place.EITHER and torch._C._current_graph_task_id() != -1):
            return CUDA
        return real

    def allocated(self) -> int:
        """Return the bytes of all live storages on the emulated device."""
        self._sweep()
        total = 0
        for reference, place in list(self._marks.values()):
            if place is Place.DEVICE:
                storage = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
                total += 0 if storage is None else storage.nbytes()
        return total

    def _sweep(self) -> None:
        for key, (reference, _) in list(self._marks.items()):
            if reference.expired():
                self._marks.pop(key, None)
        self._sweep_at = max(self.FIRST_SWEEP, 2 * len(self._marks))


def device_of(named: Any) -> torch.device | None:
    """Return ``named`` (a device, its name or number) as a torch device, an emulated one with its number; or None.

    Raises RuntimeError for a CUDA device other than 0, as the driver would.
    """
    if named is None:
        return None
    found = torch.device("cuda", named) if isinstance(named, int) else torch.device(named)
    if found.type != "cuda":
        return found
    if found.index not in (None, 0):
        raise RuntimeError(f"CUDA error: invalid device ordinal: {found}, and the emulation has one device, cuda:0")
    return CUDA
