"""What memory held before sets of programs changed it, kept as small as it can be, to take the changes back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Which elements: a range, or their numbers.
Place = slice | NDArray[np.int64]

#: Elements below which a place or a content is kept as it is: looking for a shorter form costs more than it saves.
_WORTHWHILE = 1024
#: Bytes that may be kept: beyond, fewer programs run at once.
MOST = 512 << 20


def place_of(index: NDArray[np.int64]) -> Place:
    """Return ``index``, or the range of the elements if they lie one behind the other, in that order."""
    count = index.size
    if count < _WORTHWHILE:
        return index
    first = int(index[0])
    if int(index[-1]) - first != count - 1 or not np.array_equal(index, np.arange(first, first + count)):
        return index
    return slice(first, first + count)


class Journal:
    """Changes of memory in their order, with what was there before.  ``nbytes``: how much that takes."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._changes: list[tuple[NDArray[Any], Place, NDArray[Any]]] = []

    def add(self, flat: NDArray[Any], place: Place, old: NDArray[Any]) -> None:
        """Remember that ``flat[place]`` was ``old``, which is kept."""
        if old.size >= _WORTHWHILE:
            bits = old.view(f"u{old.itemsize}")
            # new memory holds one pattern, and flags are mostly all set or all clear
            if bits[0] == bits[-1] and (bits == bits[0]).all():
                old = old[:1].copy()
        self._changes.append((flat, place, old))
        self.nbytes += old.nbytes
        # the flags of elements are at the same place as the elements
        if not isinstance(place, slice) and (len(self._changes) < 2 or self._changes[-2][1] is not place):
            self.nbytes += place.nbytes

    def undo(self) -> None:
        """Take every change back."""
        for flat, place, old in reversed(self._changes):
            # of repeated elements the old values are all the same
            flat[place] = old
        self.clear()

    def clear(self) -> None:
        """Forget how to take changes back."""
        self._changes.clear()
        self.nbytes = 0
