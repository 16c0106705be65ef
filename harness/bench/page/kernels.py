"""Every workload beside its floor."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from harness.bench.markdown import duration
from harness.bench.page.html import breakable, note, table
from harness.bench.peers import ratios
from harness.bench.store import Entry, Run

_MEANING = (
    "rot: a captured run of calls on inputs at other addresses, L2 cold; dob: one captured call after the L2 was "
    "flushed, with the 4 µs that a replay takes; warm: a captured run on the same inputs; vgpu: CPU seconds of a call "
    "on the virtual GPU. The floor is the larger of bytes over the measured copy rate and FLOPs over the measured bf16 "
    "matmul rate; the share is of the first column's time."
)


def render(head: Run) -> str:
    """Return the section's content."""
    entries = list(head.entries.values())
    timings = list(dict.fromkeys(entry.key[3] for entry in entries))
    beside = ratios(head.entries)
    rows = []
    for contract in sorted({entry.key[0] for entry in entries}):
        rows += [[escape(contract)], *_rows([entry for entry in entries if entry.key[0] == contract], timings, beside)]
    # the share stands where a phone still shows it
    names = ["workload", "by", "of the floor", *(escape(timing) for timing in timings), "floor"]
    names += ["peers take"] if beside else []
    numbers = range(3, 4 + len(timings))
    return table(names, rows, numbers=tuple(numbers), label="times of the kernels") + note(_MEANING)


def _rows(entries: list[Entry], timings: list[str], beside: Mapping[str, str]) -> list[list[str]]:
    """Return the rows of one contract; labels and implementations in the order that the run has them.

    ``beside``: how many times as long peers take, by name, if there are any.
    """
    found = {entry.key[1:]: entry for entry in entries}
    rows = []
    for case, implementation in dict.fromkeys((entry.key[2], entry.key[1]) for entry in entries):
        here = [found.get((implementation, case, timing)) for timing in timings]
        some = next(entry for entry in here if entry is not None)
        floor = "" if some.floor is None else f"{duration(some.floor)} {escape(some.bound)}"
        share = "" if some.floor is None else _bar(some.floor / some.median)
        times = ["" if entry is None else _time(entry) for entry in here]
        ratio = [escape(beside.get(some.name, ""))] if beside else []
        rows.append([breakable(some.label), escape(implementation), share, *times, floor, *ratio])
    return rows


def _time(entry: Entry) -> str:
    return f'<span title="{duration(entry.low)} to {duration(entry.high)}">{duration(entry.median)}</span>'


def _bar(share: float) -> str:
    width = min(100.0, 100 * share)
    return f'<span class="bar" aria-hidden="true"><i style="width:{width:.1f}%"></i></span>{share:.2f}'
