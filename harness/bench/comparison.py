"""Two builds compared, workload by workload: from stored runs, or from blocks of both that were taken in turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.bench import refusals, series
from harness.bench.numbers import Array
from harness.bench.store import Document, Entry, Key, Run, entries, merged
from harness.bench.verdicts import Evidence, Rules, Verdict, judge
from harness.report.summary import counted

DEFAULT = Rules()
#: Exit statuses for CI.
FINE, SLOWER, UNUSABLE = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
class Row:
    """One workload: medians in seconds; ``change``, ``low`` and ``high`` are shares, +0.05 is five per cent slower."""

    name: str
    base: float
    head: float
    change: float
    low: float
    high: float
    verdict: Verdict
    l2: str = ""
    fraction: float | None = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What came out: ``refused`` says why there are no verdicts, ``notes`` what a reader should know."""

    base: str
    head: str
    device: str
    how: str
    rules: Rules
    rows: tuple[Row, ...] = ()
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        """2 where nothing can be said, 1 where something is slower, else 0."""
        if self.refused:
            return UNUSABLE
        return SLOWER if any(row.verdict is Verdict.SLOWER for row in self.rows) else FINE

    def of(self, verdict: Verdict) -> list[Row]:
        """Return the rows with one verdict."""
        return [row for row in self.rows if row.verdict is verdict]


def of_files(
    base: Run, head: Run, history: Sequence[Run] = (), rules: Rules = DEFAULT, *, allow_dirty: bool = False
) -> Comparison:
    """Compare two stored runs of one device; ``history`` are earlier runs there, which show how much runs differ.

    Runs of history that are another device's, or newer than ``head``, or ``head`` itself, are left out.
    """
    keys = _common(base, head)
    refused = [
        *refusals.another_device(base, head),
        *([] if allow_dirty else refusals.dirty(base, head)),
        *refusals.stale(base, head),
        *refusals.missing(base, head),
        *refusals.too_few(base, keys),
        *refusals.too_few(head, keys),
    ]
    earlier = usable(history, head)
    how = f"two runs, {len(earlier)} of history"
    if not refused:
        for run in (base, head):
            found = _with_itself(run, keys)
            refused += refusals.disagreeing([run.entries[key].name for key in keys], found, rules, run.path)
    evidence = None if refused else _of_files(base, head, earlier, keys, rules)
    notes = [
        *_changed_versions(base, head),
        *_slowed(base, head),
        *_unbounded(earlier, rules),
        *_new(base, head),
    ]
    return _comparison(base, head, keys, evidence, refused, notes, how, rules)


def of_blocks(
    blocks: Sequence[tuple[int, Document]],
    names: tuple[str, str],
    rules: Rules = DEFAULT,
    *,
    allow_dirty: bool = False,
) -> Comparison:
    """Compare blocks of two builds, (0 for base or 1 for head, document), taken in the order of ``series.orders``."""
    runs = [_run(names[which], [document for build, document in blocks if build == which]) for which in (0, 1)]
    base, head = runs
    keys = _common(base, head)
    quads = len(blocks) // 4
    refused = [
        *refusals.another_device(base, head),
        *([] if allow_dirty else refusals.dirty(base, head)),
        *refusals.missing(base, head),
        *refusals.unsteady(base),
        *refusals.unsteady(head),
    ]
    evidence = None
    if not refused and keys:
        medians = {which: [run.entries[key].blocks for key in keys] for which, run in enumerate(runs)}
        turns = {0: 0, 1: 0}
        taken = np.empty((4 * quads, len(keys)))
        for place, (which, _) in enumerate(blocks[: 4 * quads]):
            taken[place] = np.log([values[turns[which]] for values in medians[which]])
            turns[which] += 1
        times: Array = taken.reshape(quads, 4, len(keys))
        titles = [f"{name} {base.entries[key].name}" for name in names for key in keys]
        refused += refusals.disagreeing(titles, series.interleaved_with_itself(times), rules, "a build")
        evidence = None if refused else series.interleaved(times)
    how = f"{counted(quads, 'quad')} of blocks in turns"
    return _comparison(base, head, keys, evidence, refused, [*_slowed(base, head), *_new(base, head)], how, rules)


def _common(base: Run, head: Run) -> list[Key]:
    """Return what both timed, but for peers, which nobody here makes slower."""
    return [key for key, entry in base.entries.items() if key in head.entries and not entry.peer]


def usable(history: Sequence[Run], head: Run) -> list[Run]:
    """Return the runs of ``history`` that were made on the device of ``head`` and before it, oldest first."""
    name = head.device.get("name")
    found = {run.when: run for run in history if run.device.get("name") == name and run.when < head.when}
    return [found[when] for when in sorted(found)]


def _run(name: str, documents: Sequence[Document]) -> Run:
    document = merged(documents)
    dirty = any(block["commit_info"].get("dirty") for block in documents)
    document["commit_info"] = {**document["commit_info"], "dirty": dirty}
    return Run(path=name, document=document, entries=entries(document))


def _of_files(base: Run, head: Run, earlier: Sequence[Run], keys: Sequence[Key], rules: Rules) -> Evidence:
    """Return the evidence of each workload: they differ in how many blocks and how much history they have."""
    parts = []
    for key in keys:
        past = [np.log(run.entries[key].median) for run in earlier if key in run.entries]
        old, new = _logs(base.entries[key]), _logs(head.entries[key])
        parts.append(series.stored(old, new, np.array(past).reshape(-1, 1), rules))
    return _joined(parts)


def _with_itself(run: Run, keys: Sequence[Key]) -> Evidence:
    return _joined([series.with_itself(_logs(run.entries[key])) for key in keys])


def _joined(parts: Sequence[Evidence]) -> Evidence:
    def every(name: str) -> Array:
        return np.concatenate([np.atleast_1d(getattr(part, name)) for part in parts]) if parts else np.empty(0)

    doubts = np.concatenate([np.broadcast_to(part.doubt, part.effect.shape) for part in parts]) if parts else 0.0
    return Evidence(effect=every("effect"), error=every("error"), df=every("df"), doubt=doubts)


def _logs(entry: Entry) -> Array:
    logs: Array = np.log(np.array(entry.blocks))[:, None]
    return logs


def _comparison(
    base: Run,
    head: Run,
    keys: Sequence[Key],
    evidence: Evidence | None,
    refused: Sequence[str],
    notes: Sequence[str],
    how: str,
    rules: Rules,
) -> Comparison:
    if not keys and not refused:
        refused = ["no workload is in both"]
    rows = [] if evidence is None or not keys else _rows(base, head, keys, evidence, rules)
    return Comparison(
        base=_title(base),
        head=_title(head),
        device=str(head.device.get("name", "an unknown device")),
        how=how,
        rules=rules,
        rows=tuple(rows),
        refused=tuple(refused),
        notes=tuple(notes),
    )


def _rows(base: Run, head: Run, keys: Sequence[Key], evidence: Evidence, rules: Rules) -> list[Row]:
    judged = judge(evidence, rules)
    rows = []
    for place, key in enumerate(keys):
        old, new = base.entries[key], head.entries[key]
        rows.append(
            Row(
                name=new.name,
                base=old.median,
                head=new.median,
                change=math.expm1(judged.effect[place]),
                low=math.expm1(judged.low[place]),
                high=math.expm1(judged.high[place]),
                verdict=Verdict(judged.verdicts[place]),
                l2=new.l2,
                fraction=None if new.floor is None else new.floor / new.median,
            )
        )
    return rows


def _title(run: Run) -> str:
    commit = str(run.commit.get("id", ""))[:12]
    return f"{run.path} ({commit}{' with changes' if run.commit.get('dirty') else ''})"


def _new(base: Run, head: Run) -> list[str]:
    count = sum(key not in base.entries for key in head.entries)
    return [f"{count} workloads of the head are not in the base"] if count else []


def _changed_versions(base: Run, head: Run) -> list[str]:
    """Return what else changed between two runs."""
    facts = [{"driver": run.device.get("driver"), **run.device.get("versions", {})} for run in (base, head)]
    names = [name for name in facts[1] if facts[0].get(name) != facts[1][name]]
    notes = [f"{name} {facts[0].get(name)} -> {facts[1][name]}" for name in names]
    if base.device.get("uuid") != head.device.get("uuid"):
        notes.append("another device of the same model")
    return notes


def _slowed(base: Run, head: Run) -> list[str]:
    """Return what the device said that slowed it down."""
    notes = []
    for run in (base, head):
        rows = [row["extra_info"] for row in run.document["benchmarks"]]
        said = [
            {*row.get("before", {}).get("throttled", ()), *row.get("after", {}).get("throttled", ())} for row in rows
        ]
        if any(said):
            reasons = ", ".join(sorted(set().union(*said)))
            notes.append(f"{run.path}: slowed down by {reasons} in {sum(map(bool, said))} of {len(said)} benchmarks")
    return notes


def _unbounded(earlier: Sequence[Run], rules: Rules) -> list[str]:
    if len(earlier) >= series.LEAST_HISTORY:
        return []
    return [
        f"fewer than {series.LEAST_HISTORY} earlier runs, so nothing shows how much runs differ: "
        f"{rules.drift:.0%} is allowed for"
    ]
