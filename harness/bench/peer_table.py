"""A stored run as the table of ours and peers, in Markdown: both times, their ratio, the floor and our share of it."""

from __future__ import annotations

from collections.abc import Sequence

from harness.bench import peers
from harness.bench.markdown import duration
from harness.bench.store import Entry, Run, title

#: Ours and peers by name, of one workload and timing; None where it was not timed so.
_Timed = tuple[Entry, dict[str, Entry]] | None


def render(run: Run) -> str:
    """Return a line for each workload of ours and each peer of it; a cell holds a figure for each way of timing.

    What was refused is said below.
    """
    # by contract, implementation and case, then by timing
    workloads: dict[tuple[str, str, str], dict[str, tuple[Entry, dict[str, Entry]]]] = {}
    for ours, others in peers.beside(run.entries):
        contract, implementation, case, timing = ours.key
        timed = workloads.setdefault((contract, implementation, case), {})
        timed[timing] = ours, {other.key[1]: other for other in others}
    timings = list(dict.fromkeys(timing for timed in workloads.values() for timing in timed))
    commit = f"{str(run.commit.get('id', 'unknown'))[:12]}{' with changes' if run.commit.get('dirty') else ''}"
    lines = [
        f"{run.device.get('name', 'an unknown device')}, {commit}, {run.when[:10]}. In a cell: {', '.join(timings)}; "
        "the L2 cache is cold but where 'warm' is said.",
        "",
        "| workload | ours | floor | of the floor | peer | takes | ratio |",
        "|---|--:|--:|--:|---|--:|--:|",
    ]
    for timed in workloads.values():
        found = [timed.get(timing) for timing in timings]
        own = _own([None if pair is None else pair[0] for pair in found])
        names = dict.fromkeys(name for _, others in timed.values() for name in others)
        lines += [_line(*own, *_theirs(found, name)) for name in names] or [_line(*own, "", "", "")]
    refused = [f"- not timed: `{item['name']}`: {item['reason']}" for item in run.refused]
    lines += ["", *refused] if refused else []
    return "\n".join([*lines, ""])


def _own(entries: Sequence[Entry | None]) -> tuple[str, str, str, str]:
    """Return the cells of ours: workload, times, floor, and the floor as a share of each."""
    first = next(entry for entry in entries if entry is not None)
    shares = ["-" if one is None or one.floor is None else f"{one.floor / one.median:.2f}" for one in entries]
    contract, implementation, *_ = first.key
    return (
        f"`{title(contract, implementation, first.label)}`",
        ", ".join("-" if one is None else _time(one) for one in entries),
        "" if first.floor is None else duration(first.floor),
        "" if first.floor is None else ", ".join(shares),
    )


def _theirs(found: Sequence[_Timed], name: str) -> tuple[str, str, str]:
    """Return the cells of the peer called ``name``: itself, its times, and how many times ours they are."""
    times, ratios = [], []
    for pair in found:
        peer = None if pair is None else pair[1].get(name)
        times.append("-" if peer is None else _time(peer))
        ratios.append("-" if pair is None or peer is None else peers.times(peer.median / pair[0].median))
    return name, ", ".join(times), ", ".join(ratios)


def _time(entry: Entry) -> str:
    return f"{duration(entry.median)}{' warm' if entry.l2 == 'warm' else ''}"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
