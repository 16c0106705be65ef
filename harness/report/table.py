"""A run as text for a terminal: one line a check, then every fault with the command that replays it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import indent

from harness.report.records import Record, Verdict
from harness.report.summary import Summary, Unit

_HEADER = ("contract", "implementation", "check", "verdict", "examples", "seconds")
_NUMBERS = (4, 5)
_REFUSALS = "rejects:"


def render(summary: Summary) -> str:
    """Return the table, the notes and faults below it, and the headline; ends with a newline."""
    rows: list[tuple[str, ...]] = [_HEADER]
    for unit in summary.units:
        for position, (check, verdict, examples) in enumerate(_folded(unit)):
            names = (unit.contract, unit.implementation) if position == 0 else ("", "")
            seconds = f"{unit.seconds:.1f}" if position == 0 else ""
            rows.append((*names, check, str(verdict), str(examples), seconds))
    return "\n".join([*_aligned(rows), "", *_details(summary), summary.headline(), ""])


def _folded(unit: Unit) -> Iterator[tuple[str, Verdict, int]]:
    """Check, verdict and examples of each line: illegal calls that were all refused share one."""
    refused = [record for record in unit.records if record.check.startswith(_REFUSALS) and not _notable(record)]
    for record in unit.records:
        if record not in refused:
            yield record.check, record.verdict, record.examples
        elif record is refused[0]:
            yield f"{_REFUSALS} {len(refused)} illegal calls", Verdict.PASS, sum(other.examples for other in refused)


def _notable(record: Record) -> bool:
    return record.verdict is not Verdict.PASS or bool(record.note)


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Pad columns; numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    for row in rows:
        cells = [
            cell.rjust(width) if column in _NUMBERS else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _details(summary: Summary) -> Iterator[str]:
    """Everything that is not a plain pass."""
    for unit in summary.units:
        for record in unit.records:
            title = f"{record.verdict} {unit.contract} {unit.implementation} {record.check}"
            if record.note or (not record.faults and not record.verdict.good):
                yield f"{title}: {record.note or 'no further detail'}"
                yield ""
            for fault in record.faults:
                yield f"{title}  [{', '.join(fault.features) or 'any case'}]"
                yield indent(fault.message.rstrip(), "    ")
                yield f"  {summary.replay(record, fault)}"
                yield ""
