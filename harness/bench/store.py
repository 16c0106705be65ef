"""Runs as files in pytest-benchmark's format: ours are read by its tools, and its by ours where our fields are there.

A benchmark's ``extra_info`` holds, beside what pytest-benchmark knows: ``contract``, ``implementation``, ``label`` and
``case`` (a digest) of the workload, ``lane``, ``timing`` and ``l2``, ``median_low`` and ``median_high``, ``blocks``
(medians, of processes or of segments of one: ``blocks_are``), ``block_means`` (of the same, without what is furthest
out), ``flops``, ``bytes``, ``floor`` in seconds, ``bound``,
``fraction`` (floor over median), ``peer`` where it is an adapter's, readings of the device before and after.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.bench import provenance
from harness.bench.numbers import median_interval
from harness.bench.sampling import clipped, segmented, segmented_means
from harness.discover import SetupError

FORMAT = 1
VERSION = f"kernel-harness {FORMAT}"
Document = dict[str, Any]
#: Contract, implementation, digest of the case, timing.
Key = tuple[str, str, str, str]

#: What blocks are: parts of what one process timed, or a process each.
SEGMENTS, PROCESSES = "segments", "processes"
#: How the reason begins where a benchmark came and went between blocks.
MISSING = "missing in"

_NEEDED = ("contract", "implementation", "label", "case", "timing", "blocks", "lane")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One benchmark of a run, by the fields that comparisons use.  Seconds."""

    key: Key
    name: str
    label: str
    l2: str
    median: float
    low: float
    high: float
    blocks: tuple[float, ...]
    flops: int
    bytes: int
    floor: float | None
    bound: str
    peer: bool = False
    #: Means of the blocks, of files that have them.
    means: tuple[float, ...] = ()
    #: Whether all blocks are of one process.
    alone: bool = False


@dataclass(frozen=True, kw_only=True)
class Run:
    """A file that was read: its document, and its entries by key."""

    path: str
    document: Document
    entries: Mapping[Key, Entry]

    @property
    def device(self) -> Mapping[str, Any]:
        """What was timed."""
        found: Mapping[str, Any] = self.document["machine_info"].get("device", {})
        return found

    @property
    def commit(self) -> Mapping[str, Any]:
        """What it was built from."""
        found: Mapping[str, Any] = self.document["commit_info"]
        return found

    @property
    def refused(self) -> Sequence[Mapping[str, Any]]:
        """What was not timed: ``name`` and ``reason`` of each, and ``peer`` where it is an adapter's."""
        found: Sequence[Mapping[str, Any]] = self.document.get("harness", {}).get("refused", ())
        return found

    @property
    def when(self) -> str:
        """The time of the run, which sorts."""
        return str(self.document["datetime"])


def title(contract: str, implementation: str, label: str, timing: str = "") -> str:
    """Return ``contract[implementation-label-timing]``, the name of a benchmark, or of all timings of one."""
    return f"{contract}[{'-'.join(part for part in (implementation, label, timing) if part)}]"


def benchmark(name: str, extra: Mapping[str, Any], samples: Sequence[float], calls: int) -> dict[str, Any]:
    """Return one benchmark as pytest-benchmark stores it, from seconds a call."""
    return {
        "group": f"{extra['contract']} {extra['label']}",
        "name": name,
        "fullname": f"harness/suites/test_benchmarks.py::{name}",
        "params": None,
        "param": name,
        "extra_info": dict(extra),
        "options": {
            "disable_gc": False, "timer": extra["timing"], "min_rounds": 1, "max_time": 0.0, "min_time": 0.0,
            "precision": None, "confidence": None, "warmup": False,
        },
        "stats": stats(samples, calls),
    }  # fmt: skip


def stats(samples: Sequence[float], calls: int) -> dict[str, Any]:
    """Return pytest-benchmark's statistics of ``samples``, quartiles by its rules too."""
    ordered = sorted(samples)
    mean = statistics.fmean(ordered)
    deviation = statistics.stdev(ordered) if len(ordered) > 1 else 0.0
    q1, median, q3 = _lower_quartile(ordered), statistics.median(ordered), _lower_quartile(ordered[::-1])
    inside = [value for value in ordered if q1 - 1.5 * (q3 - q1) <= value <= q3 + 1.5 * (q3 - q1)]
    far, odd = sum(abs(value - mean) > deviation for value in ordered), len(ordered) - len(inside)
    return {
        "min": ordered[0], "max": ordered[-1], "mean": mean, "stddev": deviation, "rounds": len(ordered),
        "median": median, "iqr": q3 - q1, "q1": q1, "q3": q3, "iqr_outliers": odd, "stddev_outliers": far,
        "outliers": f"{far};{odd}", "ld15iqr": inside[0], "hd15iqr": inside[-1],
        "ops": 1 / mean if mean else 0.0, "total": math.fsum(ordered), "iterations": calls,
    }  # fmt: skip


def _lower_quartile(ordered: Sequence[float]) -> float:
    """Return the median of the first half, or, of an odd number, a quarter of the way between its neighbours."""
    count = len(ordered)
    if count == 1:
        return ordered[0]
    if count % 2 == 0:
        return statistics.median(ordered[: count // 2])
    place, rest = divmod(count, 4)
    before, after = (place - 1, place) if rest == 1 else (place, place + 1)
    return (
        0.25 * ordered[before] + 0.75 * ordered[after] if rest == 1 else 0.75 * ordered[before] + 0.25 * ordered[after]
    )


def write(path: Path, document: Document) -> None:
    """Write ``document``, one benchmark a line, so that a diff of two files shows which moved."""
    head = {name: value for name, value in document.items() if name != "benchmarks"}
    lines = json.dumps(head, indent=1, sort_keys=True)[:-2]
    rows = ",\n".join(f"  {json.dumps(row, sort_keys=True)}" for row in document["benchmarks"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{lines},\n "benchmarks": [\n{rows}\n ]\n}}\n')


def read(path: Path) -> Run:
    """Read a file that ``bench run`` or ``pytest --benchmark-json`` wrote.

    Benchmarks without our fields are somebody's own and left out.  Raises SetupError for what is no such file, for
    another format of our fields, and for a file without any benchmark of ours.
    """
    try:
        document = json.loads(path.read_text())
        found = entries(document)
        for part in ("machine_info", "commit_info", "datetime"):
            document[part]
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SetupError(f"{path} is no stored run: {type(error).__name__}: {error}") from error
    form = document.get("harness", {}).get("format", FORMAT)
    if form != FORMAT:
        raise SetupError(f"{path} has format {form} of a run, this harness reads {FORMAT}")
    if not found:
        raise SetupError(f"{path} holds no benchmark of a contract")
    return Run(path=str(path), document=document, entries=found)


def wrong(document: Document) -> list[Mapping[str, Any]]:
    """Return what was refused of ours: an adapter's kernels are not for us to mend."""
    return [item for item in document.get("harness", {}).get("refused", ()) if not item.get("peer")]


def compared(run: Run, repository: Path, commit: str | None = None) -> Run:
    """Return ``run`` with its sources compared with its commit's, where it was only told which, or with ``commit``'s.

    Raises SetupError for a ``commit`` where the run recorded no sources, or git knows none of that name.
    """
    try:
        return replace(run, document=provenance.compared(run.document, repository, commit))
    except LookupError as error:
        raise SetupError(f"{run.path}: {error}") from error


def entries(document: Document) -> dict[Key, Entry]:
    """Return the benchmarks of ``document`` that have our fields, by key; raises KeyError where one lacks its times."""
    return {entry.key: entry for entry in _entries(document)}


def _entries(document: Document) -> Iterator[Entry]:
    for row in document["benchmarks"]:
        extra = row["extra_info"]
        if not all(name in extra for name in _NEEDED):
            continue
        median, blocks = float(row["stats"]["median"]), tuple(map(float, extra["blocks"]))
        means = tuple(map(float, extra.get("block_means", ())))
        for seconds in (median, *blocks, *means):
            if not 0 < seconds < math.inf:
                raise ValueError(f"{row['name']} took {seconds!r} s")
        yield Entry(
            key=_key(extra),
            name=title(extra["contract"], extra["implementation"], extra["label"], extra["timing"]),
            label=extra["label"],
            l2=extra.get("l2", ""),
            median=median,
            low=float(extra.get("median_low", median)),
            high=float(extra.get("median_high", median)),
            blocks=blocks,
            flops=int(extra.get("flops") or 0),
            bytes=int(extra.get("bytes") or 0),
            floor=extra.get("floor"),
            bound=extra.get("bound") or "",
            peer=bool(extra.get("peer")),
            means=means,
            alone=extra.get("blocks_are") == SEGMENTS,
        )


def _key(extra: Mapping[str, Any]) -> Key:
    return extra["contract"], extra["implementation"], extra["case"], extra["timing"]


def narrowed(run: Run, *, contracts: Sequence[str], impl: str | None, match: str, timings: Sequence[str]) -> Run:
    """Return ``run`` with the benchmarks that ``bench run`` would have made with these options, all where none is set.

    Raises SetupError where nothing is left.
    """
    kept = {
        key: entry
        for key, entry in run.entries.items()
        if (not contracts or key[0] in contracts)
        and (impl is None or f"{key[1]}-".startswith(f"{impl}-"))
        and match in title(key[0], key[1], entry.label)
        and (not timings or key[3] in timings)
    }
    if not kept:
        raise SetupError(f"{run.path} holds no benchmark that --contract, --impl, --match and --timing choose")
    ours = [row for row in run.document["benchmarks"] if all(name in row["extra_info"] for name in _NEEDED)]
    rows = [row for row in ours if _key(row["extra_info"]) in kept]
    return Run(path=run.path, document={**run.document, "benchmarks": rows}, entries=kept)


def merged(documents: Sequence[Document], *, data: bool = False) -> Document:
    """Return one run of several processes' documents, each a block.

    Benchmarks of the first that a later one lacks are refused with ``MISSING``.  Every document must hold its samples,
    ``stats.data``, which the result does if ``data``.
    """
    last = documents[-1]
    by_name = [{row["name"]: row for row in document["benchmarks"]} for document in documents]
    refused = {item["name"]: item for document in documents for item in document["harness"]["refused"]}
    rows = []
    for name in by_name[0]:
        found = [block[name] for block in by_name if name in block]
        if len(found) < len(documents):
            missing = len(documents) - len(found)
            refused[name] = {"name": name, "reason": f"{MISSING} {missing} of {len(documents)} blocks"}
            continue
        samples = [value for row in found for value in row["stats"]["data"]]
        extra = dict(found[-1]["extra_info"])
        extra["blocks"] = [rounded(statistics.median(row["stats"]["data"])) for row in found]
        extra["block_means"] = [rounded(statistics.fmean(clipped(row["stats"]["data"]))) for row in found]
        extra["blocks_are"] = PROCESSES
        # the blocks are what differs: the interval is theirs
        extra["median_low"], extra["median_high"] = median_interval(extra["blocks"])
        whole = benchmark(name, with_floor(extra, statistics.median(samples)), samples, _calls(found))
        if data:
            whole["stats"]["data"] = samples
        rows.append(whole)
    return {**last, "benchmarks": rows, "harness": {**last["harness"], "refused": list(refused.values())}}


def _calls(rows: Sequence[Mapping[str, Any]]) -> int:
    return int(rows[-1]["stats"]["iterations"])


def with_floor(extra: dict[str, Any], median: float) -> dict[str, Any]:
    """Return ``extra`` with ``fraction``, the share of the median that the floor is, where there is a floor."""
    floor = extra.get("floor")
    return {**extra, "fraction": None if floor is None else round(floor / median, 4)}


def blocks_of(samples: Sequence[float]) -> list[float]:
    """Return the medians of the segments of one process's samples, as they are stored."""
    return [rounded(value) for value in segmented(tuple(samples))]


def means_of(samples: Sequence[float]) -> list[float]:
    """Return the means of the same segments."""
    return [rounded(value) for value in segmented_means(tuple(samples))]


def rounded(seconds: float) -> float:
    """Return ``seconds`` with the five digits that a clock of a device is good for."""
    return float(f"{seconds:.5g}")
