"""Kill rates of several judges on the same mutants, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.mutation.results import Result


def render(by_judge: Mapping[str, Sequence[Result]]) -> str:
    """Return a table: kernel, mutants that count for every judge, and each judge's rate on those."""
    found = {judge: {(r.kernel, r.key): r for r in results} for judge, results in by_judge.items()}
    first = next(iter(found.values()))
    common = [
        place
        for place in first
        if all(place in results and results[place].status.counted for results in found.values())
    ]
    rows = [("kernel", "mutants", *found)]
    for kernel in dict.fromkeys(kernel for kernel, _ in common):
        own = [place for place in common if place[0] == kernel]
        rows.append((kernel, str(len(own)), *(_rate(results, own) for results in found.values())))
    rows.append(("all", str(len(common)), *(_rate(results, common) for results in found.values())))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def _rate(results: Mapping[tuple[str, str], Result], places: Sequence[tuple[str, str]]) -> str:
    killed = sum(results[place].status.killed for place in places)
    return f"{killed / len(places):.1%}" if places else ""
