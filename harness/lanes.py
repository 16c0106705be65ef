"""Where a launch runs: a lane executes one launch and reports what it saw, never letting an exception out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from harness.arguments import tensors
from harness.contract import Inputs
from harness.poison import QUIET, Pattern


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
    nobody wrote.
    """

    result: Any = None
    error: Exception | None = None
    fault: bool = False
    unsupported: str | None = None
    kernels: int = 0
    configs: int = 1
    config: str = ""
    suspects: tuple[str, ...] = ()
    untrusted: frozenset[str] = frozenset()
    unwritten: Callable[[torch.Tensor], Unwritten | None] = field(default=_all_written, repr=False)


class Lane(Protocol):
    """``device`` is where inputs are built; ``run`` launches once."""

    @property
    def device(self) -> torch.device: ...

    def run(self, launch: Callable[..., Any], inputs: Inputs, *, config: int = 0, fill: Pattern = QUIET) -> Execution:
        """Call ``launch(**inputs)`` with autotune configuration ``config``; new memory holds ``fill``.

        MemoryError is let out: it says something about the machine, not about the launch.
        """


@dataclass(frozen=True)
class VirtualLane:
    """The virtual GPU with the numerics of one target profile."""

    profile: str = "sm_120"

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def run(self, launch: Callable[..., Any], inputs: Inputs, *, config: int = 0, fill: Pattern = QUIET) -> Execution:
        """Call ``launch`` with every tensor among ``inputs`` protected from writes."""
        from harness.vgpu import VirtualGPU
        from harness.vgpu.faults import KernelFault, UnsupportedOperation

        result, error = None, None
        with VirtualGPU(profile=self.profile, config=config, protect=tensors(inputs), fill=fill) as gpu:
            try:
                result = launch(**inputs)
            except MemoryError:
                raise
            except Exception as raised:
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
        )
