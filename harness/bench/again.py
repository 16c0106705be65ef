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
    """Return ``first`` with the rows that ``second``, by turns, judged again; as it was where that was refused."""
    if second.refused:
        return replace(first, notes=(*first.notes, f"timing again in turns was refused: {second.refused[0]}"))
    wanted = {row.name for row in doubted(first)}
    again = {row.name: row for row in second.rows if row.name in wanted}
    return replace(
        first,
        rows=tuple(again.get(row.name, row) for row in first.rows),
        how=f"{first.how}; {counted(len(again), 'workload')} again, {second.how}",
        notes=(*first.notes, *second.notes),
    )
