"""Two builds compared, workload by workload: from stored runs, or from blocks of both that were taken in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.bench import notes, refusals, series
from harness.bench.numbers import Array
from harness.bench.store import Document, Entry, Key, Run, entries, merged
from harness.bench.verdicts import Evidence, Judgement, Rules, Verdict, judge
from harness.report.summary import counted

DEFAULT = Rules()
#: Runs of history that say how much runs differ: one that went wrong is forgotten some day.
RECENT = 30
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
    evidence = None if refused else [_of_files(base, head, earlier, keys, rules, logs) for logs in (_logs, _mean_logs)]
    said = [
        *notes.changed_versions(base, head),
        *notes.another_of_the_model(base, head, rules),
        *notes.slowed(base, head),
        *notes.unbounded(earlier, rules),
        *notes.alone(base, head, keys, earlier, rules),
        *notes.new(base, head),
    ]
    return _comparison(base, head, keys, evidence, refused, said, how, rules)


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
        order = [which for which, _ in blocks[: 4 * quads]]
        medians, means = (_in_turns(order, runs, keys, logs) for logs in (_logs, _mean_logs))
        titles = [f"{name} {base.entries[key].name}" for name in names for key in keys]
        refused += refusals.disagreeing(titles, series.interleaved_with_itself(medians), rules, "a build")
        evidence = None if refused else [series.interleaved(times) for times in (medians, means)]
    how = f"{counted(quads, 'quad')} of blocks in turns"
    said = [*notes.slowed(base, head), *notes.new(base, head), *notes.untested(quads)]
    return _comparison(base, head, keys, evidence, refused, said, how, rules)


def _common(base: Run, head: Run) -> list[Key]:
    """Return what both timed, but for peers, which nobody here makes slower."""
    return [key for key, entry in base.entries.items() if key in head.entries and not entry.peer]


def usable(history: Sequence[Run], head: Run) -> list[Run]:
    """Return the last ``RECENT`` runs of ``history`` on the device of ``head`` and before it, oldest first."""
    name = head.device.get("name")
    found = {run.when: run for run in history if run.device.get("name") == name and run.when < head.when}
    return [found[when] for when in sorted(found)[-RECENT:]]


def _run(name: str, documents: Sequence[Document]) -> Run:
    document = merged(documents)
    dirty = any(block["commit_info"].get("dirty") for block in documents)
    document["commit_info"] = {**document["commit_info"], "dirty": dirty}
    return Run(path=name, document=document, entries=entries(document))


def _of_files(
    base: Run, head: Run, earlier: Sequence[Run], keys: Sequence[Key], rules: Rules, logs: Callable[[Entry], Array]
) -> Evidence:
    """Return the evidence of each workload: they differ in how many blocks and how much history they have."""
    parts = []
    for key in keys:
        old, new = base.entries[key], head.entries[key]
        past = [run for run in earlier if key in run.entries]
        history = np.array([logs(run.entries[key]).mean() for run in past]).reshape(-1, 1)
        since = sum(run.when > base.when for run in past)
        found = series.stored(logs(old), logs(new), history, rules, since=since)
        # devices of a model differ as much as their runs may; a build's share of it no stored run shows
        elsewhere = math.log1p(rules.drift) if notes.elsewhere(base, head) else 0.0
        # one process may be as far off as any was seen to be, or further where few runs were
        spread = [series.strayed(logs(one)) for one in (old, new, *(run.entries[key] for run in past)) if not one.alone]
        least = 0.0 if len(past) >= series.LEAST_HISTORY else math.log1p(rules.lone)
        doubt = np.maximum(found.doubt, elsewhere) + (old.alone + new.alone) * np.max(spread, axis=0, initial=least)
        parts.append(replace(found, doubt=doubt))
    return _joined(parts)


def _in_turns(order: Sequence[int], runs: Sequence[Run], keys: Sequence[Key], logs: Callable[[Entry], Array]) -> Array:
    """Return ``[quads, 4, workloads]`` of the blocks of both ``runs``, which were taken in ``order``."""
    columns = [np.concatenate([logs(run.entries[key]) for key in keys], axis=1) for run in runs]
    turns = [order[:place].count(which) for place, which in enumerate(order)]
    taken: Array = np.stack([columns[which][turn] for which, turn in zip(order, turns, strict=True)])
    return taken.reshape(-1, 4, len(keys))


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


def _mean_logs(entry: Entry) -> Array:
    """Return those of the blocks' means, of their medians where the file has no other."""
    logs: Array = np.log(np.array(entry.means or entry.blocks))[:, None]
    return logs


def _comparison(
    base: Run,
    head: Run,
    keys: Sequence[Key],
    evidence: Sequence[Evidence] | None,
    refused: Sequence[str],
    said: Sequence[str],
    how: str,
    rules: Rules,
) -> Comparison:
    if not keys and not refused:
        refused = ["no workload is in both"]
    rows: list[Row] = []
    if evidence is not None and keys:
        medians, means = evidence
        judged = judge(medians, rules, means)
        rows = _rows(base, head, keys, judged)
        said = [*said, *notes.hidden([row.name for row in rows], judge(medians, rules), judged, means)]
    return Comparison(
        base=_title(base),
        head=_title(head),
        device=str(head.device.get("name", "an unknown device")),
        how=how,
        rules=rules,
        rows=tuple(rows),
        refused=tuple(refused),
        notes=tuple(said),
    )


def _rows(base: Run, head: Run, keys: Sequence[Key], judged: Judgement) -> list[Row]:
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
