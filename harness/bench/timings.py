"""Ways of timing a launch; each says what the L2 cache holds when a call begins.

``dob``: one captured call, the L2 flushed before (cold), as ``do_bench`` of a graph's replay does.  ``rot``: a captured
run of calls on inputs at different addresses, more of them than the L2 holds (cold).  ``warm``: the same run of calls
on one set of inputs (warm, as far as they fit).  ``vgpu``: CPU seconds of one call on the virtual GPU.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from harness.bench.events import seconds
from harness.contract import Inputs
from harness.copies import copied, storage_bytes
from harness.lanes import VirtualLane

NAMES = ("rot", "dob", "warm")
VIRTUAL = "vgpu"
Cache = Literal["cold", "warm", "none"]

#: A run of calls lasts about so long, so that a clock's steps of half a microsecond are nothing in it.
_RUN_SECONDS = 1e-3
_MOST_CALLS, _MOST_SETS = 64, 1024
#: Inputs of a rotation hold so many times what the L2 does.
_L2_TIMES = 4
#: Of the device's free memory, what copies of inputs may take.
_COPIES_SHARE = 0.4


@dataclass(frozen=True, kw_only=True)
class Timing:
    """``take(count)`` returns seconds a call of so many samples, each the mean of ``calls`` calls.

    ``sets`` counts the distinct inputs; ``captured`` is empty for a captured graph, else why it is none.
    """

    name: str
    l2: Cache
    take: Callable[[int], list[float]]
    calls: int = 1
    sets: int = 1
    captured: str = ""


@dataclass(frozen=True)
class _Replay:
    """A graph, and the inputs whose memory it uses for as long as it lives."""

    graph: torch.cuda.CUDAGraph
    inputs: list[Inputs]

    def run(self) -> None:
        self.graph.replay()


class DeviceTimings:
    """The timings of launches on one CUDA device."""

    def __init__(self, device: torch.device) -> None:
        properties = torch.cuda.get_device_properties(device)
        self.device = device
        self.l2_bytes = int(properties.L2_cache_size)
        # what do_bench flushes with, and twice a larger L2
        self._flush = torch.empty(max(256 * 2**20, 2 * self.l2_bytes), dtype=torch.uint8, device=device)

    def of(self, launch: Callable[..., Any], inputs: Inputs, touched: int, names: Sequence[str]) -> list[Timing]:
        """Return the timings called ``names`` of ``launch(**inputs)``, which moves about ``touched`` bytes."""
        launch(**inputs)
        torch.cuda.synchronize(self.device)
        one, why = self._captured(launch, [inputs], 1)
        estimate = min(self._take(one, 1, flushed=False)(3))
        found = []
        for name in names:
            if name == "dob":
                found.append(Timing(name=name, l2="cold", take=self._take(one, 1, flushed=True), captured=why))
                continue
            sets = [inputs] if name == "warm" else self._sets(inputs, touched)
            runs = max(1, round(_RUN_SECONDS / max(estimate, 1e-7) / len(sets)))
            calls = len(sets) * max(1, min(runs, _MOST_CALLS // len(sets)))
            run, why_not = self._captured(launch, sets, calls)
            rotated = len(sets) > 1 and len(sets) * touched >= 2 * self.l2_bytes
            cold: Cache = "cold" if rotated or (name == "rot" and touched >= 2 * self.l2_bytes) else "warm"
            take = self._take(run, calls, flushed=False)
            found.append(Timing(name=name, l2=cold, take=take, calls=calls, sets=len(sets), captured=why_not))
        return found

    def _sets(self, inputs: Inputs, touched: int) -> list[Inputs]:
        """Return ``inputs`` and copies of them, enough that a call finds nothing of the call before its own set."""
        wanted = min(_MOST_SETS, max(2, -(-_L2_TIMES * self.l2_bytes // max(1, touched))))
        free, _ = torch.cuda.mem_get_info(self.device)
        fitting = int(_COPIES_SHARE * free) // max(1, storage_bytes(inputs))
        return [inputs, *(copied(inputs) for _ in range(min(wanted - 1, fitting)))]

    def _captured(self, launch: Callable[..., Any], sets: list[Inputs], calls: int) -> tuple[Callable[[], object], str]:
        """Return a run of ``calls`` calls as a graph's replay, or as plain calls and the reason."""
        cycle = list(itertools.islice(itertools.cycle(sets), calls))
        graph = torch.cuda.CUDAGraph()
        try:
            # a capture that fails leaves its own stream the current one
            with torch.cuda.stream(torch.cuda.current_stream(self.device)), torch.cuda.graph(graph):
                for chosen in cycle:
                    launch(**chosen)
        except Exception as error:
            torch.cuda.synchronize(self.device)
            return lambda: [launch(**chosen) for chosen in cycle], f"{type(error).__name__}: {error}".split("\n")[0]
        return _Replay(graph, sets).run, ""

    def _take(self, run: Callable[[], object], calls: int, *, flushed: bool) -> Callable[[int], list[float]]:
        def take(count: int) -> list[float]:
            before = self._flush.zero_ if flushed else None
            return [taken / calls for taken in seconds(run, count, before=before)]

        return take


def virtual(launch: Callable[..., Any], inputs: Inputs, lane: VirtualLane) -> Timing:
    """Return the timing of one call on the virtual GPU, in CPU seconds of this process.

    It is called once before: results may have been checked elsewhere, and a first call compiles.
    """

    def take(count: int) -> list[float]:
        taken = []
        for _ in range(count):
            began = time.process_time()
            execution = lane.run(launch, inputs)
            taken.append(time.process_time() - began)
            if execution.error is not None:
                raise execution.error
        return taken

    take(1)
    return Timing(name=VIRTUAL, l2="none", take=take)
