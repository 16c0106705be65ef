"""One search in several children: jobs that differ in their seed, and their records as those of one search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from harness.isolate import Job
from harness.known import issues
from harness.report.records import Record, Verdict

#: Cases of one child: fewer, and children spend their time importing.
LEAST = 200
#: How far the seeds of parts lie apart: a run with the next seed must not draw the same cases again.
APART = 1 << 32
#: Which of several verdicts of a check stands: a failure before whatever kept another part from its end.
_ORDER = (
    Verdict.FAIL, Verdict.CONTRACT, Verdict.CRASH, Verdict.TIMEOUT, Verdict.STICKY_ERROR, Verdict.OOM, Verdict.STALE,
    Verdict.UNTRUSTED, Verdict.KNOWN, Verdict.PASS,
)  # fmt: skip


def spread(jobs: Sequence[Job], cases: int, children: int) -> list[Job]:
    """Return jobs that draw ``cases`` cases of each contract together, up to ``children`` of them for each of ``jobs``.

    Implementations of a contract share its cases evenly.  Every part has a seed of its own, and the first one the
    pinned cases.
    """
    implementations = Counter(job.contract for job in jobs)
    parts = []
    for job in jobs:
        own = -(-cases // implementations[job.contract])
        count = max(1, min(children, own // LEAST))
        parts += [
            replace(job, examples=-(-own // count), seed=job.seed + part * APART, pinned=job.pinned and part == 0)
            for part in range(count)
        ]
    return parts


def merged(parts: Iterable[Sequence[Record]]) -> list[Record]:
    """Return one record for each check of each implementation: cases and time add up, the worst verdict stands.

    ``parts`` are the records of one job each.  Illegal calls, which every part makes, count once.  What parts found
    alike is listed once.  A STALE known failure is one only where no other part met it.
    """
    numbered = [(number, record) for number, part in enumerate(parts) for record in part]
    met = [(number, record) for number, record in numbered if record.verdict is Verdict.KNOWN]
    found: dict[tuple[str, str, str], list[Record]] = {}
    for number, record in numbered:
        settled = _settled(record, [other for place, other in met if place != number])
        if settled is not None:
            found.setdefault((record.contract, record.implementation, record.check), []).append(settled)
    return [_one(records) for records in found.values()]


def _settled(record: Record, met: Sequence[Record]) -> Record | None:
    """Return ``record``, or, where it is STALE and one of ``met`` came by the same issue, KNOWN.

    None for a pattern of checks: a search that meets it reports the check that failed.
    """
    if record.verdict is not Verdict.STALE:
        return record
    for other in met:
        own = (other.contract, other.implementation) == (record.contract, record.implementation)
        if own and fnmatchcase(other.check, record.check) and issues(record.note) <= issues(other.note):
            same = other.check == record.check
            return replace(record, verdict=Verdict.KNOWN, note=other.note) if same else None
    return record


def _one(parts: Sequence[Record]) -> Record:
    verdicts = {part.verdict for part in parts}
    verdict = next(verdict for verdict in _ORDER if verdict in verdicts)
    alike = parts[0].check.startswith("rejects:")
    counts = [part.examples for part in parts]
    return replace(
        parts[0],
        verdict=verdict,
        examples=max(counts) if alike else sum(counts),
        seconds=round(sum(part.seconds for part in parts), 3),
        note=next((part.note for part in parts if part.verdict is verdict and part.note), ""),
        faults=tuple(dict.fromkeys(fault for part in parts for fault in part.faults)),
    )
