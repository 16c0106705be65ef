"""State of one kernel launch: which programs run, what they changed, where they are in the source."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from harness.vgpu.clocks import RELAXED, Order
from harness.vgpu.faults import NOWHERE, Deadlock, HangDetected, KernelFault, Location, Suspect, UnsupportedOperation
from harness.vgpu.journal import MOST, Journal, Place
from harness.vgpu.limits import Limits
from harness.vgpu.profiles import Profile
from harness.vgpu.programs import Divergence, Grid, Programs, Where
from harness.vgpu.storage import Region
from harness.vgpu.turns import Activity, Interleave, Overflow, Sight
from harness.vgpu.values import LEAD, Value, common

if TYPE_CHECKING:
    from harness.vgpu.races import Races
    from harness.vgpu.scheduler import Scheduler
    from harness.vgpu.traffic import Counter

#: Elements above which computing them dominates the cost of an operation.
_COSTLY = 1 << 16

#: The name under which a rewritten kernel refers to its interpreter; it marks the kernel's stack frames.
MARKER = "__vgpu"


class Execution:
    """One launch.  The builder reads ``programs`` and ``profile`` and reports faults; memory keeps the journal here."""

    def __init__(
        self,
        kernel: str,
        grid: Grid,
        profile: Profile,
        *,
        limits: Limits,
        library: str,
        unwritten_reads: Literal["record", "fault"],
        resolve: Callable[[int], Region | None],
    ) -> None:
        self.kernel = kernel
        self.grid = grid
        self.profile = profile
        self.limits = limits
        self.unwritten_reads = unwritten_reads
        self.resolve = resolve
        self.programs: Programs = Programs.box(*(np.zeros(1, np.int32) for _ in range(3)))
        self.untrusted: set[str] = set()
        self.suspects: dict[tuple[str, str, int, str], Suspect] = {}
        #: Largest number of elements of any block seen.
        self.largest_block = 1
        #: Whether changes of memory are remembered for ``roll_back``: while sets of programs run in step.
        self.journaling = False
        #: Whether ``changes`` is kept: from the first ``while`` statement on.
        self.watched = False
        #: Counts operations that changed memory; a spinning loop is one that does not move it.
        self.changes = 0
        self.activity = Activity()
        #: Who decides about turns while programs take them; None while sets of programs run in step.
        self.turns: Scheduler | None = None
        #: Which of the programs run what is being run; None when all do.
        self.mask: Where | None = None
        #: Looks for races between programs; None when nobody asked for it.
        self.races: Races | None = None
        #: Counts what is moved; None when nobody asked for it.
        self.counter: Counter | None = None
        #: Whether programs take turns from their first atomic or volatile access on.
        self.interleaves = False
        #: How many programs the device holds at once.
        self.resident = 1 << 62
        #: What the last synchronising access saw, if that was a single element.
        self.seen: Sight | None = None
        self._journal = Journal()
        self._pending: list[Suspect] = []
        self.library = library

    # -- changes of memory

    def write(self, flat: NDArray[Any], place: Place, values: NDArray[Any]) -> None:
        """Set ``flat[place]``; of repeated elements the last one wins."""
        if self.journaling or self.watched:
            old = flat[place].copy() if isinstance(place, slice) else flat[place]
            if self.watched and old.tobytes() != values.tobytes():
                self.changes += 1
                self.activity.changes += 1
            if self.journaling:
                self._journal.add(flat, place, old)
                if self._journal.nbytes > MOST and self.programs.count > 1:
                    raise Overflow
        flat[place] = values

    def mark(self, flat: NDArray[Any], place: Place, value: int) -> None:
        """Set the written flags at ``place``."""
        if self.journaling:
            self._journal.add(flat, place, flat[place].copy() if isinstance(place, slice) else flat[place])
        flat[place] = value

    def commit(self) -> None:
        """Keep every change since the last commit, and the suspicious reads."""
        if self.races is not None:
            self.races.keep()
        if self.counter is not None:
            self.counter.keep()
        self._journal.clear()
        for suspect in self._pending:
            self.suspects.setdefault((suspect.kernel, suspect.file, suspect.line, suspect.argument), suspect)
        self._pending.clear()

    def roll_back(self) -> None:
        """Undo every change since the last commit."""
        if self.races is not None:
            self.races.undo()
        if self.counter is not None:
            self.counter.forget()
        self._journal.undo()
        self._pending.clear()

    # -- turns

    def enter(self, programs: Programs, activity: Activity) -> None:
        """Make ``programs`` those that run now."""
        self.programs = programs
        self.activity = activity
        self.mask = None
        if self.races is not None:
            activity.clock = self.races.enter(programs, activity.clock)

    def synchronise(self, order: Order = RELAXED) -> None:
        """Announce an access by which programs may wait for each other; others may run before it happens."""
        if self.turns is not None:
            self.turns.pause()
        elif self.journaling and (self.interleaves or (self.races is not None and order.synchronises)):
            raise Interleave
        self.activity.synchronised += 1

    def see(self, region: Region, offset: int, value: Any, changed: bool) -> None:
        """Note what a synchronising access to the element at ``offset`` found, for what a Deadlock says."""
        assert self.turns is not None
        self.seen = Sight(region, offset, value)
        if changed:
            self.turns.arrive(self.seen.key)

    def touch(self) -> None:
        """Announce any other access to memory."""
        if self.turns is not None and self.turns.everywhere:
            self.turns.pause()

    def in_vain(self, what: str, patience: int, synchronises: bool) -> None:
        """Let other programs run, as the one that runs found nothing changed; raises HangDetected if there are none.

        ``patience``: how often it may look again before that counts as a hang; ``synchronises``: whether it looked by
        an access that programs may wait with.
        """
        if self.turns is not None:
            self.turns.wait(patience, synchronises)
        elif self.journaling:
            raise Interleave
        else:
            fault = self.fault(Deadlock if synchronises else HangDetected, what, program=self.programs.at((0, 0, 0)))
            if isinstance(fault, Deadlock):
                fault.resident = fault.total = 1
            raise fault

    # -- where we are

    def location(self) -> Location:
        """Return the innermost line of user source that is being run."""
        return locate(sys._getframe(1), self.library)

    def fault(self, kind: type[KernelFault], what: str, **facts: Any) -> KernelFault:
        """Return a fault of ``kind`` at the current line."""
        return kind(what, location=self.location(), kernel=self.kernel, **facts)

    def unsupported(self, operation: str, detail: str = "") -> UnsupportedOperation:
        """Return the error for an operation that is not modelled, and remember that it was used."""
        self.untrusted.add(operation)
        return UnsupportedOperation(operation, location=self.location(), kernel=self.kernel, detail=detail)

    def at_lanes(
        self,
        kind: type[KernelFault],
        what: str,
        bad: NDArray[np.bool_],
        offsets: NDArray[np.int64],
        region: Region | None,
        detail: str = "",
    ) -> KernelFault:
        """Return a fault about the first of the ``bad`` lanes, counting those of the same program."""
        where = np.unravel_index(int(np.argmax(bad)), bad.shape)
        first = tuple(int(i) for i in where)
        offset = int(np.broadcast_to(offsets, bad.shape)[first])
        program = self._program(first[:LEAD], bad.shape[:LEAD])
        return self.fault(
            kind,
            what,
            argument=None if region is None else region.name,
            program=program,
            index=None if region is None else region.view.index(offset),
            extent=None if region is None else region.view.shape,
            lanes=int(bad[first[:LEAD]].sum()),
            detail=detail,
        )

    def suspect(self, bad: NDArray[np.bool_], offsets: NDArray[np.int64], region: Region) -> None:
        """Record a load of unwritten bytes; it counts once the pass that made it is committed."""
        first = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
        at = self.location()
        offset = int(np.broadcast_to(offsets, bad.shape)[first])
        program = self._program(first[:LEAD], bad.shape[:LEAD])
        index, extent = region.view.index(offset), region.view.shape
        self._pending.append(Suspect(self.kernel, at.file, at.line, region.name, program, index, extent))

    # -- agreement between programs

    def uniform(self, value: Value) -> Any:
        """Return the one Python value that ``value``, a scalar, has in all programs that run; else raise Divergence."""
        data = value.data
        if data.size == 1:
            return data.item()
        data = data.reshape(data.shape[:LEAD])
        if self.mask is None:
            first = data.reshape(-1)[0]
        else:
            mask = np.broadcast_to(self.mask, np.broadcast_shapes(self.mask.shape, data.shape))
            first = np.broadcast_to(data, mask.shape)[mask][0]
            data = np.where(mask, data, first)
        if not (data == first).all():
            raise Divergence(data)
        return first.item()

    def active(self, mask: Value | None, *shapes: tuple[int, ...]) -> NDArray[np.bool_] | None:
        """Return which lanes of an access are on: those of ``mask``, in programs that run; None for all.

        ``shapes``: those of the pointers and the values.  Along a grid axis on which all programs do the same, what
        one of them does stands for all.
        """
        own = None if mask is None else mask.data
        if self.mask is None:
            return own
        shape = common(*shapes, () if own is None else own.shape)
        running: Where = self.mask
        if self.races is None:
            alike = tuple(axis for axis in range(LEAD) if shape[axis] == 1)
            running = np.logical_or.reduce(running, axis=alike, keepdims=True)
        running = running.reshape(running.shape + (1,) * (len(shape) - LEAD))
        return running if own is None else own & running

    def settle(self) -> None:
        """Separate programs that run from those that do not, for an operation that knows no masks."""
        if self.mask is not None:
            raise Divergence(self.mask)

    def _program(self, first: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, int, int]:
        """Return the first program that runs at a place of the grid axes of ``shape``."""
        if self.mask is None:
            return self.programs.at(first)
        running = np.broadcast_to(self.mask, self.programs.lead)
        here = tuple(slice(i, i + 1) if n > 1 else slice(None) for i, n in zip(first, shape, strict=True))
        at = np.unravel_index(int(np.argmax(running[here])), running[here].shape)
        return self.programs.at(tuple(int(a) + (i if n > 1 else 0) for a, i, n in zip(at, first, shape, strict=True)))

    def lanes_of(self, value: Value) -> tuple[int, ...]:
        """Return the full shape of ``value`` over all programs."""
        return self.programs.lead + value.shape

    @property
    def costly(self) -> bool:
        """Whether the lanes of an operation cost more than calling it: then none should be wasted."""
        return self.programs.count * self.largest_block > _COSTLY

    def saw(self, shape: tuple[int, ...]) -> None:
        """Note the size of a block."""
        size = 1
        for n in shape:
            size *= n
        if size > self.largest_block:
            self.largest_block = size


def locate(frame: FrameType | None, library: str) -> Location:
    """Return the innermost rewritten line at or above ``frame`` whose file is not under ``library``."""
    fallback: Location | None = None
    while frame is not None:
        code = frame.f_code
        if MARKER in code.co_freevars and code.co_name != "<lambda>":
            here = Location(code.co_name, code.co_filename, frame.f_lineno)
            if not code.co_filename.startswith(library):
                return here
            fallback = fallback or here
        frame = frame.f_back
    return fallback or NOWHERE
