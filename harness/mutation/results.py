"""What became of each mutant, as data: written by one machine, merged by another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.discover import SetupError
from harness.mutation.source import mark

#: The lanes that can kill, in the order in which they are asked; the last differs from what is committed, and no more.
LANES = ("virtual GPU", "compile", "baseline")


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
    case on which a survivor changes a bit of an output.  ``in_order``: units came in the order of the plan, whatever
    had killed other mutants.
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
    in_order: bool = False

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
class Red:
    """A check that fails on the original of ``kernel``, and so kills no mutant there."""

    kernel: str
    check: str
    case: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Whole:
    """All mutants of a kernel: how many there are, and sixteen digits for which."""

    mutants: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """What some results are of: shard ``shard``, counted from 1, of ``shards`` of each of ``kernels``.

    ``style`` is who judged, ``red`` what failed on the originals.  Of the shard of each kernel only a sample of
    ``limit`` was tried, only mutants of ``operators``, or only survivors of an earlier run (``again``).
    """

    style: str
    shard: int
    shards: int
    kernels: Mapping[str, Whole]
    red: tuple[Red, ...] = ()
    limit: int | None = None
    operators: tuple[str, ...] = ()
    again: bool = False

    @property
    def chosen(self) -> str:
        """The options that leave out mutants of the shard, as they were given; empty where none does."""
        words = [] if self.limit is None else [f"--limit {self.limit}"]
        words += [f"--operator {name}" for name in self.operators]
        return " ".join([*words, *(["--again"] if self.again else [])])

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Part:
        """Return what ``asdict`` made; raises TypeError, KeyError or AttributeError for anything else."""
        kernels = {name: Whole(**whole) for name, whole in plain["kernels"].items()}
        told = {"red": tuple(Red(**red) for red in plain["red"]), "operators": tuple(plain.get("operators", ()))}
        return cls(**{**plain, "kernels": kernels, **told})


@dataclass(frozen=True, kw_only=True)
class Told:
    """What killed a mutant in an earlier run, in the words of its result."""

    check: str = ""
    case: str = ""


NOTHING_TOLD = Told()
#: The key of a line that is no result.
_PART = "part"


def write(path: Path, results: Iterable[Result], parts: Iterable[Part] = ()) -> None:
    """Write one JSON object a line, ``parts``, what the results are of, first; raises SetupError naming the file."""
    lines = [{_PART: asdict(part)} for part in parts] + [result.to_dict() for result in results]
    try:
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}") from error


def read(path: Path) -> list[Result]:
    """Return the results that ``write`` wrote; raises SetupError naming the file and the line."""
    return read_parts(path)[1]


def read_parts(path: Path) -> tuple[list[Part], list[Result]]:
    """Return all that ``write`` wrote; raises SetupError naming the file and the line."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}") from error
    parts, found = [], []
    for number, line in enumerate(lines, start=1):
        try:
            plain = json.loads(line)
            if _PART in plain:
                parts.append(Part.from_dict(plain[_PART]))
            else:
                found.append(Result.from_dict(plain))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise SetupError(f"{path}:{number}: not a result of mutate: {error}") from error
    return parts, found


def merged(parts: Iterable[Sequence[Result]]) -> list[Result]:
    """Return the results of all ``parts``, each mutant of a kernel once; one that ran replaces one that did not.

    Raises SetupError where two that ran disagree about a kill, or about whether the mutant counts.
    """
    found: dict[tuple[str, str], Result] = {}
    for part in parts:
        for result in part:
            name = (result.kernel, result.key)
            if name not in found or found[name].status is Status.SKIPPED:
                found[name] = result
            elif _disagree(found[name], result):
                where = f"{result.kernel} {result.file}:{result.line} {result.operator} {result.key}"
                raise SetupError(f"{where}: {found[name].status} in one file and {result.status} in another")
    return list(found.values())


def _disagree(one: Result, other: Result) -> bool:
    verdicts = {(status.killed, status.counted) for status in (one.status, other.status)}
    return len(verdicts) > 1 and Status.SKIPPED not in (one.status, other.status)
