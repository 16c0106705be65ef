"""What a reader should know beside the verdicts: each rule returns its sentences, none where there is nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.bench import series
from harness.bench.store import Key, Run
from harness.bench.verdicts import Evidence, Judgement, Rules, Verdict
from harness.report.summary import counted

#: Names of a sentence; the rest is counted.
_SHOWN = 5


def hidden(names: Sequence[str], of_medians: Judgement, of_both: Judgement, means: Evidence) -> list[str]:
    """Name what would be the same by its median alone: calls that are slow now and then may be slow more often."""
    same, doubted = of_medians.verdicts == Verdict.SAME, of_both.verdicts == Verdict.CANNOT_TELL
    found = [
        f"{name} ({np.expm1(effect):+.1%})"
        for name, effect, here in zip(names, means.effect, same & doubted, strict=True)
        if here
    ]
    if not found:
        return []
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return [f"the median is the same and the mean is not shown to be: {', '.join(found[:_SHOWN])}{more}"]


def new(base: Run, head: Run) -> list[str]:
    count = sum(key not in base.entries for key in head.entries)
    return [f"{count} workloads of the head are not in the base"] if count else []


def changed_versions(base: Run, head: Run) -> list[str]:
    """Return what else changed between two runs."""
    facts = [{"driver": run.device.get("driver"), **run.device.get("versions", {})} for run in (base, head)]
    names = [name for name in facts[1] if facts[0].get(name) != facts[1][name]]
    return [f"{name} {facts[0].get(name)} -> {facts[1][name]}" for name in names]


def elsewhere(base: Run, head: Run) -> bool:
    """Whether two runs are known to be of two devices, or of one that is known and another one."""
    return base.device.get("uuid") != head.device.get("uuid")


def another_of_the_model(base: Run, head: Run, rules: Rules) -> list[str]:
    """Say that times were taken on two devices, which differ though their name is the same."""
    if not elsewhere(base, head):
        return []
    return [f"another device of the same model, which may differ from it: {rules.drift:.0%} is allowed for"]


def slowed(base: Run, head: Run) -> list[str]:
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


def alone(base: Run, head: Run, keys: Sequence[Key], earlier: Sequence[Run], rules: Rules) -> list[str]:
    """Say of which run nothing shows how much processes differ."""
    alone = [any(run.entries[key].alone for key in keys) for run in (base, head)]
    few = len(earlier) < series.LEAST_HISTORY
    if all(alone) and not few:
        return []
    as_far = f"{rules.lone:.0%} is allowed for" if few else "as far as any process of the other runs was"
    return [
        f"{run.path} is of one process, which may be off: {as_far}"
        for run, single in zip((base, head), alone, strict=True)
        if single
    ]


def untested(quads: int) -> list[str]:
    if quads >= series.LEAST_QUADS:
        return []
    return [f"fewer than {series.LEAST_QUADS} quads, so no build was compared with itself"]


def out_of_time(done: int, wanted: int, within: float) -> list[str]:
    """Return how many quads there was no time for, and what that costs."""
    if done == wanted:
        return []
    return [
        f"{done} of {counted(wanted, 'quad')}: the others would not have ended within {within:g} s, so that smaller "
        "changes cannot be told"
    ]


def unbounded(earlier: Sequence[Run], rules: Rules) -> list[str]:
    if len(earlier) >= series.LEAST_HISTORY:
        return []
    return [
        f"fewer than {series.LEAST_HISTORY} earlier runs, so nothing shows how much runs differ: "
        f"{rules.drift:.0%} is allowed for"
    ]
