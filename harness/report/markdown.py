"""A run as a Markdown page that reads in a minute: the headline, a line an implementation, then the faults."""

from __future__ import annotations

from collections.abc import Iterator

from harness.report.records import Record, Verdict
from harness.report.summary import Summary


def render(summary: Summary) -> str:
    """Return the page."""
    lines = [
        "# Kernel verification",
        "",
        f"**{summary.headline()}**",
        "",
        "| contract | implementation | verdict | checks passed | examples | seconds |",
        "|---|---|---|---:|---:|---:|",
    ]
    for unit in summary.units:
        passed = sum(record.verdict.good for record in unit.records)
        counts = f"{passed} of {len(unit.records)} | {unit.examples} | {unit.seconds:.1f}"
        lines.append(f"| {unit.contract} | {unit.implementation} | {unit.verdict} | {counts} |")
    for unit in summary.units:
        # what is wrong with a contract stands once, below
        notable = [
            record
            for record in unit.others
            if record.verdict is not Verdict.CONTRACT and (record.faults or record.note or not record.verdict.good)
        ]
        if notable or unit.accepted:
            lines += ["", f"## {unit.contract} by {unit.implementation}"]
        for record in notable:
            lines += _record(summary, record)
        if unit.accepted:
            lines += ["", f"**`rejects` FAIL**: {len(unit.accepted)} illegal calls are not refused", ""]
            lines += [
                f"- `{record.check.removeprefix('rejects:')}`: {' '.join(fault.message.split())}"
                for record in unit.accepted
                for fault in record.faults
            ]
    for broken in summary.broken:
        lines += ["", f"## contract {broken.contract}", "", f"No verdict on {', '.join(broken.implementations)}.", ""]
        for mistake, command in broken.mistakes.items():
            lines += _fenced(f"{mistake}\n$ {command}" if command else mistake)
    if summary.environment:
        facts = ", ".join(f"{name} {value}" for name, value in summary.environment.items())
        lines += ["", f"Made with {facts}."]
    return "\n".join([*lines, ""])


def _record(summary: Summary, record: Record) -> Iterator[str]:
    if record.remark or not record.faults:
        yield from ("", f"**`{record.check}` {record.verdict}** {record.remark}".rstrip())
    for fault in record.faults:
        features = f" ({', '.join(fault.features)})" if fault.features else ""
        yield from ("", f"**`{record.check}` {record.verdict}**{features}", "")
        yield from _fenced(f"{fault.message.rstrip()}\n$ {summary.replay(record, fault)}")


def _fenced(text: str) -> Iterator[str]:
    """A code block whose fence is longer than any run of backticks in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    yield from (fence, text, fence)
