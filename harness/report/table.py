"""A run as text for a terminal: one line a check, then every fault with the command that replays it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import indent

from harness.report.records import Verdict
from harness.report.summary import Summary, Unit

_HEADER = ("contract", "implementation", "check", "verdict", "examples", "seconds")
_NUMBERS = (4, 5)


def render(summary: Summary) -> str:
    """Return the table, the notes and faults below it, and the headline; ends with a newline."""
    rows: list[tuple[str, ...]] = [_HEADER]
    for unit in summary.units:
        for position, (check, verdict, examples) in enumerate(_lines(unit)):
            names = (unit.contract, unit.implementation) if position == 0 else ("", "")
            seconds = f"{unit.seconds:.1f}" if position == 0 else ""
            rows.append((*names, check, str(verdict), str(examples), seconds))
    return "\n".join([*_aligned(rows), "", *_details(summary), summary.headline(), ""])


def _lines(unit: Unit) -> Iterator[tuple[str, Verdict, int]]:
    """Check, verdict and examples of each line."""
    for record in unit.others:
        yield record.check, record.verdict, record.examples
    if unit.refused:
        yield f"rejects: {len(unit.refused)} illegal calls", Verdict.PASS, len(unit.refused)
    if unit.accepted:
        yield f"rejects: {len(unit.accepted)} illegal calls", Verdict.FAIL, len(unit.accepted)


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
        for record in unit.others:
            if record.verdict is Verdict.CONTRACT:
                continue
            title = f"{record.verdict} {unit.contract} {unit.implementation} {record.check}"
            if record.remark or (not record.faults and not record.verdict.good):
                yield f"{title}: {record.remark or 'no further detail'}"
                yield ""
            for fault in record.faults:
                yield f"{title}  [{', '.join(fault.features) or 'any case'}]"
                yield indent(fault.message.rstrip(), "    ")
                yield f"  {summary.replay(record, fault)}"
                yield ""
        if unit.accepted:
            yield f"FAIL {unit.contract} {unit.implementation} rejects: {len(unit.accepted)} illegal calls"
            for record in unit.accepted:
                for fault in record.faults:
                    yield indent(f"{record.check.removeprefix('rejects:')}: {fault.message.rstrip()}", "    ")
            yield f"  {summary.replay(unit.accepted[0], unit.accepted[0].faults[0])}"
            yield ""
    for broken in summary.broken:
        for mistake, command in broken.mistakes.items():
            yield mistake
            if command:
                yield f"  {command}"
        yield f"  no verdict on {', '.join(broken.implementations)}"
        yield ""
