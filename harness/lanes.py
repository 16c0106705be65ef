"""Where a launch runs: a lane executes one launch and reports what it saw, never letting an exception out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch

from harness.arguments import tensors
from harness.contract import Contract, Inputs, Interleavings, Launched
from harness.poison import QUIET, Pattern

if TYPE_CHECKING:
    from harness.compiling.acceptance import Acceptance, Refusal
    from harness.traffic.record import Moved, Record
    from harness.vgpu import VirtualGPU


class ContextLost(Exception):
    """The process cannot use its device any more: what a launch did there cannot be undone."""


class NoRoom(Exception):
    """A case needs more memory of the device than it may have; the message says how much of each."""


class Busy(Exception):
    """Others held memory of the device for too long: a fault of the run, which says nothing about the device."""


class Unwritten(Protocol):
    """How much of a tensor was never written."""

    @property
    def count(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def first_index(self) -> tuple[int, ...]: ...


def _all_written(tensor: torch.Tensor) -> Unwritten | None:
    return None


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One launch as its lane saw it.

    ``error`` is the exception that ended it, if one did; ``unsupported`` the operation, if the lane cannot model one;
    ``fault`` whether ``error`` is a kernel fault.  ``kernels`` counts kernel launches, ``configs`` the autotune
    configurations to choose from and ``config`` describes the chosen one.  ``suspects`` are reads of memory that
    nobody wrote.  ``launched`` are the launches, None where the lane does not see them; ``refusals`` those that Triton
    does not compile, None where it was not asked; ``moved`` what the launches move, None where it was not counted.
    ``stray`` are kernels that were launched while the device of the tensors was not current, None where the lane does
    not see that; ``forms`` is whether a kernel may have a form of its own for the target, which did not run.
    """

    result: Any = None
    error: Exception | SystemExit | None = None
    fault: bool = False
    unsupported: str | None = None
    kernels: int = 0
    configs: int = 1
    config: str = ""
    suspects: tuple[str, ...] = ()
    untrusted: frozenset[str] = frozenset()
    unwritten: Callable[[torch.Tensor], Unwritten | None] = field(default=_all_written, repr=False)
    launched: tuple[Launched, ...] | None = None
    refusals: tuple[Refusal, ...] | None = None
    moved: Moved | None = None
    stray: tuple[str, ...] | None = None
    forms: bool = False


class Lane(Protocol):
    """``device`` is where inputs are built, ``oracle_device`` where oracles run; ``run`` launches once.

    A case is run inside ``room``, which may wait, or raise NoRoom, or Busy where it waited for nothing.
    """

    @property
    def device(self) -> torch.device: ...
    @property
    def oracle_device(self) -> torch.device: ...

    def room(self, contract: Contract[Any], case: Any) -> AbstractContextManager[None]: ...

    def run(self, launch: Callable[..., Any], inputs: Inputs, *, config: int = 0, fill: Pattern = QUIET) -> Execution:
        """Call ``launch(**inputs)`` with autotune configuration ``config``; new memory holds ``fill``.

        MemoryError and ContextLost are let out: nothing can be launched after them, or nothing more of this size.
        """


@dataclass(frozen=True)
class VirtualLane:
    """The virtual GPU with the numerics of one target profile.

    ``interleavings`` and ``seed``: let programs take turns, in an order of that number; otherwise they run in step.
    ``target``: the marker of the target that launch functions are told they launch for; empty: the one they choose.
    ``sample``: how many programs of each grid run, 0 for all.
    ``races``: look for accesses of different programs that nothing orders; "strict": also for two stores of one value.
    ``asks`` is asked whether Triton compiles what is launched.  ``counts``: count what launches move; ``record`` is
    what they are to move on cases that are in it.  ``native``: kernels take the forms that they have for the target,
    with assembly, where they have others too.
    """

    profile: str = "sm_120"
    interleavings: Interleavings | None = None
    seed: int = 0
    target: str = ""
    sample: int = 0
    races: bool | Literal["strict"] = False
    asks: Acceptance | None = field(default=None, repr=False, compare=False)
    counts: bool = False
    record: Record | None = field(default=None, repr=False, compare=False)
    native: bool = False

    def interleaved(self, interleavings: Interleavings, seed: int) -> VirtualLane:
        """Return the lane that lets programs take turns."""
        return replace(self, interleavings=interleavings, seed=seed)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def oracle_device(self) -> torch.device:
        return torch.device("cpu")

    def room(self, contract: Contract[Any], case: Any) -> AbstractContextManager[None]:
        """Memory that a case does not touch costs nothing here."""
        return nullcontext()

    def run(self, launch: Callable[..., Any], inputs: Inputs, *, config: int = 0, fill: Pattern = QUIET) -> Execution:
        """Call ``launch`` with every tensor among ``inputs`` protected from writes."""
        from harness.device.targets import TARGETS
        from harness.guards import Guards
        from harness.launch.current import pretending
        from harness.vgpu import Schedule, VirtualGPU
        from harness.vgpu.faults import KernelFault, UnsupportedOperation

        result, error = None, None
        stray: dict[str, None] = {}
        wanted = self.interleavings
        schedule = None
        if wanted is not None:
            schedule = Schedule(
                seed=self.seed,
                blocks_per_sm=wanted.blocks_per_sm,
                yield_at="memory" if wanted.everywhere else "atomics",
                launch_order="ascending" if self.seed == 0 else "shuffled",
            )

        def note(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not guards.inside:
                stray[kernel.__name__] = None
            if self.asks is not None:
                self.asks.note(kernel, args, kwargs)

        with (
            Guards() as guards,
            VirtualGPU(
                profile=self.profile,
                config=config,
                protect=tensors(inputs),
                # what is too large to be run whole is too large to be filled
                fill=None if self.sample else fill,
                schedule=schedule,
                allocator=True,
                races=self.races or (wanted is not None and wanted.races),
                on_launch=note,
                sample=self.sample,
                count=self.counts,
                native=self.native,
            ) as gpu,
        ):
            try:
                with pretending(TARGETS[self.target]) if self.target else nullcontext():
                    result = launch(**inputs)
            except (MemoryError, ContextLost):
                raise
            # sys.exit in a launch would end the search without a word
            except (Exception, SystemExit) as raised:
                error = raised
        return Execution(
            result=result,
            error=error,
            fault=isinstance(error, KernelFault),
            unsupported=error.operation if isinstance(error, UnsupportedOperation) else None,
            kernels=len(gpu.launches),
            configs=max(gpu.configs, 1),
            config=next((str(done.config) for done in gpu.launches if done.configs > 1), ""),
            suspects=tuple(str(suspect) for suspect in gpu.suspects),
            untrusted=frozenset(gpu.untrusted),
            unwritten=gpu.unwritten,
            launched=tuple(Launched(kernel=one.kernel, grid=one.grid, given=one.given) for one in gpu.launches),
            refusals=None if self.asks is None or (found := self.asks.refusals()) is None else tuple(found),
            moved=_moved(gpu) if self.counts else None,
            stray=tuple(stray),
            forms=gpu.forms and not self.native,
        )


def _moved(gpu: VirtualGPU) -> Moved:
    from harness.traffic.record import together

    return together((one.kernel, one.traffic) for one in gpu.launches if one.traffic is not None)
