"""One workload of one contract: drawn, checked, timed in every way that was asked for."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.bench import store
from harness.bench.drawing import drawn
from harness.bench.gate import Gate
from harness.bench.gates import Checked
from harness.bench.labels import digest
from harness.bench.peers import is_peer
from harness.bench.rates import Rates
from harness.bench.readings import Reading
from harness.bench.sampling import Effort, Sampled, sample
from harness.bench.timings import NAMES, VIRTUAL, DeviceTimings, Timing, virtual
from harness.contract import Contract, Implementation, Inputs, Work
from harness.copies import storage_bytes
from harness.lanes import ContextLost, Lane, VirtualLane
from harness.outcome import described


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A benchmark that was not made, and why; ``peer``: of an adapter's implementation."""

    name: str
    reason: str
    peer: bool = False

    def row(self) -> dict[str, Any]:
        """Return it as a stored run holds it."""
        return {"name": self.name, "reason": self.reason, **({"peer": True} if self.peer else {})}


def refusal(implementation: Implementation, name: str, reason: str) -> Refused:
    """Return what stands for the benchmarks called ``name`` of ``implementation``."""
    return Refused(name=name, reason=reason, peer=is_peer(implementation))


def _first(error: Exception) -> str:
    return described(error).splitlines()[0]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One benchmark: its name, our fields, and its samples in seconds a call."""

    name: str
    extra: dict[str, Any]
    sampled: Sampled
    calls: int

    def row(self, *, data: bool = False) -> dict[str, Any]:
        """Return it as pytest-benchmark stores it, with its samples if ``data``."""
        row = store.benchmark(self.name, self.extra, self.sampled.samples, self.calls)
        if data:
            row["stats"]["data"] = list(self.sampled.samples)
        return row


@dataclass
class Bench:
    """What is the same for all workloads of a run: where they run, how long, which timings, what is read meanwhile.

    ``device`` is None for the virtual GPU.  Results are checked here first, unless ``gates`` says what other processes
    found, or ``checked`` is false.
    """

    lane: Lane
    effort: Effort = field(default_factory=Effort)
    names: Sequence[str] = NAMES
    device: DeviceTimings | None = None
    rates: Rates | None = None
    reading: Callable[[], Reading] = dict
    checked: bool = True
    gates: Checked | None = None

    @property
    def timings(self) -> Sequence[str]:
        """The ways of timing that each implementation gets here."""
        return (VIRTUAL,) if self.device is None else self.names

    def measure(
        self, contract: Contract[Any], implementations: Sequence[Implementation], case: Any, label: str
    ) -> Iterator[Measured | Refused]:
        """Yield every timing of each implementation on ``case``; one Refused in place of what must not be timed."""

        def title(implementation: Implementation, timing: str = "") -> str:
            return store.title(contract.name, implementation.name, label, timing)

        try:
            inputs, drawn_by = drawn(contract, case, self.lane.device)
            work = None if contract.work is None else contract.work(case, inputs)
        except ContextLost:
            raise
        except Exception as error:
            # whatever a contract's own code raises: other benchmarks are not lost by it
            for implementation in implementations:
                yield refusal(implementation, title(implementation), f"no inputs: {_first(error)}")
            return
        refusals = self._refusals(contract, implementations, case, inputs, label)
        # the oracles' memory, which copies of the inputs may need
        self._release()
        for implementation in implementations:
            if (reason := refusals[implementation.name]) is not None:
                yield refusal(implementation, title(implementation), reason)
                continue
            fixed = {
                "contract": contract.name,
                "implementation": implementation.name,
                "label": label,
                "case": digest(case),
                "inputs": drawn_by,
                **self._work(work),
                **({"peer": True} if is_peer(implementation) else {}),
            }
            try:
                for timing in self._timings(implementation, inputs, work):
                    yield self._measured(title(implementation, timing.name), timing, fixed)
            except ContextLost:
                raise
            except Exception as error:
                # on the virtual GPU it is what the launch raised
                yield refusal(implementation, title(implementation), f"timing it failed: {_first(error)}")
            self._release()

    def _refusals(
        self,
        contract: Contract[Any],
        implementations: Sequence[Implementation],
        case: Any,
        inputs: Inputs,
        label: str,
    ) -> dict[str, str | None]:
        """Return why each must not be timed, by name; None where nothing is against it."""
        titles = {one.name: store.title(contract.name, one.name, label) for one in implementations}
        if not self.checked:
            return dict.fromkeys(titles)
        found, here = {}, list(implementations)
        if self.gates is not None:
            found = {name: self.gates.refusal(title) for name, title in titles.items()}
            here = [one for one in implementations if titles[one.name] in self.gates.again]
        if here:
            gate = Gate(contract, case, self.lane, inputs)
            found |= {one.name: gate.refusal(one) for one in here}
        return found

    def _timings(self, implementation: Implementation, inputs: Inputs, work: Work | None) -> Iterator[Timing]:
        if self.device is None:
            assert isinstance(self.lane, VirtualLane)
            yield virtual(implementation.launch, inputs, self.lane)
            return
        touched = storage_bytes(inputs) if work is None else work.bytes
        yield from self.device.of(implementation.launch, inputs, touched, self.names)

    def _measured(self, name: str, timing: Timing, fixed: dict[str, Any]) -> Measured:
        before = self.reading()
        sampled = sample(timing.take, self.effort)
        odd = [seconds for seconds in sampled.samples if not 0 < seconds < math.inf]
        if odd:
            raise RuntimeError(f"{timing.name} took {odd[0]} s")
        extra = {
            **fixed,
            "lane": VIRTUAL if self.device is None else "cuda",
            "timing": timing.name,
            "l2": timing.l2,
            "calls": timing.calls,
            "sets": timing.sets,
            "graph": timing.captured or "captured" if self.device is not None else "none",
            "stopped": sampled.stopped,
            "median_low": sampled.low,
            "median_high": sampled.high,
            "confidence": self.effort.confidence,
            "blocks": store.blocks_of(sampled.samples),
            "block_means": store.means_of(sampled.samples),
            "blocks_are": store.SEGMENTS,
            "before": before,
            "after": self.reading(),
        }
        return Measured(
            name=name,
            extra=store.with_floor(extra, statistics.median(sampled.samples)),
            sampled=sampled,
            calls=timing.calls,
        )

    def _work(self, work: Work | None) -> dict[str, Any]:
        if work is None:
            return {"flops": None, "bytes": None, "floor": None, "bound": ""}
        if self.rates is None:
            return {"flops": work.flops, "bytes": work.bytes, "floor": None, "bound": ""}
        floor = store.rounded(self.rates.floor(work))
        return {"flops": work.flops, "bytes": work.bytes, "floor": floor, "bound": self.rates.bound(work)}

    def _release(self) -> None:
        if self.device is not None:
            torch.cuda.empty_cache()
