"""Why two runs must not be compared: each rule returns its reasons, none where there is nothing against it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from harness.bench.provenance import RECORDED
from harness.bench.series import LEAST_BLOCKS
from harness.bench.store import MISSING, Key, Run
from harness.bench.verdicts import Evidence, Rules, Verdict, judge

#: Names of a refusal's list; the rest is counted.
_SHOWN = 5


def another_device(base: Run, head: Run) -> list[str]:
    """Times of another device say nothing about the code."""
    names = [run.device.get("name") for run in (base, head)]
    if None in names:
        return [f"{run.path} does not say which device it was made on" for run in (base, head) if not run.device]
    return [] if names[0] == names[1] else [f"another device: {names[0]} and {names[1]}"]


def dirty(*runs: Run) -> list[str]:
    """A time that belongs to no commit cannot be repeated."""
    found = []
    for run in runs:
        commit = str(run.commit.get("id", "unknown"))
        if run.commit.get("dirty"):
            found.append(f"dirty tree: {run.path} was made from {commit[:12]} with changes{_first(run)}")
        elif commit in ("unversioned", "unknown", ""):
            found.append(f"no commit: {run.path} does not say what it was made from")
        elif run.commit.get(RECORDED):
            found.append(
                f"commit not shown: {run.path} was told that it is from {commit[:12]}, and git here has no such commit "
                "to compare its sources with"
            )
    return found


def _first(run: Run) -> str:
    """Return where the sources differ from the commit's, if that is known."""
    lines = run.commit.get("differences", ())
    return f": {_listed(lines)}" if lines else ""


def stale(base: Run, head: Run) -> list[str]:
    """A head that is not newer than its base was named in its place."""
    if base.when == head.when:
        return [f"{base.path} and {head.path} are one run"]
    return [f"{head.path} of {head.when} is older than its base, of {base.when}"] if head.when < base.when else []


def missing(base: Run, head: Run) -> list[str]:
    """A workload that is gone may be gone because it fails, and an average over the others would hide it."""
    gone = [entry.name for key, entry in base.entries.items() if key not in head.entries and not entry.peer]
    if not gone:
        return []
    reasons: Mapping[str, str] = {item["name"]: item["reason"] for item in head.refused}
    said = [next((f"{name} ({why})" for known, why in reasons.items() if _covers(known, name)), name) for name in gone]
    return [f"{len(gone)} workloads of the base are missing: {_listed(said)}"]


def unsteady(run: Run) -> list[str]:
    """A workload that only some blocks could time is not the same in all of them."""
    gone = [f"{item['name']} ({item['reason']})" for item in run.refused if item["reason"].startswith(MISSING)]
    return [f"{run.path} is not the same in all blocks: {_listed(gone)}"] if gone else []


def disagreeing(names: Sequence[str], evidence: Evidence, rules: Rules, what: str) -> list[str]:
    """A series that differs from itself, by the rules that it would be judged by, would make any verdict."""
    verdicts = judge(evidence, rules).verdicts
    found = [
        f"{name} by {abs(np.expm1(effect)):.1%}"
        for name, effect, verdict in zip(names, evidence.effect, verdicts, strict=True)
        if verdict in (Verdict.FASTER, Verdict.SLOWER)
    ]
    return [f"failing A/A: {what} differs from itself in {_listed(found)}"] if found else []


def too_few(run: Run, keys: Collection[Key]) -> list[str]:
    """Too few blocks cannot be compared with each other."""
    short = [run.entries[key].name for key in keys if len(run.entries[key].blocks) < LEAST_BLOCKS]
    return [f"no A/A: fewer than {LEAST_BLOCKS} blocks in {run.path} of {_listed(short)}"] if short else []


def _covers(refused: str, name: str) -> bool:
    """Whether the benchmark ``name``, of one timing, belongs to what was refused for all timings."""
    return name == refused or name.startswith(refused.removesuffix("]") + "-")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
