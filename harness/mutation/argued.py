"""Survivors of which somebody argues that nothing can tell them from the original; they stay in the denominator."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.discover import SetupError
from harness.mutation.results import Result, Status
from harness.mutation.source import one_line

_KEYS = {"file", "function", "before", "after", "reason"}


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One mutant: ``before`` and ``after`` are the lines of its diff.  Lines move, so their numbers are not named."""

    file: str
    function: str
    before: str
    after: str
    reason: str

    def is_about(self, result: Result) -> bool:
        """Whether this argues about ``result``."""
        same = (self.file, self.function) == (result.file, result.function)
        return same and (one_line(self.before), one_line(self.after)) == result.change


def read(path: Path) -> list[Argument]:
    """Return the arguments in a TOML file of ``[[equivalent]]`` tables; an absent file has none.

    Raises SetupError for a file that does not parse, an unknown key or a missing one.
    """
    if not path.is_file():
        return []
    try:
        tables = tomllib.loads(path.read_text()).get("equivalent", [])
    except tomllib.TOMLDecodeError as error:
        raise SetupError(f"{path}: {error}") from error
    found = []
    for number, table in enumerate(tables, start=1):
        if set(table) != _KEYS or not str(table["reason"]).strip():
            raise SetupError(f"{path}: entry {number}: wanted {sorted(_KEYS)}, got {sorted(table)}")
        found.append(Argument(**table))
    return found


def explained(results: Iterable[Result], arguments: Sequence[Argument]) -> list[Result]:
    """Return ``results`` with the reason of each survivor that is argued about."""
    found = []
    for result in results:
        about = next((a for a in arguments if result.status is Status.SURVIVED and a.is_about(result)), None)
        found.append(result if about is None else replace(result, reason=about.reason))
    return found


def stale(results: Iterable[Result], arguments: Sequence[Argument]) -> list[Argument]:
    """Return the arguments whose mutants all ran and were killed: what they say is wrong."""
    ran = [result for result in results if result.status is not Status.SKIPPED]
    about = [(argument, [result for result in ran if argument.is_about(result)]) for argument in arguments]
    return [argument for argument, found in about if found and all(result.status.killed for result in found)]
