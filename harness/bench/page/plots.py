"""Plots as inline SVG: the roofline, and a small course of each workload."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import groupby

from harness.bench.comparison import Comparison
from harness.bench.history import Course
from harness.bench.markdown import duration
from harness.bench.page.html import breakable, note
from harness.bench.store import Entry, Run
from harness.bench.verdicts import Verdict
from harness.report.summary import counted

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 480, 360, 62, 14, 14, 44
_SHAPES = 7
#: A floor that is farther below the times would press them flat.
_NEAR = 0.9
_CHANGED = (Verdict.SLOWER, Verdict.FASTER)


def roofline(head: Run) -> str:
    """Return achieved FLOP/s over FLOPs a byte, under what the device was measured to do."""
    rates = head.document.get("harness", {}).get("rates")
    first = {entry.key[:3]: entry for entry in reversed(list(head.entries.values()))}
    points = [entry for entry in first.values() if entry.flops and entry.bytes]
    if not rates or not points:
        return note("No rates of the device were measured in this run, so there is no roof to draw.")
    copy, matmul = rates["copy"], rates["matmul"]
    xs = [entry.flops / entry.bytes for entry in points] + [matmul / copy]
    ys = [entry.flops / entry.median for entry in points] + [matmul]
    x_axis, y_axis = (
        _Log(min(xs) / 2, max(xs) * 2, _LEFT, _WIDTH - _RIGHT),
        _Log(min(ys) / 2, max(ys) * 2, _HEIGHT - _BOTTOM, _TOP),
    )
    contracts = sorted({entry.key[0] for entry in points})
    parts = [
        *(f'<path class="grid" d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>' for x in map(x_axis, x_axis.decades())),
        *(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>' for y in map(y_axis, y_axis.decades())),
        *(
            f'<text x="{x_axis(value):.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{_short(value)}</text>'
            for value in x_axis.decades()
        ),
        *(
            f'<text x="{_LEFT - 6}" y="{y_axis(value) + 4:.1f}" text-anchor="end">{_short(value)}</text>'
            for value in y_axis.decades()
        ),
        f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">FLOP a byte</text>',
        f'<text x="14" y="{_HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {_HEIGHT / 2})">FLOP/s</text>',
        _roof(x_axis, y_axis, copy, matmul),
        *(_point(entry, x_axis, y_axis, contracts.index(entry.key[0]) % _SHAPES) for entry in points),
    ]
    said = f"Roofline: {len(points)} workloads under {copy / 1e9:.0f} GB/s and {matmul / 1e12:.0f} TFLOP/s"
    legend = "".join(
        f'<li><svg viewBox="-7 -7 14 14" aria-hidden="true">{_marker(place % _SHAPES, 0, 0)}</svg>{escape(name)}</li>'
        for place, name in enumerate(contracts)
    )
    outlined = "; outlines are peers'" if any(entry.peer for entry in points) else ""
    return (
        f'<figure class="roof"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(said)}">'
        f'{"".join(parts)}</svg><ul class="legend">{legend}</ul></figure>'
        + note(f"{said}, both measured in this run; a point on the line runs at its floor{outlined}.")
    )


def histories(courses: Sequence[Course], comparison: Comparison | None) -> str:
    """Return a small plot of every workload: first those that changed, slower ones before others, then folded ones."""
    verdicts = {row.name: row.verdict for row in comparison.rows} if comparison is not None else {}
    changed = [
        course for verdict in _CHANGED for course in courses if verdicts.get(course.name, Verdict.SAME) is verdict
    ]
    parts = []
    if changed:
        figures = "".join(_course(course, verdicts[course.name], of=course.key[0]) for course in changed)
        parts.append(f'<h3>{counted(len(changed), "workload")} changed</h3><div class="wide">{figures}</div>')
    others = [course for course in courses if course not in changed]
    for contract, group in groupby(sorted(others, key=lambda course: course.key[0]), key=lambda course: course.key[0]):
        found = list(group)
        said = f"{escape(contract)}: {counted(len(found), 'workload')}"
        figures = "".join(_course(course, None) for course in found)
        parts.append(f'<details><summary>{said}</summary><div class="wide">{figures}</div></details>')
    runs = max((len(course.points) for course in courses), default=0)
    return "".join(parts) + note(
        f"Medians of up to {runs} runs, oldest on the left; the band is each median's interval, the dashed line the "
        "floor where it is near."
    )


def _course(course: Course, verdict: Verdict | None, *, of: str = "") -> str:
    width, height, edge = 260, 76, 6
    times = [point[2] for point in course.points]
    low, high = min(point[3] for point in course.points), max(point[4] for point in course.points)
    if course.floor is not None and course.floor > _NEAR * low:
        low = min(low, course.floor)
    # two runs that differ by a thousandth must not look like a cliff
    middle, span = (low + high) / 2, max(high - low, 0.04 * high) * 1.15
    low = middle - span / 2

    def x(place: int) -> float:
        return edge + (width - 2 * edge) * (place / (len(times) - 1) if len(times) > 1 else 1)

    def y(seconds: float) -> float:
        return edge + (height - 2 * edge) * (1 - (seconds - low) / span)

    line = "L".join(f"{x(place):.1f} {y(seconds):.1f}" for place, seconds in enumerate(times))
    above = [f"{x(place):.1f} {y(point[4]):.1f}" for place, point in enumerate(course.points)]
    below = [f"{x(place):.1f} {y(point[3]):.1f}" for place, point in reversed(list(enumerate(course.points)))]
    shapes = [f'<path class="spread" d="M{"L".join((*above, *below))}Z"/>', f'<path class="course" d="M{line}"/>']
    if course.floor is not None and low <= course.floor:
        shapes.append(f'<path class="floor" d="M{edge} {y(course.floor):.1f}H{width - edge}"/>')
    shapes += [
        f'<circle class="last" cx="{x(place):.1f}" cy="{y(seconds):.1f}" r="{3.5 if place == len(times) - 1 else 2}">'
        f"<title>{escape(f'{point[0][:16]} {point[1]} {duration(seconds)}')}</title></circle>"
        for place, (seconds, point) in enumerate(zip(times, course.points, strict=True))
    ]
    share = "" if course.floor is None else f", {course.floor / times[-1]:.2f} of the floor"
    kind = f' class="{verdict}"' if verdict in _CHANGED else ""
    mark = f" <b>{escape(str(verdict))}</b>" if kind else ""
    title = escape(f"{of} " if of else "") + breakable(course.name.partition("[")[2].removesuffix("]") or course.name)
    least, most = duration(min(times)), duration(max(times))
    between = most if least == most else f"{least} to {most}"
    said = escape(f"{course.name}: {len(times)} runs, newest {duration(times[-1])}")
    return (
        f"<figure{kind}><figcaption>{title}<br><b>{duration(times[-1])}</b>{share}{mark}</figcaption>"
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{said}">{"".join(shapes)}</svg>'
        f'<p class="scale">{escape(between)} since {escape(course.points[0][0][:10])}</p></figure>'
    )


class _Log:
    """A logarithmic axis from ``low`` at ``start`` to ``high`` at ``end``."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high, self._start, self._end = low, high, start, end

    def __call__(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self._start + share * (self._end - self._start)

    def decades(self) -> list[float]:
        """Return the powers of ten on it."""
        return [10.0**power for power in range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)]


def _roof(x_axis: _Log, y_axis: _Log, copy: float, matmul: float) -> str:
    ridge = matmul / copy
    start = max(x_axis.low, y_axis.low / copy)
    points = [(start, copy * start), (ridge, matmul), (x_axis.high, matmul)]
    return f'<path class="roofline" d="M{"L".join(f"{x_axis(x):.1f} {y_axis(y):.1f}" for x, y in points)}"/>'


def _point(entry: Entry, x_axis: _Log, y_axis: _Log, shape: int) -> str:
    x, y = x_axis(entry.flops / entry.bytes), y_axis(entry.flops / entry.median)
    share = "" if entry.floor is None else f", {entry.floor / entry.median:.2f} of the floor"
    mark = _marker(shape, x, y, outlined=entry.peer)
    return f"<g><title>{escape(f'{entry.name}: {duration(entry.median)}{share}')}</title>{mark}</g>"


def _marker(shape: int, x: float, y: float, *, outlined: bool = False) -> str:
    """Return one of ``_SHAPES`` marks, told apart by shape as well as by colour."""
    kind = f"k{shape} outlined" if outlined else f"k{shape}"
    if shape == 0:
        return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
    outlines = ("M-4.5-4.5h9v9h-9z", "M0-6L6 5H-6z", "M0-6.5L6.5 0 0 6.5-6.5 0z", "M0 6L6-5H-6z",
                "M-6-2h4v-4h4v4h4v4h-4v4h-4v-4h-4z", "M-6-3h12v6h-12z")  # fmt: skip
    return f'<path class="{kind}" transform="translate({x:.1f} {y:.1f})" d="{outlines[shape - 1]}"/>'


def _short(value: float) -> str:
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"
