"""Memory behind torch tensors: storages as numpy arrays, and regions, the parts that one argument may touch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness.vgpu.geometry import View, strided


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

    @property
    def complete(self) -> bool:
        """Whether somebody wrote every byte."""
        return bool(self.flat.view(np.bool_).all())

    def set(self, view: View, on: NDArray[np.bool_] | bool = True) -> None:
        """Say of every element of ``view``, or of each by ``on`` [*shape], whether somebody wrote it."""
        window, mark = self._window(view)
        if isinstance(on, bool):
            window[...] = mark if on else 0
        else:
            window[...] = np.multiply(on, mark, dtype=window.dtype)[..., None]

    def elements(self, view: View) -> NDArray[np.bool_]:
        """Return [*shape] which elements of ``view`` were written, whole."""
        window, mark = self._window(view)
        found: NDArray[np.bool_] = window[..., 0] == mark
        for unit in range(1, window.shape[-1]):
            found &= window[..., unit] == mark
        return found

    def _window(self, view: View) -> tuple[NDArray[Any], Any]:
        """Return the flags of each element of ``view`` in integers of up to 8 bytes, [*shape, integers], and a mark.

        One integer an element where there is one of that size: an axis over single bytes costs ten times as much.
        """
        size = math.gcd(view.itemsize, 8)
        flags = self.typed(size)
        units = View(
            view.start // size,
            view.shape,
            tuple(stride // size for stride in view.strides),
            view.itemsize // size,
        )
        return strided(flags, units), flags.dtype.type(self.mark(size))


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
