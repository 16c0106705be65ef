"""A comparison as Markdown, for the summary of a CI job: the verdict first, what changed, the rest folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.bench.comparison import Comparison, Row
from harness.bench.verdicts import Verdict
from harness.report.summary import counted


def headline(comparison: Comparison) -> str:
    """Return one sentence: ``"2 slower, 1 faster, 30 same, 4 cannot tell"``, or that it was refused."""
    if comparison.refused:
        return f"refused: {comparison.refused[0]}"
    counts = [f"{len(comparison.of(verdict))} {verdict}" for verdict in _ORDER if comparison.of(verdict)]
    return ", ".join(counts)


def render(comparison: Comparison) -> str:
    """Return the document."""
    rules = comparison.rules
    lines = [
        "# Benchmarks",
        "",
        f"**{headline(comparison)}**",
        "",
        f"{comparison.head} against {comparison.base}, on {comparison.device}; {comparison.how}.",
    ]
    if comparison.refused:
        lines += ["", "No verdict was made:", "", *(f"- {reason}" for reason in comparison.refused)]
    changed = [*comparison.of(Verdict.SLOWER), *comparison.of(Verdict.FASTER)]
    if changed:
        lines += ["", *_table(sorted(changed, key=lambda row: -row.change))]
    others = [*comparison.of(Verdict.CANNOT_TELL), *comparison.of(Verdict.SAME)]
    if others:
        lines += ["", "<details><summary>the others</summary>", "", *_table(others), "", "</details>"]
    if comparison.notes:
        lines += ["", *(f"- {note}" for note in comparison.notes)]
    if not comparison.refused:
        lines += [
            "",
            f"A change is called past {rules.margin:.0%}, and *same* where it is shown to be within, each wrongly in "
            f"at most {rules.alpha:.0%} of comparisons (Holm over {counted(len(comparison.rows), 'workload')}); "
            f"intervals hold {rules.confidence:.0%} each.",
        ]
    return "\n".join([*lines, ""])


_ORDER = (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME, Verdict.CANNOT_TELL)


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield "| workload | verdict | base | head | change | interval | of the floor |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for row in rows:
        share = "" if row.fraction is None else f"{row.fraction:.2f}"
        interval = "unknown" if row.low != row.low else f"{row.low:+.1%} to {row.high:+.1%}"
        cells = (f"`{row.name}`", str(row.verdict), duration(row.base), duration(row.head), f"{row.change:+.1%}")
        yield f"| {' | '.join((*cells, interval, share))} |"


def duration(seconds: float) -> str:
    """Return ``"12.3 µs"``, with three digits."""
    unit, size = next(((unit, size) for unit, size in (("s", 1.0), ("ms", 1e-3)) if seconds >= size), ("µs", 1e-6))
    value = seconds / size
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
