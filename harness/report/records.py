"""What a run leaves behind: one plain record per contract, implementation and check, ready for JSON."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


class Verdict(enum.StrEnum):
    """How one check of one implementation came out; CONTRACT: it has no verdict, because its contract is wrong."""

    PASS = "PASS"
    FAIL = "FAIL"
    KNOWN = "KNOWN"
    STALE = "STALE"
    UNTRUSTED = "UNTRUSTED"
    CRASH = "CRASH"
    TIMEOUT = "TIMEOUT"
    STICKY_ERROR = "STICKY_ERROR"
    OOM = "OOM"
    CONTRACT = "CONTRACT"

    @property
    def good(self) -> bool:
        """Whether a run with this verdict may exit 0."""
        return self in (Verdict.PASS, Verdict.KNOWN)


@dataclass(frozen=True, kw_only=True)
class FaultRecord:
    """One fault: the shrunk case as text, and what happened on it.  ``features`` are sorted."""

    check: str
    case: str
    message: str
    features: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FaultRecord:
        """Rebuild from ``Record.to_dict()['faults'][i]``."""
        return cls(**{**data, "features": tuple(data["features"])})


@dataclass(frozen=True, kw_only=True)
class Record:
    """The verdict of one check.

    ``examples`` is the number of cases that reached the check; ``seconds`` the time of the whole
    (contract, implementation), the same in each of its records.  ``note`` holds what is not a fault: the issue of a
    known failure, the last case before a crash or a timeout, names of untrusted operations.
    ``check`` is ``"process"`` where the verdict is about the child process, ``"contract"`` where it is CONTRACT.
    """

    contract: str
    implementation: str
    check: str
    verdict: Verdict
    examples: int = 0
    seconds: float = 0.0
    note: str = ""
    faults: tuple[FaultRecord, ...] = field(default=())

    @property
    def remark(self) -> str:
        """The note, without one that the first fault says again."""
        said = self.faults[0].message if self.faults else ""
        return "" if self.note and said.startswith(self.note) else self.note

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able data that ``from_dict`` reads back."""
        return {**asdict(self), "verdict": str(self.verdict)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Record:
        """Rebuild from ``to_dict()``; raises KeyError or ValueError on data that is not a record."""
        faults = tuple(FaultRecord.from_dict(fault) for fault in data["faults"])
        return cls(**{**data, "verdict": Verdict(data["verdict"]), "faults": faults})
