"""Running on one GPU what is launched for another: its configurations and its shared memory, on the hardware here.

``emulating("sm_120")`` lets launch functions choose what they would choose on sm_120 and refuses a kernel that asks,
compiled for it, for more shared memory than a block has there.  What runs is compiled for the GPU that is present, and
the number of SMs is its own: times say nothing, and instructions of the other target are not tried.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness.device.capabilities import TmaOperation, shared_memory_per_block, tma_form
from harness.device.targets import Capability, Target, target_of
from harness.hardware.launches import watching
from harness.launch.current import pretending

#: What a kernel may be written with: without these the present GPU cannot run it.  Not among them is what a compiler
#: chooses or lowers by itself: ways to multiply, tensor memory, scaled products.
_WRITTEN_WITH: tuple[Capability, ...] = ("clusters", "fp8_mma", "tf32_mma", "cooperative_launch")
# What a launch may ask for besides its arguments, and what a compiled kernel still knows.
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "debug", "launch_pdl", "enable_fp_fusion")
_SHARED: dict[tuple[str, str], int] = {}
# ptxas about an instruction that the target lacks, Triton's passes about one that they cannot lower for it
_REFUSAL = re.compile(r"Feature '[^']+' (?:requires \.target|not supported)[^\n]*")


class SharedMemoryExceeded(RuntimeError):
    """A kernel asks for more shared memory than a block of the emulated target has.

    ``kernel`` is its name, ``asked`` and ``limit`` are bytes.
    """

    def __init__(self, kernel: str, asked: int, limit: int, target: Target) -> None:
        excess = f"{asked - limit} more than the {limit} of a block on {target.arch}"
        super().__init__(f"{kernel}: {asked} bytes of shared memory, {excess}")
        self.kernel = kernel
        self.asked = asked
        self.limit = limit


class CannotEmulate(Exception):
    """The GPU that is here has no instruction for a form that the emulated target has."""


def lacking(present: Target, target: Target) -> list[str]:
    """Return what kernels for ``target`` may be written with and ``present`` does not have, by name; often nothing.

    TMA gather and scatter are not asked for: a form that uses them is passed over where it is compiled.
    """
    if present.vendor != target.vendor:
        return [f"{target.vendor} instructions"]
    short: list[str] = [name for name in _WRITTEN_WITH if name in target.capabilities - present.capabilities]
    operations: tuple[TmaOperation, ...] = ("load", "store")
    for operation in operations:
        if tma_form(target, operation) == "native" != tma_form(present, operation):
            short.append(f"TMA {operation}")
    return short


def shared_on(kernel: Any, target: Target) -> int:
    """Return the bytes of shared memory that ``kernel``, compiled for the GPU here, asks for compiled for ``target``.

    They differ: wgmma reads its operands from there, other products from registers.  A kernel without its source is
    taken as it is.
    """
    here = int(kernel.metadata.shared)
    source = getattr(kernel, "src", None)
    if source is None:
        return here
    key = (kernel.hash, target.arch)
    if key not in _SHARED:
        compiler = importlib.import_module("triton.compiler")
        options = {name: getattr(kernel.metadata, name) for name in _OPTIONS if hasattr(kernel.metadata, name)}
        named = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", int(target.arch[3:]), 32)
        _SHARED[key] = int(compiler.compile(source, target=named, options=options).metadata.shared)
    return _SHARED[key]


@contextmanager
def emulating(target: Target | str) -> Iterator[Target]:
    """Let launches in this thread or task be those for ``target``; launches of the process keep its shared memory.

    Inside, a launch raises SharedMemoryExceeded before it starts, and CannotEmulate where its kernel needs an
    instruction that the GPU here lacks.  Raises ValueError for an unknown name.
    """
    chosen = target_of(target) if isinstance(target, str) else target
    limit = shared_memory_per_block(chosen)

    def check(name: str, kernel: Any) -> None:
        asked = int(getattr(kernel.metadata, "shared", 0))
        if asked > limit and (asked := shared_on(kernel, chosen)) > limit:
            raise SharedMemoryExceeded(name, asked, limit, chosen)

    def refused(name: str, error: Exception) -> Exception | None:
        found = _REFUSAL.search(str(error))
        return None if found is None else CannotEmulate(f"needs {chosen.arch}, cannot compile {name} here: {found[0]}")

    with pretending(chosen), watching(before=check, refused=refused):
        yield chosen
