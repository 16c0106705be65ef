"""What one compilation came to: how it ended, and what the kernel takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from harness.launch.residency import Resources

#: ``compiled``, ``refused`` (an exception out of the compiler), ``crashed`` (it took its process with it), or ``late``.
Ending = Literal["compiled", "refused", "crashed", "late"]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What one block of a compiled kernel takes, and what is in it.

    ``registers``, ``stack`` and the spills (bytes) are per thread; on AMD registers are VGPRs, and a spilled SGPR is
    in ``sgpr_spills`` only: it goes into a VGPR, not to memory.  ``shared`` is dynamic, ``shared_static`` comes on
    top.  ``instructions`` counts those of note, ``matrix`` the matrix instructions by opcode.  ``asked`` are the
    tensor-descriptor operations of the source, ``lowered`` those that no TMA instruction does.  ``overwritten`` counts
    the registers that are written while a wgmma may read them, ``outstanding`` the groups not waited for then.
    """

    registers: int
    shared: int
    shared_static: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    barriers: int = 0
    sgprs: int = 0
    sgpr_spills: int = 0
    num_warps: int = 4
    num_ctas: int = 1
    tensor_memory_columns: int = 0
    instructions: Mapping[str, int] = field(default_factory=dict)
    matrix: Mapping[str, int] = field(default_factory=dict)
    asked: tuple[str, ...] = ()
    lowered: tuple[str, ...] = ()
    overwritten: int = 0
    outstanding: int = 0

    @property
    def spilled(self) -> int:
        """Bytes a thread that are spilled, the larger of stores and loads."""
        return max(self.spill_stores, self.spill_loads)

    @property
    def resources(self) -> Resources:
        """The same for the residency rules."""
        return Resources(
            num_warps=self.num_warps,
            registers=self.registers,
            shared_dynamic=self.shared,
            shared_static=self.shared_static,
            barriers=self.barriers,
            sgprs=self.sgprs,
            tensor_memory_columns=self.tensor_memory_columns,
            cluster_size=self.num_ctas,
        )


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a compilation ended; ``figures`` only if it is ``compiled``, ``message`` (one line) only if not.

    ``seconds`` is wall time, ``cpu_seconds`` that of the compiler and the assembler together.  ``lent`` is the target
    whose PTX was assembled, where it was not lowered on its own.
    """

    ending: Ending
    figures: Figures | None = None
    message: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    lent: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Result:
        """Return the result that ``to_dict`` made ``values`` of; raises TypeError or KeyError for anything else."""
        figures = values["figures"]
        if figures is not None:
            lists = {name: tuple(figures[name]) for name in ("asked", "lowered")}
            figures = Figures(**{**figures, **lists})
        return cls(**{**values, "figures": figures})
