"""Who touched an element last, and how: one packed number an element, a way of touching it, and a storage."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Thread + 1, step and site in one number: 23, 20 and 20 bits; 0 is nobody.
Entries = NDArray[np.int64]
Index = NDArray[np.int64]

_STEP_BITS = _SITE_BITS = 20
_LOW = (1 << 20) - 1
#: Programs that a grid may have: threads are twice as many.
MOST_PROGRAMS = (1 << 22) - 1
#: Bytes of a storage beyond which only those stretches of a table are copied in which something was touched: the rest
#: takes no memory before it is.
_LARGE, _STRETCH = 1 << 26, 1 << 16


def pack(thread: Index | int, step: int, site: int) -> Entries | int:
    """Return an entry; ``step`` and ``site`` are below 2**20."""
    return ((thread + 1) << (_STEP_BITS + _SITE_BITS)) | (step << _SITE_BITS) | site


def thread_of(entries: Entries) -> Index:
    """Return the threads, -1 for nobody."""
    return (entries >> (_STEP_BITS + _SITE_BITS)) - 1


def step_of(entries: Entries) -> Index:
    """Return the steps."""
    return (entries >> _SITE_BITS) & _LOW


def site_of(entry: int) -> int:
    """Return the number of the source line."""
    return entry & _LOW


class Journal:
    """Changes of cells that may have to be undone."""

    def __init__(self) -> None:
        self.active = False
        self._changes: list[tuple[Cells, str, int, Index, Entries]] = []

    def add(self, cells: Cells, way: str, index: Index, old: Entries) -> None:
        """Remember what was there before a change."""
        self._changes.append((cells, way, cells.granule, index, old))

    def undo(self) -> None:
        """Take every change back."""
        for cells, way, granule, index, old in reversed(self._changes):
            ratio = granule // cells.granule
            table = cells.table(way)
            for part in range(ratio):
                table[index * ratio + part] = old
        self._changes.clear()

    def keep(self) -> None:
        """Forget how to take changes back."""
        self._changes.clear()


class Cells:
    """The elements of one storage of ``nbytes`` bytes, ``granule`` bytes each."""

    def __init__(self, nbytes: int, granule: int, journal: Journal) -> None:
        self.granule = granule
        self._nbytes = nbytes
        self._journal = journal
        self._tables: dict[str, Entries] = {}
        #: Of a large storage: way -> which stretches were touched.
        self._touched: dict[str, NDArray[np.bool_]] = {}

    def refine(self, granule: int) -> None:
        """Make the elements smaller."""
        if granule < self.granule:
            ratio, before = self.granule // granule, self._tables
            self._tables, stretch, self.granule = {}, _STRETCH // self.granule, granule
            for way, table in before.items():
                if way not in self._touched:
                    self._tables[way] = np.repeat(table, ratio)
                    continue
                finer = self.table(way)
                for number in np.flatnonzero(self._touched[way]).tolist():
                    entries = np.repeat(table[number * stretch : (number + 1) * stretch], ratio)
                    place = number * stretch * ratio
                    finer[place : place + len(entries)] = entries[: len(finer) - place]

    def table(self, way: str) -> Entries:
        """Return the entries of one way of touching the elements."""
        found = self._tables.get(way)
        if found is None:
            # whole elements only: a last partial one cannot be accessed at this size
            found = self._tables[way] = np.zeros(-(-self._nbytes // self.granule), np.int64)
        return found

    def known(self, way: str) -> Entries | None:
        """Return the entries of one way, or None if nobody touched anything that way."""
        return self._tables.get(way)

    def set(self, way: str, index: Index, entries: Entries | int) -> None:
        """Change entries; of repeated elements the last one stays."""
        table = self.table(way)
        if self._journal.active:
            self._journal.add(self, way, index, table[index])
        table[index] = entries
        if self._nbytes > _LARGE:
            touched = self._touched.get(way)
            if touched is None:
                touched = self._touched[way] = np.zeros(-(-self._nbytes // _STRETCH), np.bool_)
            touched[index // (_STRETCH // self.granule)] = True

    def note(self, way: str, index: Index, entries: Entries | int, forget: NDArray[np.bool_] | None) -> None:
        """Record accesses of which several programs may make one to an element: the last, and one other.

        ``forget``: which of the entries so far need no place any more, because what comes later is later than both.
        """
        first, second = f"{way} 1", f"{way} 2"
        old = self.table(first)[index]
        self.set(first, index, entries)
        now = self.table(first)[index]
        moved = (old != 0) & (thread_of(old) >> 1 != thread_of(now) >> 1)
        if forget is not None:
            moved &= ~forget
        if moved.any():
            self.set(second, index[moved], old[moved])
        if not isinstance(entries, int):
            lost = now != entries
            if lost.any():
                self.set(second, index[lost], entries[lost])
