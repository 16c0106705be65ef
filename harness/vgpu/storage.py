"""Memory behind torch tensors: storages as numpy arrays, and regions, the parts that one argument may touch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness.vgpu.geometry import View


class _Window:
    """Hands numpy a piece of memory without a copy, whatever its size."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}


def typed(flat: NDArray[np.uint8], dtype: np.dtype[Any], cache: dict[np.dtype[Any], NDArray[Any]]) -> NDArray[Any]:
    """Return ``flat`` as elements of ``dtype``, a last partial element left out."""
    array = cache.get(dtype)
    if array is None:
        array = cache[dtype] = flat[: flat.size - flat.size % dtype.itemsize].view(dtype)
    return array


class Written:
    """Which bytes of a storage somebody wrote: one byte per byte, 0 or 1, committed by the system as it is touched."""

    def __init__(self, nbytes: int) -> None:
        self.flat = np.zeros(nbytes, np.uint8)
        self._typed: dict[np.dtype[Any], NDArray[Any]] = {}

    def typed(self, size: int) -> NDArray[Any]:
        """Return the flags of ``size``-byte elements as one integer each."""
        return typed(self.flat, np.dtype(f"u{size}"), self._typed)

    @staticmethod
    def mark(size: int) -> int:
        """Return the integer that says every one of ``size`` bytes was written."""
        return int.from_bytes(b"\x01" * size, "little")


class Storage:
    """One torch storage on the CPU.  ``written`` is None when everything counts as written."""

    def __init__(self, storage: torch.UntypedStorage, written: Written | None) -> None:
        self.keep = storage
        self.address = storage.data_ptr()
        self.nbytes = storage.nbytes()
        self.written = written
        #: (name, view) of the tensors in this storage that nobody may modify.
        self.protected: list[tuple[str, View]] = []
        self._typed: dict[np.dtype[Any], NDArray[Any]] = {}
        self.flat: NDArray[np.uint8]
        if self.nbytes:
            self.flat = np.asarray(_Window(self.address, self.nbytes))
        else:
            self.flat = np.empty(0, np.uint8)

    def typed(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the whole storage as elements of ``dtype``."""
        return typed(self.flat, dtype, self._typed)


class Region:
    """The part of a storage that one kernel argument may touch; ``name`` is the argument's."""

    def __init__(self, name: str, storage: Storage, view: View) -> None:
        self.name = name
        self.storage = storage
        self.view = view


def view_of(tensor: torch.Tensor) -> View:
    """Return where the elements of ``tensor`` lie in its storage."""
    size = tensor.element_size()
    return View(
        int(tensor.storage_offset()) * size,
        tuple(int(n) for n in tensor.shape),
        tuple(int(stride) * size for stride in tensor.stride()),
        size,
    )


def whole(name: str, storage: Storage) -> Region:
    """Return the region of all bytes of ``storage``."""
    return Region(name, storage, View(0, (storage.nbytes,), (1,), 1))
