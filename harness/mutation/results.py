"""What became of each mutant, as data: written by one machine, merged by another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.discover import SetupError
from harness.mutation.source import mark

#: The lanes that can kill, cheapest first.
LANES = ("virtual GPU", "compile", "device")


class Status(StrEnum):
    """What became of a mutant.

    KILLED: a check failed that passes on the original.  CRASH and TIMEOUT: its process died, or it ran many times
    longer than the original; both count as kills.  INVALID: Triton's compiler refuses it, or its module does not
    import; EQUIVALENT: proved to be the same program; neither counts at all.  SKIPPED: there was no time for it.
    """

    KILLED = "KILLED"
    CRASH = "CRASH"
    TIMEOUT = "TIMEOUT"
    SURVIVED = "SURVIVED"
    EQUIVALENT = "EQUIVALENT"
    INVALID = "INVALID"
    SKIPPED = "SKIPPED"

    @property
    def killed(self) -> bool:
        """Whether the mutant was noticed."""
        return self in (Status.KILLED, Status.CRASH, Status.TIMEOUT)

    @property
    def counted(self) -> bool:
        """Whether the mutant is in the denominator of a kill rate."""
        return self.killed or self is Status.SURVIVED


@dataclass(frozen=True, kw_only=True)
class Result:
    """One mutant and what became of it.

    ``kernel`` is the row of the table; ``check`` what killed it in ``lane``, on ``case``.  ``units`` counts the
    (implementation, case) pairs that ran, ``seconds`` is all time spent on it, ``cpu`` that of a processor.  ``reason``
    says why a mutant is equivalent, invalid or, where somebody argued it, cannot be killed; ``nearest`` is the smallest
    case on which a survivor changes a bit of an output.
    """

    key: str
    kernel: str
    file: str
    line: int
    operator: str
    function: str
    before: str
    after: str
    diff: str
    status: Status
    lane: str = ""
    check: str = ""
    case: str = ""
    message: str = ""
    reason: str = ""
    nearest: str = ""
    units: int = 0
    seconds: float = 0.0
    cpu: float = 0.0

    @property
    def mark(self) -> str:
        """The ``mark`` of the mutant."""
        return mark(self.file, self.function, self.operator, self.before, self.after)

    @property
    def change(self) -> tuple[str, str]:
        """The lines that the mutant takes away and those that it puts there, white space aside."""
        lines = self.diff.splitlines()[2:]
        old, new = ([line[1:] for line in lines if line.startswith(sign)] for sign in "-+")
        return " ".join(" ".join(old).split()), " ".join(" ".join(new).split())

    @property
    def argued(self) -> bool:
        """Whether this is a survivor of which somebody says that nothing can tell it from the original."""
        return self.status is Status.SURVIVED and bool(self.reason)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Result:
        """Return what ``to_dict`` wrote; raises TypeError or ValueError for anything else."""
        return cls(**{**plain, "status": Status(plain["status"])})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Told:
    """What killed a mutant in an earlier run, in the words of its result."""

    check: str = ""
    case: str = ""


NOTHING_TOLD = Told()


def write(path: Path, results: Iterable[Result]) -> None:
    """Write one JSON object a line."""
    path.write_text("".join(json.dumps(result.to_dict()) + "\n" for result in results))


def read(path: Path) -> list[Result]:
    """Return what ``write`` wrote; raises SetupError naming the file and the line."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(Result.from_dict(json.loads(line)))
        except (ValueError, TypeError, KeyError) as error:
            raise SetupError(f"{path}:{number}: not a result of mutate: {error}") from error
    return found


def merged(parts: Iterable[Sequence[Result]]) -> list[Result]:
    """Return the results of all ``parts``, each mutant of a kernel once; one that ran replaces one that did not."""
    found: dict[tuple[str, str], Result] = {}
    for part in parts:
        for result in part:
            name = (result.kernel, result.key)
            if name not in found or found[name].status is Status.SKIPPED:
                found[name] = result
    return list(found.values())
