"""What fails on the original, before a mutant is judged by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.mutation.judge import Judging, Trusted, place
from harness.mutation.plan import Unit


def ask_pinned(units: Sequence[Unit], baseline: Callable[[], Judging], ask: Callable[[Unit], object]) -> None:
    """Call ``ask`` with each pinned case whose values are wrong on the original, and illegal calls if it takes one."""
    for unit in units:
        if unit.deep or unit.target is not None or (unit.case is not None and not _is_pinned(unit)):
            continue
        if baseline().run([unit], Trusted(), lambda unit: None) is not None:
            ask(unit)


def judges(units: Sequence[Unit], trusted: Trusted, ask: Callable[[Unit], object]) -> bool:
    """Return whether a check of what a kernel does passes on the original; asks case after case until one does.

    ``ask`` makes ``trusted`` know a unit.  Without units there is nothing to fail.
    """
    values = [unit for unit in units if not (unit.case is None or unit.target or unit.deep)]
    for unit in values:
        ask(unit)
        # what a launch leaves behind is looked at even where it raises
        if trusted.green[place(unit)] - {"state"}:
            return True
    return not values


def _is_pinned(unit: Unit) -> bool:
    return unit.case in unit.contract.pinned
