"""What to say of a survivor that changes no bit of an output: whether what it changes ran at all, and where first."""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

from harness.mutation.plan import Unit, label

#: Seconds of a processor for the search of a case in which a changed line of host code runs.
LINE_SECONDS = 5.0


def launched(found: Sequence[tuple[Unit, frozenset[str]]], changed: frozenset[str]) -> str:
    """Return in how many units of ``found`` a kernel of ``changed`` is launched, and the shortest of these."""
    launching = [unit for unit, names in found if not names.isdisjoint(changed)]
    if not launching:
        return f"no unit launches it, of {len(found)} that ran"
    shortest = min(launching, key=_length)
    return (
        f"changes no bit of an output in {len(found)} units, {len(launching)} of which launch it; "
        f"the shortest: {label(shortest)}"
    )


def lines(original: str, mutated: str) -> frozenset[int]:
    """Return the numbers of the lines of ``original`` that are others, or none, in ``mutated``."""
    matcher = difflib.SequenceMatcher(None, original.splitlines(), mutated.splitlines(), autojunk=False)
    return frozenset(1 + n for what, a, b, _, _ in matcher.get_opcodes() if what != "equal" for n in range(a, b))


def ran(units: Iterable[Unit], path: str, changed: frozenset[int], run: Callable[[Unit], object]) -> str:
    """Return the shortest of ``units`` in which one of the lines ``changed`` of the file ``path`` runs.

    ``run`` runs a unit of the original.
    """
    ordered = sorted(units, key=_length)
    until = time.process_time() + LINE_SECONDS
    for number, unit in enumerate(ordered):
        if time.process_time() > until:
            return f"changes no bit of an output; its lines run in none of the {number} shortest units"
        if _runs(path, changed, lambda unit=unit: run(unit)):  # type: ignore[misc]
            return f"changes no bit of an output in {len(ordered)} units; the shortest that runs it: {label(unit)}"
    return f"its lines run in none of {len(ordered)} units"


def _length(unit: Unit) -> tuple[int, int]:
    return len(unit.name), unit.number


def _runs(path: str, changed: frozenset[int], call: Callable[[], object]) -> bool:
    """Whether one of the lines runs in a call."""
    seen: set[int] = set()

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and frame.f_lineno in changed:
            seen.add(frame.f_lineno)
        return line

    def entered(frame: FrameType, event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename == path else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        call()
    finally:
        sys.settrace(before)
    return bool(seen)
