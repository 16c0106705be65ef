"""Accesses of different programs to one element that nothing orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.vgpu.cells import MOST_PROGRAMS, Cells, Entries, Index, Journal, pack, site_of, step_of, thread_of
from harness.vgpu.clocks import Clock, Order, Releases
from harness.vgpu.faults import Race
from harness.vgpu.programs import Programs
from harness.vgpu.storage import Region
from harness.vgpu.touches import Mask, Numbers, Site, Touch, differ, on, programs_of, shape_of
from harness.vgpu.values import LEAD, Data

if TYPE_CHECKING:
    from harness.vgpu.execution import Execution

#: What each way of touching an element must be ordered with.  "look" is an atomic access that changes nothing.
_CLASHES = {
    "load": ("store", "atomic 1", "atomic 2"),
    "store": ("store", "load 1", "load 2", "atomic 1", "atomic 2", "look 1", "look 2"),
    "atomic": ("store", "load 1", "load 2"),
    "look": ("store",),
}
_VERBS = {"load": "loads", "store": "stores", "atomic": "changes atomically", "look": "reads atomically"}


class Races:
    """The race detector of one launch.

    Two programs race for an element if both touch it, at least one of them stores to it or one of them changes it
    atomically and the other does not touch it atomically, and neither access happens before the other.  An acquire
    that reads what a release wrote, or what another atomic wrote on top of it, orders what came before the release
    before what comes after the acquire.  A release by a scalar atomic is made by one thread: block stores of its
    program come before it only if ``tl.debug_barrier`` is between.  Loads count as made by the time of a release.
    Two stores of the same value are no race unless ``strict``.

    Of many programs that read an element, or change it atomically, with nothing between to order them, two are
    remembered: those are enough for a race with any third program, and can miss one with the second of them.
    """

    def __init__(self, execution: Execution, *, strict: bool) -> None:
        nx, ny, nz = execution.grid
        if nx * ny * nz > MOST_PROGRAMS:
            raise ValueError(f"races: {nx * ny * nz} programs are more than the {MOST_PROGRAMS} that can be told apart")
        self._execution = execution
        self._strict = strict
        self._threads = 2 * nx * ny * nz
        self._cells: dict[int, Cells] = {}
        self._journal = Journal()
        self._releases = Releases()
        self._sites: dict[Site, int] = {}
        self._site_list: list[Site] = []
        self._clock: Clock | None = None
        self._numbers: Numbers = np.zeros((1, 1, 1), np.int64)

    # -- who runs

    def enter(self, programs: Programs, clock: Clock | None) -> Clock | None:
        """Make ``programs`` those that run; return the clock of a single one, ``clock`` if it has one already."""
        nx, ny, _ = self._execution.grid
        self._numbers = (programs.z.astype(np.int64) * ny + programs.y) * nx + programs.x
        self._journal.active = self._execution.journaling
        if programs.count > 1:
            self._clock = None
        else:
            self._clock = clock or Clock(int(self._numbers.reshape(-1)[0]))
        return self._clock

    def undo(self) -> None:
        """Take back what was recorded since the last ``keep``."""
        self._journal.undo()

    def keep(self) -> None:
        """Let what was recorded stand."""
        self._journal.keep()
        self._tidy()

    def barrier(self) -> None:
        """Order the stores of all threads of the running program before its next release."""
        if self._clock is not None:
            self._clock.barrier()

    # -- accesses

    def load(self, region: Region, offsets: Index, active: Mask | None, size: int, order: Order | None) -> None:
        """Check and record loads of ``size`` bytes at byte ``offsets``; plain ones have no ``order``."""
        shape = shape_of(self._numbers, offsets.shape, () if active is None else active.shape)
        touch = self._touch(region, offsets, active, size, shape)
        if touch is None:
            return
        self._record("load" if order is None else "look", touch, every_thread=False)
        if order is not None and order.acquire:
            self._acquire(touch)

    def store(
        self, region: Region, offsets: Index, active: Mask | None, bits: Data, size: int, order: Order | None
    ) -> None:
        """Check and record stores, before they happen, of the elements ``bits``."""
        shape = shape_of(self._numbers, offsets.shape, bits.shape, () if active is None else active.shape)
        touch = self._touch(region, offsets, active, size, shape)
        if touch is None:
            return
        block = int(np.prod(shape[LEAD:])) > 1
        if order is not None:
            self._record("atomic", touch, every_thread=False)
            self._release(touch, order, block)
            return
        values = np.repeat(on(bits, active, shape), size // touch.cells.granule)
        self._record("store", touch, every_thread=block, values=values)
        releases = touch.cells.known("release")
        # who acquires from here on does not read what was released
        if releases is not None and releases[touch.index].any():
            touch.cells.set("release", touch.index, 0)

    def atomic(
        self, region: Region, offsets: Index, lanes: Mask, changed: Mask, size: int, order: Order, block: bool
    ) -> None:
        """Check and record atomic operations in ``lanes``; ``changed``: which of these changed memory."""
        touch = self._touch(region, offsets, lanes, size, lanes.shape)
        if touch is None:
            return
        for way, these in (("atomic", changed), ("look", ~changed)):
            if these.any():
                self._record(way, touch.part(these), every_thread=False)
        if order.acquire:
            self._acquire(touch)
        # nobody can tell whether an atomic happened that changed nothing
        if changed.any():
            self._release(touch.part(changed), order, block)

    def _touch(
        self, region: Region, offsets: Index, active: Mask | None, size: int, shape: tuple[int, ...]
    ) -> Touch | None:
        where = on(offsets, active, shape)
        if where.size == 0:
            return None
        storage = region.storage
        cells = self._cells.get(storage.address)
        if cells is None:
            cells = self._cells[storage.address] = Cells(storage.nbytes, size, self._journal)
        cells.refine(size)
        programs = programs_of(self._numbers, active, shape)
        index = where // cells.granule
        parts = size // cells.granule
        if parts > 1:
            index = (index[:, None] + np.arange(parts)).reshape(-1)
            where = np.repeat(where, parts)
            programs = programs if isinstance(programs, int) else np.repeat(programs, parts)
        return Touch(region, cells, index, programs, where)

    # -- rules

    def _record(self, way: str, touch: Touch, *, every_thread: bool, values: Data | None = None) -> None:
        cells, index = touch.cells, touch.index
        for clash in _CLASHES[way]:
            table = cells.known(clash)
            if table is None:
                continue
            there = table[index]
            bad = self._unordered(there, touch.programs)
            if values is not None and clash == "store" and bad.any() and not self._strict:
                bad &= differ(touch.present(values.dtype), values)
            if bad.any():
                raise self._fault(way, touch, bad, there)
        step = 1 if self._clock is None else self._clock.now
        entries = pack(2 * touch.programs + every_thread, step, self._site(way))
        if values is None:
            forget = None
            if self._clock is not None:
                forget = ~self._unordered(cells.table(f"{way} 1")[index], touch.programs)
            cells.note(way, index, entries, forget)
            return
        cells.set("store", index, entries)
        if not isinstance(entries, int):
            self._within(touch, entries, values)

    def _unordered(self, entries: Entries, programs: Index | int) -> Mask:
        """Return which accesses were another program's and do not happen before what the running ones do now."""
        bad: Mask = entries != 0
        if not bad.any():
            return bad
        threads = thread_of(entries)
        bad &= (threads >> 1) != programs
        if self._clock is not None and self._clock.known is not None:
            bad &= self._clock.known[threads] < step_of(entries)
        return bad

    def _within(self, touch: Touch, entries: Entries, values: Data) -> None:
        """Check a store of several programs against itself."""
        stayed = touch.cells.table("store")[touch.index]
        bad = stayed != entries
        if not bad.any():
            return
        if not self._strict:
            order = np.argsort(touch.index, kind="stable")
            last = order[np.searchsorted(touch.index[order], touch.index, side="right") - 1]
            bad &= differ(values[last], values)
        if bad.any():
            raise self._fault("store", touch, bad, stayed)

    def _acquire(self, touch: Touch) -> None:
        table = touch.cells.known("release")
        if table is None or self._clock is None:
            return
        for number in np.unique(table[touch.index]):
            if number:
                self._clock.acquire(self._releases[int(number)])

    def _release(self, touch: Touch, order: Order, block: bool) -> None:
        if not order.release or self._clock is None:
            return
        before = touch.cells.table("release")[touch.index]
        left = self._clock.release(self._threads, block)
        after = np.full(before.shape, self._releases.add(left), np.int64)
        for number in np.unique(before):
            # what an acquire took in is part of the clock
            if number and not order.acquire:
                both = np.maximum(left, self._releases[int(number)])
                after[before == number] = self._releases.add(both)
        touch.cells.set("release", touch.index, after)
        if not self._journal.active:
            self._tidy()

    def _tidy(self) -> None:
        if self._releases.crowded:
            tables = (cells.known("release") for cells in self._cells.values())
            used = {int(number) for table in tables if table is not None for number in np.unique(table)}
            self._releases.forget_all_but(used)

    # -- messages

    def _site(self, way: str) -> int:
        site = Site(way, self._execution.location())
        number = self._sites.get(site)
        if number is None:
            number = self._sites[site] = len(self._site_list)
            self._site_list.append(site)
        return number

    def _place(self, number: int) -> tuple[int, int, int]:
        nx, ny, _ = self._execution.grid
        return number % nx, number // nx % ny, number // (nx * ny)

    def _fault(self, way: str, touch: Touch, bad: Mask, there: Entries) -> Race:
        lane = int(np.argmax(bad))
        entry = there[lane : lane + 1]
        thread = int(thread_of(entry)[0])
        site = self._site_list[site_of(int(entry[0]))]
        other = self._place(thread >> 1)
        programs = touch.programs
        mine = programs if isinstance(programs, int) else int(programs[lane])
        detail = f"it {_VERBS[way]} what program {other} {_VERBS[site.way]} at {site.location}"
        known = None if self._clock is None else self._clock.known
        if thread & 1 and known is not None and known[thread - 1] >= step_of(entry)[0]:
            detail += "; the scalar release after it orders that only if tl.debug_barrier() comes between"
        else:
            detail += "; nothing orders the two"
        view = touch.region.view
        fault = Race(
            "race between programs",
            location=self._execution.location(),
            kernel=self._execution.kernel,
            argument=touch.region.name,
            program=self._place(mine),
            index=view.index(int(touch.offsets[lane])),
            extent=view.shape,
            lanes=int(np.count_nonzero(bad & (programs == mine))),
            detail=detail,
        )
        fault.other_program, fault.other_location = other, site.location
        return fault
