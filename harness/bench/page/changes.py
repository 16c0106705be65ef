"""What became slower or faster, first on the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from harness.bench.comparison import Comparison, Row
from harness.bench.markdown import duration, headline
from harness.bench.page.html import breakable, chip, note, table
from harness.bench.verdicts import Verdict
from harness.report.summary import counted

_KINDS = {Verdict.SLOWER: "bad", Verdict.FASTER: "good", Verdict.CANNOT_TELL: "doubt", Verdict.SAME: "plain"}
_ARROWS = {Verdict.SLOWER: "▲ ", Verdict.FASTER: "▼ "}


def status(comparison: Comparison | None) -> list[str]:
    """Return chips for the line below the title."""
    if comparison is None:
        return ['<span class="plain">not compared with anything</span>']
    if comparison.refused:
        return [chip("refused", "bad"), f"<span>{escape(comparison.refused[0])}</span>"]
    counts = [(verdict, len(comparison.of(verdict))) for verdict in _KINDS]
    return [chip(f"{n} {verdict}", _KINDS[verdict]) for verdict, n in counts if n]


def render(comparison: Comparison | None) -> str:
    """Return the section's content."""
    if comparison is None:
        return note("No comparison was given: bench diff --json writes one.")
    against = note(f"{comparison.head} against {comparison.base}; {comparison.how}.")
    notes = "".join(f"<li>{escape(text)}</li>" for text in comparison.notes)
    notes = f"<ul>{notes}</ul>" if notes else ""
    if comparison.refused:
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in comparison.refused)
        return f"<p>No verdict was made:</p><ul>{reasons}</ul>{against}{notes}"
    rules = comparison.rules
    changed = sorted(
        (*comparison.of(Verdict.SLOWER), *comparison.of(Verdict.FASTER)), key=lambda row: row.change, reverse=True
    )
    first = (
        _table(changed, "what changed")
        if changed
        else f"<p>Nothing that could be shown: {escape(headline(comparison))}.</p>"
    )
    doubted, same = comparison.of(Verdict.CANNOT_TELL), comparison.of(Verdict.SAME)
    folded = "".join(
        f"<details><summary>{len(rows)} {verdict}</summary>{_table(rows, str(verdict))}</details>"
        for verdict, rows in ((Verdict.CANNOT_TELL, doubted), (Verdict.SAME, same))
        if rows
    )
    rule = note(
        f"A change is called past {rules.margin:.0%}, and same where it is shown to be within, each wrongly in at most "
        f"{rules.alpha:.0%} of comparisons (Holm over {counted(len(comparison.rows), 'workload')}). Intervals hold "
        f"{rules.confidence:.0%} each."
    )
    return first + folded + against + rule + notes


def _table(rows: Sequence[Row], label: str) -> str:
    head = ("workload", "verdict", "change", "interval", "base", "head", "L2", "of the floor")
    return table(head, [_cells(row) for row in rows], numbers=(2, 3, 4, 5, 7), label=label)


def _cells(row: Row) -> list[str]:
    unknown = row.low != row.low
    return [
        breakable(row.name),
        chip(f"{_ARROWS.get(row.verdict, '')}{row.verdict}", _KINDS[row.verdict]),
        f"{row.change:+.1%}",
        "unknown" if unknown else f"{row.low:+.1%} to {row.high:+.1%}",
        duration(row.base),
        duration(row.head),
        escape(row.l2),
        "" if row.fraction is None else f"{row.fraction:.2f}",
    ]
