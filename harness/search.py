"""Many cases of one implementation: find a fault, shrink it, set it aside, and look for others."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from harness.blame import mistake
from harness.contract import Contract, Implementation
from harness.fault import Fault
from harness.hunt import DRAWN_PER_RUN, Hunt
from harness.known import note_met, note_over
from harness.lanes import Lane, VirtualLane
from harness.report.records import FaultRecord, Record, Verdict

#: Seconds that shrinking one fault may take, for slow cases; what is smallest by then is reported.
SHRINK_SECONDS = 60.0
#: Reasons for which cases were left out that a note lists.
SHOWN_REASONS = 3


def _ignore(*args: object) -> None:
    """Hear of progress and do nothing."""


@dataclass
class CheckStat:
    """One check over a whole search: its verdict, how many cases reached it, and what to know about the verdict."""

    verdict: Verdict = Verdict.PASS
    examples: int = 0
    note: str = ""


@dataclass
class Report:
    """What a search found; ``cases`` is the number of different cases that ran, ``untrusted`` names operations."""

    contract: str
    implementation: str
    faults: list[Fault] = field(default_factory=list)
    checks: dict[str, CheckStat] = field(default_factory=dict)
    untrusted: set[str] = field(default_factory=set)
    cases: int = 0
    seconds: float = 0.0

    def records(self) -> list[Record]:
        """Return one plain record for each check, sorted by check."""
        return [
            Record(
                contract=self.contract,
                implementation=self.implementation,
                check=check,
                verdict=stat.verdict,
                examples=stat.examples,
                seconds=round(self.seconds, 3),
                note=stat.note,
                faults=tuple(plain(fault) for fault in self.faults if fault.check == check),
            )
            for check, stat in sorted(self.checks.items())
        ]


def search(
    contract: Contract[Any],
    implementation: Implementation,
    *,
    examples: int,
    seed: int = 0,
    lane: Lane | None = None,
    profile: str = "sm_120",
    pinned: bool = True,
    rare: bool = True,
    progress: Callable[[str, str, int], object] = _ignore,
    on_fault: Callable[[Fault], object] = _ignore,
    deadline: float | None = None,
    shrink_seconds: float = SHRINK_SECONDS,
) -> Report:
    """Return every distinct fault that ``examples`` cases a pass show.

    Passes go on until one finds nothing new; cases with rare features, free of the faults found so far, get passes of
    their own.  ``seed`` and the implementation's name decide which cases are drawn, and no example database is read or
    written, so equal arguments give equal faults where time does not cut a search short.  ``pinned`` runs the
    contract's pinned cases first; without ``rare`` those passes of their own are left out.
    ``progress(phase, case, done)`` is called before each case runs, with a phase of ``"rejects"``, ``"pinned"``,
    ``"capture"``, ``"search"``, ``"rare"`` or ``"shrink"``, and ``on_fault`` after each fault.  After ``deadline``
    seconds no new case starts, and the check ``"search"`` is a TIMEOUT; it is UNTRUSTED where the lane had room for no
    case, and says why where it had none for some.  Raises ContractError where the contract
    itself fails, or gives no case at all.
    """
    began = time.monotonic()
    hunt = Hunt(
        contract=contract,
        implementation=implementation,
        lane=lane or VirtualLane(profile),
        random=Random(zlib.crc32(f"{seed} {implementation}".encode())),
        progress=progress,
        on_fault=on_fault,
        stop_at=None if deadline is None else began + deadline,
        shrink_seconds=shrink_seconds,
    )
    hunt.reject()
    if pinned:
        hunt.decide()
        hunt.pin()
        hunt.reach()
    hunt.capture()
    while hunt.sweep(examples) or (rare and hunt.drawn and hunt.sweep_rare(examples)):
        pass
    if not (hunt.cases or hunt.drawn or hunt.no_room or hunt.out_of_time):
        draws = examples * DRAWN_PER_RUN
        raise mistake(contract, f"cases() gave no case in {draws} draws: it is empty, or its filters leave nothing")
    report = Report(
        contract=contract.name,
        implementation=implementation.name,
        faults=hunt.faults,
        untrusted=hunt.untrusted,
        cases=hunt.cases,
        seconds=time.monotonic() - began,
    )
    report.checks = _stats(hunt, report.seconds)
    return report


def _stats(hunt: Hunt, seconds: float) -> dict[str, CheckStat]:
    """Verdicts from the weakest claim to the strongest: each overrules those before it."""
    stats = {check: CheckStat(examples=count) for check, count in hunt.reached.items()}
    if hunt.untrusted:
        note = f"uses operations outside the proven set: {', '.join(sorted(hunt.untrusted))}"
        stats.setdefault("memory", CheckStat())
        for check, stat in stats.items():
            if not check.startswith("rejects:"):
                stat.verdict, stat.note = Verdict.UNTRUSTED, note
    if hunt.unlinted:
        note = f"outside of what the lint emulates: {', '.join(sorted(hunt.unlinted))}"
        stats["capturable"] = CheckStat(Verdict.UNTRUSTED, stats.get("capturable", CheckStat()).examples, note)
    for check, issues in hunt.known.tolerated.items():
        stat = stats.setdefault(check, CheckStat())
        stat.verdict, stat.note = Verdict.KNOWN, note_met(issues)
    for known in hunt.known.stale():
        stat = stats.setdefault(known.check, CheckStat())
        stat.verdict, stat.note = Verdict.STALE, note_over(known.issue)
    for fault in hunt.faults:
        stats.setdefault(fault.check, CheckStat()).verdict = Verdict.FAIL
    for check in hunt.exhausted:
        stats[check].note = "more faults than are listed: the search for them was given up"
    if hunt.cases == 0 or hunt.out_of_time or hunt.no_room:
        stats["search"] = _whole(hunt, seconds)
    return stats


def _whole(hunt: Hunt, seconds: float) -> CheckStat:
    """The verdict on a search that did not run all that it should have, or nothing."""
    stopped = f"stopped after {seconds:.0f} s with {hunt.cases} cases run"
    reasons = sorted(hunt.no_room)
    others = f", and {len(reasons) - SHOWN_REASONS} more" if len(reasons) > SHOWN_REASONS else ""
    left_out = f"no room for cases: {'; '.join(reasons[:SHOWN_REASONS])}{others}" if reasons else ""
    if hunt.out_of_time:
        return CheckStat(Verdict.TIMEOUT, hunt.cases, "; ".join(filter(None, (stopped, left_out))))
    if hunt.cases:
        return CheckStat(Verdict.PASS, hunt.cases, left_out)
    if left_out:
        return CheckStat(Verdict.UNTRUSTED, 0, f"no case ran; {left_out}")
    return CheckStat(Verdict.FAIL, 0, stopped)


def plain(fault: Fault) -> FaultRecord:
    """Return ``fault`` as data for reports."""
    case = fault.case if isinstance(fault.case, str) else repr(fault.case)
    return FaultRecord(check=fault.check, case=case, message=fault.message, features=tuple(sorted(fault.features)))
