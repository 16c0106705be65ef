"""Kill rates of several judges on the same mutants, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.mutation.results import Result, Status

Place = tuple[str, str]

#: How much of a tool's reason not to judge is shown.
_WORDS = 200


def render(by_judge: Mapping[str, Sequence[Result]]) -> str:
    """Return a table: kernel, mutants that count for every judge, and each judge's rate on those.

    A judge that says why it cannot judge a mutant has its rate on fewer (``75.0% of 4``); what it says follows.
    """
    found = {judge: {(r.kernel, r.key): r for r in results} for judge, results in by_judge.items()}
    first = next(iter(found.values()))
    common = [
        place
        for place in first
        if all(place in results and _is_told(results[place]) for results in found.values())
        and any(_counted(results[place]) for results in found.values())
    ]
    rows = [("kernel", "mutants", *found)]
    for kernel in dict.fromkeys(kernel for kernel, _ in common):
        own = [place for place in common if place[0] == kernel]
        rows.append((kernel, str(len(own)), *(_rate(results, own) for results in found.values())))
    rows.append(("all", str(len(common)), *(_rate(results, common) for results in found.values())))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
    for judge, results in found.items():
        lines += _abstentions(judge, [results[place] for place in common])
    return "\n".join(lines) + "\n"


def _counted(result: Result) -> bool:
    return result.status.counted


def _abstains(result: Result) -> bool:
    """Whether the judge says why it has no verdict; one that ran out of time does not."""
    return result.status is Status.SKIPPED and bool(result.reason)


def _is_told(result: Result) -> bool:
    return _counted(result) or _abstains(result)


def _rate(results: Mapping[Place, Result], places: Sequence[Place]) -> str:
    judged = [place for place in places if _counted(results[place])]
    if not judged:
        return "-" if places else ""
    rate = f"{sum(results[place].status.killed for place in judged) / len(judged):.1%}"
    return rate if len(judged) == len(places) else f"{rate} of {len(judged)}"


def _abstentions(judge: str, results: Sequence[Result]) -> Iterator[str]:
    """Yield what a judge says of the mutants of each kernel that it cannot judge, each reason once."""
    for kernel in dict.fromkeys(result.kernel for result in results):
        own = [result for result in results if result.kernel == kernel]
        reasons = [result.reason for result in own if _abstains(result)]
        for reason in dict.fromkeys(reasons):
            yield f"{judge} cannot judge {reasons.count(reason)} of {len(own)} of {kernel}: {reason[:_WORDS]}"
