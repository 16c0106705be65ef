"""What a run did and what was wrong with it, as data that travels between processes and as a summary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

#: Lines of one kind that a summary shows.
SHOWN = 40


@dataclass(frozen=True)
class FaultLine:
    """One fault: the test that it arose in, the kernel, its source line, and the message."""

    test: str
    kernel: str
    file: str
    line: int
    message: str


@dataclass
class Tally:
    """Counts of a run.

    ``kernels``: launches, programs and seconds by kernel; ``unwritten``: for each load of unwritten bytes, how many
    tests did it; ``unsupported``: uses of what the emulation has not; ``untrusted``: operations that may compute
    something else than the hardware; ``skipped``: autotuned kernels with configurations that did not run.
    """

    kernels: dict[str, list[float]] = field(default_factory=dict)
    faults: list[FaultLine] = field(default_factory=list)
    unwritten: dict[str, int] = field(default_factory=dict)
    untrusted: set[str] = field(default_factory=set)
    unsupported: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)

    def launch(self, kernel: str, programs: int, seconds: float, configs: int) -> None:
        """Count a launch of ``kernel``."""
        known = self.kernels.setdefault(kernel, [0, 0, 0.0])
        for number, more in enumerate((1, programs, seconds)):
            known[number] += more
        if configs > 1:
            self.skipped[kernel] = max(self.skipped.get(kernel, 0), configs - 1)

    def add(self, other: Tally) -> None:
        """Count what ``other`` counted."""
        for name, counts in other.kernels.items():
            known = self.kernels.setdefault(name, [0, 0, 0.0])
            for number, more in enumerate(counts):
                known[number] += more
        self.faults += other.faults
        self.untrusted |= other.untrusted
        for mine, theirs in ((self.unwritten, other.unwritten), (self.unsupported, other.unsupported)):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count
        for name, count in other.skipped.items():
            self.skipped[name] = max(self.skipped.get(name, 0), count)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON's types."""
        return {**asdict(self), "untrusted": sorted(self.untrusted)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Tally:
        """Return what ``to_dict`` was called on."""
        faults = [FaultLine(**fault) for fault in data["faults"]]
        return cls(**{**data, "faults": faults, "untrusted": set(data["untrusted"])})

    def lines(self, *, allow_untrusted: bool) -> list[str]:
        """Return the summary, a line each."""
        launches = sum(int(counts[0]) for counts in self.kernels.values())
        programs = sum(int(counts[1]) for counts in self.kernels.values())
        seconds = sum(counts[2] for counts in self.kernels.values())
        lines = [
            f"{_count(len(self.kernels), 'kernel')}, {_launches(launches, programs, seconds)}",
            *_shown(
                f"  {name}: {_launches(int(counts[0]), int(counts[1]), counts[2])}"
                for name, counts in sorted(self.kernels.items(), key=lambda item: -item[1][2])
            ),
        ]
        if self.skipped:
            names = ", ".join(f"{name} ({count})" for name, count in sorted(self.skipped.items()))
            lines.append(f"autotuned, other configurations not run: {names}")
        lines.append(_count(len(self.faults), "kernel fault"))
        lines += _shown(
            f"  {place}: {_count(len(found), 'time')}, first in {found[0].test}: {found[0].message}"
            for place, found in sorted(self._by_place().items())
        )
        if self.unwritten:
            lines.append(
                f"{_count(len(self.unwritten), 'warning')}: loads of memory that nobody wrote; it held NaN, so a "
                "result that depended on it is NaN"
            )
            lines += _shown(f"  {text} [{_count(count, 'test')}]" for text, count in sorted(self.unwritten.items()))
        if self.unsupported:
            uses = ", ".join(f"{name} ({count})" for name, count in sorted(self.unsupported.items()))
            lines.append(f"UNSUPPORTED: {uses}")
        if self.untrusted:
            note = "allowed" if allow_untrusted else "fails the run; --allow-untrusted accepts it"
            lines.append(f"UNTRUSTED operations ({note}): {', '.join(sorted(self.untrusted))}")
        return lines

    def _by_place(self) -> dict[str, list[FaultLine]]:
        places: dict[str, list[FaultLine]] = {}
        for fault in self.faults:
            file = fault.file.rsplit("/", 1)[-1]
            places.setdefault(f"{fault.kernel} ({file}:{fault.line})", []).append(fault)
        return places


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _launches(launches: int, programs: int, seconds: float) -> str:
    return f"{launches} launch{'' if launches == 1 else 'es'}, {_count(programs, 'program')}, {seconds:.2f} s"


def _shown(lines: Iterable[str]) -> list[str]:
    every = list(lines)
    if len(every) > SHOWN:
        every[SHOWN:] = [f"  and {len(every) - SHOWN} more"]
    return every
