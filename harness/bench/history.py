"""Stored runs of one device over time, workload by workload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.bench.markdown import duration
from harness.bench.store import Key, Run, read
from harness.discover import SetupError

_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, kw_only=True)
class Course:
    """One workload's medians, oldest run first: (time of the run, commit, seconds, seconds low, seconds high)."""

    key: Key
    name: str
    points: tuple[tuple[str, str, float, float, float], ...]
    floor: float | None


def runs(paths: Iterable[Path]) -> list[Run]:
    """Read files and folders of files, oldest run first; raises SetupError for a path that is neither.

    In a folder, files that are no stored runs are passed over: other reports lie beside them.
    """
    found = []
    for path in paths:
        if not path.is_dir():
            found.append(read(path))
            continue
        for file in sorted(path.rglob("*.json")):
            try:
                found.append(read(file))
            except SetupError:
                continue
    return sorted(found, key=lambda run: run.when)


def courses(history: Sequence[Run]) -> list[Course]:
    """Return the course of every workload of the newest run, in its order."""
    if not history:
        return []
    last = history[-1]
    name = last.device.get("name")
    same = [run for run in history if run.device.get("name") == name]
    found = []
    for key, entry in last.entries.items():
        points = [
            (run.when, str(run.commit.get("id", ""))[:12], one.median, one.low, one.high)
            for run in same
            if (one := run.entries.get(key)) is not None
        ]
        found.append(Course(key=key, name=entry.name, points=tuple(points), floor=entry.floor))
    return found


def render(history: Sequence[Run]) -> str:
    """Return a table for a terminal: the newest median, the best, the change to the run before, the course."""
    rows = [("workload", "runs", "newest", "best", "to the run before", "course")]
    for course in courses(history):
        times = [point[2] for point in course.points]
        before = f"{times[-1] / times[-2] - 1:+.1%}" if len(times) > 1 else ""
        rows.append((course.name, str(len(times)), duration(times[-1]), duration(min(times)), before, _line(times)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, ""])


def _line(times: Sequence[float]) -> str:
    low, high = min(times), max(times)
    # below one per cent there is nothing to see
    span = max(high - low, 0.01 * high)
    return "".join(_BARS[min(len(_BARS) - 1, int((time - low) / span * len(_BARS)))] for time in times[-24:])
