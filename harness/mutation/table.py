"""Kill rates and survivors as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median

from harness.mutation.operators import OPERATORS
from harness.mutation.results import LANES, Red, Result, Status

_HEADER = ("kernel", "operator", "mutants", *LANES, "crash", "timeout", "survived", "argued", "rate")
_TEXTS = 2
#: How many of the slowest kills are shown.
_SLOWEST = 10


def render(results: Sequence[Result], red: Sequence[Red] = (), whole: int = 0) -> str:
    """Return the table by kernel and operator, survivors with their diffs, what does not count, and the headline.

    ``red`` is what fails on the originals, ``whole`` how many mutants there are, tried or not.
    """
    rows: list[tuple[str, ...]] = [_HEADER]
    kernels = list(dict.fromkeys(result.kernel for result in results))
    for kernel in kernels:
        own = [result for result in results if result.kernel == kernel]
        for position, operator in enumerate(_operators(own)):
            rows.append((kernel if position == 0 else "", *_row(operator, [r for r in own if r.operator == operator])))
        rows.append(("", *_row("all", own)))
    if len(kernels) > 1:
        rows.append(("all", *_row("all", results)))
    told = [*_survivors(results), *_excluded(results), *_red(red), *_speed(results), headline(results, whole)]
    sections = ["\n".join(_aligned(rows)), *told]
    return "\n\n".join(sections) + "\n"


def rate(results: Iterable[Result]) -> float | None:
    """Return killed by counted, argued survivors counted too; None where nothing counts."""
    counted = [result for result in results if result.status.counted]
    return sum(result.status.killed for result in counted) / len(counted) if counted else None


def headline(results: Sequence[Result], whole: int = 0) -> str:
    """Return one line: how many of how many, how fast, what was left out; of ``whole`` there may be a part alone."""
    counted = [result for result in results if result.status.counted]
    ran = [result for result in results if result.status is not Status.SKIPPED]
    left = {status: sum(result.status is status for result in results) for status in Status if not status.counted}
    aside = ", ".join(f"{count} {status.value.lower()}" for status, count in left.items() if count)
    found = rate(results)
    killed = sum(result.status.killed for result in counted)
    return (
        (f"{len(results)} of {whole} mutants are here; " if len(results) < whole else "")
        + ("no mutant counts" if found is None else f"{killed} of {len(counted)} mutants killed ({found:.1%})")
        + (f", {_without_baseline(counted)} without the baseline" if any(map(_by_baseline, counted)) else "")
        + (f"; {aside}" if aside else "")
        + (f"; {_took([r.seconds for r in ran])} of time, {_took([r.cpu for r in ran])} of a processor" if ran else "")
    )


def _by_baseline(result: Result) -> bool:
    return result.status is Status.KILLED and result.lane == LANES[2]


def _without_baseline(counted: Sequence[Result]) -> str:
    """What other lanes kill, of the same mutants."""
    killed = sum(result.status.killed and not _by_baseline(result) for result in counted)
    return f"{killed} ({killed / len(counted):.1%})"


def _took(seconds: Sequence[float]) -> str:
    return f"median {median(seconds):.2f} s a mutant and {sum(seconds):.0f} s in all"


def _operators(results: Sequence[Result]) -> list[str]:
    present = {result.operator for result in results}
    return [name for name in OPERATORS if name in present]


def _row(operator: str, results: Sequence[Result]) -> tuple[str, ...]:
    counted = [result for result in results if result.status.counted]

    def count(wanted: Callable[[Result], bool]) -> str:
        return str(sum(map(wanted, counted)) or "")

    return (
        operator,
        str(len(counted)),
        *(count(lambda r, lane=lane: r.status is Status.KILLED and r.lane == lane) for lane in LANES),  # type: ignore[misc]
        count(lambda r: r.status is Status.CRASH),
        count(lambda r: r.status is Status.TIMEOUT),
        count(lambda r: r.status is Status.SURVIVED),
        count(lambda r: r.argued),
        "" if (found := rate(results)) is None else f"{found:.1%}",
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    for row in rows:
        cells = [
            cell.ljust(width) if column < _TEXTS else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _survivors(results: Sequence[Result]) -> Iterator[str]:
    for result in results:
        if result.status is Status.SURVIVED:
            told = [f"SURVIVED {result.kernel} {result.operator} {result.key}", result.diff.rstrip()]
            if result.reason:
                told.append(f"argued: {result.reason}")
            if result.nearest:
                told.append(f"changes bits on {result.nearest}\n  {result.message}")
            else:
                told.append(result.message or f"changes no bit of an output in {result.units} units")
            yield "\n".join(told)


def _speed(results: Sequence[Result]) -> Iterator[str]:
    """How soon a check fails on what is killed, and where that takes longest, by the order in which cases came."""
    for in_order, order in ((True, "in the order of the plan"), (False, "those first that killed others")):
        own = [r for r in results if r.status is Status.KILLED and r.in_order is in_order]
        kills = sorted(own, key=lambda r: (r.cpu, r.units))
        if not kills:
            continue
        most = kills[math.ceil(0.9 * len(kills)) - 1]
        lines = [
            f"  {r.cpu:.2f} s, unit {r.units}: {r.file}:{r.line} {r.operator} {r.key}: {r.check} on {r.case}"
            for r in kills[::-1][:_SLOWEST]
        ]
        units = median(r.units for r in kills)
        told = f"median {median(r.cpu for r in kills):.2f} s of a processor and {units:.0f} units"
        told += f", 90% within {most.cpu:.2f} s, all within {kills[-1].cpu:.2f} s"
        yield "\n".join([f"TO THE FIRST FAILING CASE, {order}, {len(kills)} kills: {told}; slowest:", *lines])


def _red(red: Sequence[Red]) -> Iterator[str]:
    """What fails on the originals, each check with the first case on which it does."""
    by_check: dict[tuple[str, str], list[Red]] = {}
    for one in red:
        by_check.setdefault((one.kernel, one.check), []).append(one)
    if by_check:
        lines = [
            f"  {kernel} {check}: on {len({one.case for one in found})} "
            f"{'case' if len({one.case for one in found}) == 1 else 'cases'}, first {found[0].case}: {found[0].message}"
            for (kernel, check), found in by_check.items()
        ]
        yield "\n".join(["FAILS ON THE ORIGINAL, and kills nothing there:", *lines])


def _excluded(results: Sequence[Result]) -> Iterator[str]:
    """What is left out of the rate, each with the reason."""
    for status in (Status.EQUIVALENT, Status.INVALID):
        lines = [f"  {r.file}:{r.line} {r.operator} {r.key}: {r.reason}" for r in results if r.status is status]
        if lines:
            yield "\n".join([f"{status.value} ({len(lines)}), not counted:", *lines])
