"""Failures that are known, owned by an issue, and reported as soon as they are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

_MET, _OVER = "known: ", " is over: every case that it matches passes"


@dataclass(frozen=True, kw_only=True)
class Known:
    """Cases on which ``check`` is known to fail.

    ``tolerated``: the case still runs; a matching failure does not count, and a run in which every
    matching case passed is STALE, which fails.  ``quarantine``: matching cases do not run at all (for
    hangs and crashes).  ``check`` is an id or a pattern of ids (``"oracle:*"``); a pattern that begins
    with ``"rejects:"`` is about illegal calls, for which ``match`` is not asked.  ``issue`` is required: ``"#41"`` or a
    URL; ValueError without.
    """

    match: Callable[[Any], bool]
    issue: str
    check: str = "*"
    kind: Literal["tolerated", "quarantine"] = "tolerated"

    def __post_init__(self) -> None:
        if not self.issue.strip():
            raise ValueError("a known failure needs an issue reference, such as '#41'")


class Ledger:
    """The known failures of one implementation during one run, and what became of them."""

    def __init__(self, known: tuple[Known, ...]) -> None:
        self._known = known
        self._hits: dict[int, list[bool]] = {}
        #: Check -> issues under which a failure of it was tolerated.
        self.tolerated: dict[str, set[str]] = {}

    def quarantines(self, case: Any) -> bool:
        """Whether ``case`` must not run."""
        return any(known.kind == "quarantine" and known.match(case) for known in self._known)

    def tolerates(self, check: str, case: Any) -> bool:
        """Whether a failure of ``check`` on ``case`` does not count."""
        return any(fnmatchcase(check, known.check) for _, known in self._about(case))

    def tolerates_illegal(self, check: str) -> bool:
        """Whether a failure of ``check``, which is about illegal calls, does not count."""
        return any(fnmatchcase(check, known.check) for _, known in self._about_illegal())

    def note(self, case: Any, failed: Iterable[str]) -> None:
        """Record which checks failed on a case that ran through all of them."""
        self._note(self._about(case), set(failed))

    def note_alone(self, case: Any, check: str, *, failed: bool) -> None:
        """Record whether ``check`` failed on a case that ran through no other: passing says nothing about others."""
        concerned = [(index, known) for index, known in self._about(case) if failed or known.check == check]
        self._note(concerned, {check} if failed else set())

    def note_illegal(self, failed: Iterable[str]) -> None:
        """Record which of the checks on illegal calls failed, once all of them have run."""
        self._note(self._about_illegal(), set(failed))

    def stale(self) -> list[Known]:
        """Return the tolerated failures of which every matching case passed; those no case matched say nothing."""
        return [self._known[index] for index, hits in sorted(self._hits.items()) if not any(hits)]

    def _note(self, concerned: list[tuple[int, Known]], failed: set[str]) -> None:
        for index, known in concerned:
            matching = [check for check in failed if fnmatchcase(check, known.check)]
            self._hits.setdefault(index, []).append(bool(matching))
            for check in matching:
                self.tolerated.setdefault(check, set()).add(known.issue)

    def _about(self, case: Any) -> list[tuple[int, Known]]:
        return [(index, known) for index, known in self._tolerated(illegal=False) if known.match(case)]

    def _about_illegal(self) -> list[tuple[int, Known]]:
        return self._tolerated(illegal=True)

    def _tolerated(self, *, illegal: bool) -> list[tuple[int, Known]]:
        return [
            (index, known)
            for index, known in enumerate(self._known)
            if known.kind == "tolerated" and known.check.startswith("rejects:") == illegal
        ]


def note_met(found: Iterable[str]) -> str:
    """Return the note of a check that failed as the issues ``found`` say."""
    return f"{_MET}{', '.join(sorted(found))}"


def note_over(issue: str) -> str:
    """Return the note of a known failure that did not come true."""
    return f"{issue}{_OVER}"


def issues(note: str) -> frozenset[str]:
    """Return the issues that a note of ``note_met`` or ``note_over`` names."""
    return frozenset(note.removeprefix(_MET).removesuffix(_OVER).split(", "))
