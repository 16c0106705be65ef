"""One run: every chosen implementation on every workload, in this process, as one document."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from harness.bench import gates, machine, rates, readings, store
from harness.bench.labels import labels
from harness.bench.measure import Bench, Measured, Refused, refusal
from harness.bench.sampling import Effort
from harness.bench.timings import NAMES, DeviceTimings
from harness.contract import Contract, Implementation
from harness.device import detect, unmet
from harness.discover import SetupError
from harness.lanes import ContextLost, Lane, VirtualLane

LaneName = Literal["auto", "cuda", "vgpu"]
Pairs = Sequence[tuple[Contract[Any], Implementation]]
#: The virtual GPU is as quick in the twentieth call as in the tenth, and slow.
VIRTUAL_EFFORT = Effort(width=0.03, seconds=0.5, least=6, most=40)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to time: ``lane``, ``timings``, benchmarks whose name contains ``match``; ``checked``: results first.

    Names are ``contract[implementation-label]``; where there are ``names``, only those, and none of ``without``.
    ``gates``: what was found when other processes checked them.
    """

    lane: LaneName = "auto"
    timings: Sequence[str] = NAMES
    match: str = ""
    effort: Effort | None = None
    checked: bool = True
    gates: gates.Checked | None = None
    names: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()

    def chooses(self, name: str) -> bool:
        """Whether the benchmarks called ``name`` are wanted."""
        return self.match in name and (not self.names or name in self.names) and name not in self.without


EVERYTHING = Wanted()


def lane_of(wanted: Wanted) -> Lane:
    """Return the lane of a run on this machine; raises SetupError where its device is not there."""
    name = wanted.lane
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "vgpu"
    if name == "vgpu":
        return VirtualLane()
    if not torch.cuda.is_available():
        raise SetupError(f"no CUDA device to time on: found {detect()}")
    from harness.hardware.lane import device_lane

    found = device_lane()
    return replace(found, oracle_device=found.device)


def bench_of(wanted: Wanted) -> Bench:
    """Return what a run on this machine needs; raises SetupError where its device is not there."""
    on_device = lane_of(wanted)
    if isinstance(on_device, VirtualLane):
        effort = wanted.effort or VIRTUAL_EFFORT
        return Bench(lane=on_device, effort=effort, checked=wanted.checked, gates=wanted.gates)
    uuid = machine.device_info("cuda")["uuid"]
    return Bench(
        lane=on_device,
        effort=wanted.effort or Effort(),
        names=wanted.timings,
        device=DeviceTimings(on_device.device),
        rates=rates.measured(on_device.device),
        reading=functools.partial(readings.reading, uuid),
        checked=wanted.checked,
        gates=wanted.gates,
    )


def share(pairs: Pairs, wanted: Wanted, number: int, count: int, out: Path) -> None:
    """Check every ``count``-th workload from ``number`` on, time nothing, and write what is known to ``out``.

    What ``out`` says already is not checked again.
    """
    lane = lane_of(wanted)
    on_device = not isinstance(lane, VirtualLane)
    chosen = workloads(pairs, wanted, on_device=on_device)
    keep = functools.partial(gates.write, out)
    gates.write(out, gates.share(chosen, lane, number, count, before=gates.read(out), keep=keep))


def workloads(
    pairs: Pairs, wanted: Wanted = EVERYTHING, *, on_device: bool
) -> Iterator[tuple[Contract[Any], list[Implementation], Any, str]]:
    """Yield (contract, implementations, case, label) of what is timed, ``on_device`` or on the virtual GPU.

    Implementations whose hardware is not here are left out.
    """
    here = detect() if on_device else None
    by_contract: dict[str, list[Implementation]] = {}
    for owner, implementation in pairs:
        fits = here is None or unmet(implementation.requires.targets, here) is None
        by_contract.setdefault(owner.name, []).extend([implementation] if fits else [])
    contracts = {owner.name: owner for owner, _ in pairs}
    for name, implementations in by_contract.items():
        timed = timed_cases(contracts[name], on_device=on_device)
        for case, label in zip(timed, labels(timed), strict=True):
            chosen = [one for one in implementations if wanted.chooses(store.title(name, one.name, label))]
            if chosen:
                yield contracts[name], chosen, case, label


def timed_cases(contract: Contract[Any], *, on_device: bool) -> tuple[Any, ...]:
    """Return the contract's workloads, or, for the virtual GPU, which they are too large for, its pinned cases.

    Pinned cases with far parts are left out: their time is that of making address space.
    """
    if on_device:
        return contract.workloads
    return tuple(case for case in contract.pinned if not _far(case))


def _far(case: Any) -> bool:
    """Whether a case has a part that is laid out far apart."""
    return "kind='far'" in repr(case) or "far=True" in repr(case)


def run(
    pairs: Pairs,
    wanted: Wanted,
    *,
    tree: Path,
    commit: str | None = None,
    data: bool = False,
    on_done: Callable[[Measured | Refused], None] = lambda done: None,
) -> store.Document:
    """Time everything and return the document, with the samples themselves if ``data``.

    What an interrupt, or a loss of the device, leaves is returned too; what comes after it is among the refused.
    """
    bench = bench_of(wanted)
    rows: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    for contract, implementations, case, label in workloads(pairs, wanted, on_device=bench.device is not None):
        try:
            for done in bench.measure(contract, implementations, case, label):
                if isinstance(done, Refused):
                    refused.append(done.row())
                else:
                    rows.append(done.row(data=data))
                on_done(done)
        except (ContextLost, KeyboardInterrupt) as error:
            reason = f"{str(error) or 'interrupted'}; nothing was timed after it"
            timed = {row["name"] for row in rows}
            for one in implementations:
                names = {store.title(contract.name, one.name, label, timing) for timing in bench.timings}
                if not names <= timed:
                    refused.append(refusal(one, store.title(contract.name, one.name, label), reason).row())
            break
    return document(bench, rows, refused, tree=tree, commit=commit)


def document(
    bench: Bench,
    rows: list[dict[str, Any]],
    refused: list[dict[str, Any]],
    *,
    tree: Path,
    commit: str | None = None,
) -> store.Document:
    """Return a whole document around ``rows``."""
    return {
        "machine_info": machine.machine_info("vgpu" if bench.device is None else "cuda"),
        "commit_info": machine.commit_info(tree, commit),
        "benchmarks": rows,
        "datetime": machine.now(),
        "version": store.VERSION,
        "harness": ours(bench, refused),
    }


def ours(bench: Bench, refused: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a document holds of ours beside its benchmarks."""
    found = bench.rates
    return {
        "format": store.FORMAT,
        "rates": None if found is None else {"copy": found.copy, "matmul": found.matmul},
        "effort": {"width": bench.effort.width, "seconds": bench.effort.seconds, "most": bench.effort.most},
        "refused": refused,
    }
