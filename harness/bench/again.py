"""What stored runs show to be slower, or may, timed again in turns: two nights differ by more than their code."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from harness.bench.comparison import Comparison, Row
from harness.bench.verdicts import Verdict
from harness.report.summary import counted


def doubted(comparison: Comparison) -> list[Row]:
    """Return the rows that are slower, or took longer by more than the margin and cannot be told."""
    margin = comparison.rules.margin
    return [
        row
        for row in comparison.rows
        if row.verdict is Verdict.SLOWER or (row.verdict is Verdict.CANNOT_TELL and row.change > margin)
    ]


def names(rows: Collection[Row]) -> tuple[list[str], list[str]]:
    """Return the names of the benchmarks of ``rows`` without their timings, and the timings; both sorted."""
    parts = [row.name.removesuffix("]").rpartition("-") for row in rows]
    return sorted({f"{name}]" for name, _, _ in parts}), sorted({timing for _, _, timing in parts})


def settled(first: Comparison, second: Comparison) -> Comparison:
    """Return ``first`` with the rows that ``second``, by turns, judged again; as it was where that was refused.

    What was slower stays so where turns alone cannot tell, but leave no room for anything else.
    """
    if second.refused:
        return replace(first, notes=(*first.notes, f"timing again in turns was refused: {second.refused[0]}"))
    wanted = {row.name for row in doubted(first)}
    again = {row.name: row for row in second.rows if row.name in wanted}
    return replace(
        first,
        rows=tuple(_settled(row, again.get(row.name, row), first.rules.margin) for row in first.rows),
        how=f"{first.how}; {counted(len(again), 'workload')} again, {second.how}",
        notes=(*first.notes, *second.notes),
    )


def _settled(before: Row, after: Row, margin: float) -> Row:
    """Return ``after``, slower as ``before`` where too few turns do not show by themselves what all of them say.

    A false alarm of stored runs does not pass: turns would have to be off the same way.  One quad says nothing, and its
    interval is unknown.
    """
    unclear = after.verdict is Verdict.CANNOT_TELL and not after.low <= margin
    agreed = unclear and before.verdict is Verdict.SLOWER
    return replace(after, verdict=before.verdict) if agreed else after
