"""A run as JSON lines: the environment first, then one record a line."""

from __future__ import annotations

import json
from collections.abc import Iterable

from harness.report.records import Record
from harness.report.summary import Summary

FORMAT = 1


def render(summary: Summary) -> str:
    """Return the whole file; ``parse`` reads it back."""
    header = {
        "format": FORMAT,
        "environment": dict(summary.environment),
        "options": list(summary.options),
        "seconds": round(summary.seconds, 3),
    }
    lines = [header, *(record.to_dict() for record in summary.records)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def parse(lines: Iterable[str]) -> Summary:
    """Rebuild a summary; raises ValueError for another format and KeyError for a line that is no record."""
    header, *records = (json.loads(line) for line in lines)
    if header.get("format") != FORMAT:
        raise ValueError(f"format {header.get('format')!r} of a run, wanted {FORMAT}")
    return Summary(
        records=tuple(Record.from_dict(record) for record in records),
        environment=header["environment"],
        options=tuple(header["options"]),
        seconds=header["seconds"],
    )
