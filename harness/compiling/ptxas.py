"""What ``ptxas -v`` says about a kernel, and what it says when it refuses one."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers([^\n]*)")
_BARRIERS = re.compile(r"used (\d+) barriers")
_STATIC_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")


@dataclass(frozen=True, kw_only=True)
class PtxasInfo:
    """Registers a thread; bytes of stack, of spill stores and of spill loads a thread; bytes of static shared memory.

    The spills are those of the kernel and of the functions that it calls, together.
    """

    registers: int
    barriers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared_static: int


def parse(log: str) -> PtxasInfo:
    """Read the log of one kernel; raises ValueError where it says nothing about registers."""
    used = list(_USED.finditer(log))
    if not used:
        raise ValueError(f"ptxas -v: no 'Used N registers' in {len(log)} characters of its log")
    functions = [tuple(map(int, found.groups())) for found in _SPILLS.finditer(log)]
    rest = used[-1][2]
    barriers, shared = _BARRIERS.search(rest), _STATIC_SHARED.search(rest)
    return PtxasInfo(
        registers=max(int(found[1]) for found in used),
        barriers=int(barriers[1]) if barriers else 0,
        stack=max((stack for stack, _, _ in functions), default=0),
        spill_stores=sum(stores for _, stores, _ in functions),
        spill_loads=sum(loads for _, _, loads in functions),
        shared_static=int(shared[1]) if shared else 0,
    )
