"""The result of one run as every report shows it: grouped by implementation, with commands that replay its faults."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby

from harness.report.records import FaultRecord, Record, Verdict


@dataclass(frozen=True, kw_only=True)
class Unit:
    """All records of one implementation of one contract, in the order they came."""

    contract: str
    implementation: str
    records: tuple[Record, ...]

    @property
    def verdict(self) -> str:
        """The worst verdicts, each once: ``"PASS"``, ``"FAIL, TIMEOUT"``, ``"KNOWN"``."""
        present = {record.verdict for record in self.records}
        bad = [verdict for verdict in Verdict if verdict in present and not verdict.good]
        if not bad:
            return str(Verdict.KNOWN if Verdict.KNOWN in present else Verdict.PASS)
        return ", ".join(bad)

    @property
    def examples(self) -> int:
        """The most cases that any check saw."""
        return max((record.examples for record in self.records), default=0)

    @property
    def refused(self) -> tuple[Record, ...]:
        """Checks that an illegal call is refused, and it was."""
        return tuple(record for record in self.records if _illegal(record) and record.verdict is Verdict.PASS)

    @property
    def accepted(self) -> tuple[Record, ...]:
        """Checks that an illegal call is refused, and it was not."""
        return tuple(record for record in self.records if _illegal(record) and record.verdict is Verdict.FAIL)

    @property
    def others(self) -> tuple[Record, ...]:
        """All other checks; those about illegal calls are many and alike, so reports show them together."""
        together = (*self.refused, *self.accepted)
        return tuple(record for record in self.records if record not in together)

    @property
    def seconds(self) -> float:
        """Time of the whole unit."""
        return max((record.seconds for record in self.records), default=0.0)


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A contract that is wrong: what is, with the commands that show it, and whom it leaves without a verdict."""

    contract: str
    mistakes: Mapping[str, str]
    implementations: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Records of one run and what they were made with.

    ``environment`` holds versions and the seed; ``options`` are the command-line arguments, modules and adapters,
    without which a fault does not replay.
    """

    records: tuple[Record, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether something ran and every verdict lets a run exit 0."""
        return bool(self.records) and all(record.verdict.good for record in self.records)

    @property
    def status(self) -> int:
        """The exit status: 0 all is well, 1 it is not, 2 nothing could run, as every contract is wrong."""
        if self.records and all(record.verdict is Verdict.CONTRACT for record in self.records):
            return 2
        return 0 if self.good else 1

    @property
    def broken(self) -> tuple[Broken, ...]:
        """The contracts that are wrong, sorted; each mistake once, whoever met it."""
        found: dict[str, list[Record]] = {}
        for record in sorted(self.records, key=_unit):
            if record.verdict is Verdict.CONTRACT:
                found.setdefault(record.contract, []).append(record)
        return tuple(
            Broken(
                contract=contract,
                mistakes={
                    record.note: next((self.replay(record, fault) for fault in record.faults), "")
                    for record in reversed(records)
                },
                implementations=tuple(dict.fromkeys(record.implementation for record in records)),
            )
            for contract, records in found.items()
        )

    @property
    def units(self) -> tuple[Unit, ...]:
        """The records by contract and implementation, sorted; checks keep their order."""
        by_unit = sorted(self.records, key=_unit)
        return tuple(
            Unit(contract=contract, implementation=implementation, records=tuple(group))
            for (contract, implementation), group in groupby(by_unit, key=_unit)
        )

    def headline(self) -> str:
        """One sentence: ``"3 implementations, 41 checks: 2 faults in 1 implementation (73 s)"``."""
        units, broken = self.units, self.broken
        judged = [record for record in self.records if record.verdict is not Verdict.CONTRACT]
        bad = [record for record in judged if not record.verdict.good]
        faults = sum(len(record.faults) for record in bad)
        others = sorted({record.verdict for record in bad} - {Verdict.FAIL})
        found = [counted(faults, "fault")] if faults else []
        found += [str(verdict) for verdict in others]
        where = counted(len({_unit(record) for record in bad}), "implementation")
        parts = [f"{', '.join(found) or 'failures'} in {where}"] if bad else []
        if broken:
            without = counted(sum(len(one.implementations) for one in broken), "implementation")
            wrong = f"contract {broken[0].contract} is" if len(broken) == 1 else f"{len(broken)} contracts are"
            parts.append(f"{wrong} wrong, {without} without a verdict")
        size = f"{counted(len(units), 'implementation')}, {counted(len(judged), 'check')}"
        return f"{size}: {'; '.join(parts) or 'all pass'} ({self.seconds:.0f} s)"

    def replay(self, record: Record, fault: FaultRecord) -> str:
        """Return the shell command that runs the case of ``fault`` again."""
        command = ["python", "-m", "harness", "case", record.contract, fault.case, "--impl", record.implementation]
        return " ".join(_quoted(word) for word in [*command, *self.options])


def _quoted(word: str) -> str:
    """Quote for a POSIX shell, with double quotes where single ones would need escapes."""
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)


def _illegal(record: Record) -> bool:
    return record.check.startswith("rejects:")


def _unit(record: Record) -> tuple[str, str]:
    return record.contract, record.implementation


def counted(number: int, noun: str) -> str:
    """Return ``"1 fault"``, ``"2 faults"``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
