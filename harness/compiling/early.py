"""Kernels that may start while the launch before them still runs: on targets that have that, and not too early.

PTX ISA, griddepcontrol (sm_90 and later): ``launch_dependents`` lets the next launch start, ``wait`` waits for the
launches before.  A kernel that has one of them belongs to a row of such launches: what it reads before it waits may not
be written yet.
"""

from __future__ import annotations

import re

from harness.device.targets import Target

_CONTROL, _WAIT = "griddepcontrol.", "griddepcontrol.wait"
_SINCE = 90
_FUNCTION = re.compile(r"tt\.func \w+ @([\w.$\"-]+)\(")
_CALL = re.compile(r"tt\.call @([\w.$\"-]+)\(")
_TOUCH = re.compile(r"\btt\.(load|store|atomic_rmw|atomic_cas|descriptor_\w+|experimental_descriptor_\w+)\b")


def missing(ir: str, target: Target) -> bool:
    """Whether ``ir`` has griddepcontrol and ``target`` has not."""
    return _CONTROL in ir and not (target.vendor == "cuda" and int(target.arch.removeprefix("sm_")) >= _SINCE)


def touched(ir: str) -> str:
    """Return the first operation on memory that a kernel does before it waits, ``""`` if it waits first or need not.

    ``ir``: a module of Triton IR with one public function, which may call others.
    """
    if _CONTROL not in ir:
        return ""
    bodies: dict[str, list[str]] = {}
    kernel, body = "", []
    for line in ir.splitlines():
        if found := _FUNCTION.search(line):
            body = bodies.setdefault(found[1], [])
            kernel = found[1] if "tt.func public" in line else kernel
        else:
            body.append(line)
    return _first(kernel, bodies) or ""


def _first(name: str, bodies: dict[str, list[str]]) -> str | None:
    """Return the first operation of a function, ``""`` if it waits before one, None if it does neither."""
    for line in bodies.get(name, []):
        if _WAIT in line:
            return ""
        if call := _CALL.search(line):
            inner = _first(call[1], bodies)
            if inner is not None:
                return inner
        elif touch := _TOUCH.search(line):
            return f"tt.{touch[1]}"
    return None
