"""Every registered implementation on its contract's workloads, timed: ``pytest -m benchmark --benchmark-json FILE``.

On a machine with a GPU times are the device's, elsewhere the virtual GPU's on the pinned cases.  A wrong result fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness import plugin
from harness.bench import run
from harness.bench.measure import Bench, Measured, Refused
from harness.bench.timings import NAMES, VIRTUAL
from harness.contract import Contract, Implementation


@dataclass(frozen=True)
class Workload:
    """One benchmark of one implementation."""

    contract: Contract[Any]
    implementation: Implementation
    case: Any
    label: str
    timing: str

    def __str__(self) -> str:
        """Return a test's name in characters that ``-k`` takes."""
        label = self.label.replace("=", ":").replace(",", "+")
        return f"{self.contract.name}-{self.implementation.name}-{label}-{self.timing}"


@dataclass
class Benched:
    """Times all of an implementation's timings of a case at once, when the first of them is asked for."""

    bench: Bench
    refused: dict[str, Refused] = field(default_factory=dict)
    found: dict[tuple[str, str, str], dict[str, Measured | Refused]] = field(default_factory=dict)

    def of(self, workload: Workload) -> Measured | Refused:
        """Return the benchmark of ``workload``, or why there is none."""
        key = workload.contract.name, workload.implementation.name, workload.label
        if key not in self.found:
            done = self.bench.measure(workload.contract, [workload.implementation], workload.case, workload.label)
            self.found[key] = {one.extra["timing"] if isinstance(one, Measured) else "": one for one in done}
        found = self.found[key].get(workload.timing) or self.found[key][""]
        if isinstance(found, Refused):
            self.refused[found.name] = found
        return found

    def ours(self) -> dict[str, Any]:
        """Return what a stored run holds beside its benchmarks."""
        return run.ours(self.bench, [one.row() for one in self.refused.values()])


class _Clock:
    """A timer for pytest-benchmark that goes on by what the device's events said, sample by sample."""

    def __init__(self) -> None:
        self._now = 0.0
        self._samples: Iterator[float] = iter(())

    def __call__(self) -> float:
        return self._now

    def play(self, samples: tuple[float, ...]) -> None:
        """Start over with ``samples``."""
        self._now, self._samples = 0.0, iter(samples)

    def step(self) -> None:
        """Let one sample pass."""
        self._now += next(self._samples)


_CLOCK = _Clock()
pytestmark = pytest.mark.benchmark(timer=_CLOCK)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise by every benchmark that ``--contract`` and ``--impl`` leave."""
    import torch

    pairs, on_device = plugin._pairs(metafunc.config), torch.cuda.is_available()
    values = [
        Workload(contract, implementation, case, label, timing)
        for contract, implementations, case, label in run.workloads(pairs, on_device=on_device)
        for implementation in implementations
        for timing in (NAMES if on_device else (VIRTUAL,))
    ]
    metafunc.parametrize("workload", values, ids=str)


@pytest.fixture(scope="session")
def benched(request: pytest.FixtureRequest) -> Benched:
    """What is shared by all benchmarks of a session: the lane, and the device's rates."""
    made = Benched(run.bench_of(run.Wanted()))
    request.config._harness_benched = made  # type: ignore[attr-defined]
    return made


def test_workload(benchmark: Any, benched: Benched, workload: Workload) -> None:
    done = benched.of(workload)
    if isinstance(done, Refused):
        pytest.fail(f"not timed: {done.reason}", pytrace=False)
    benchmark.group = f"{workload.contract.name} {workload.label}"
    benchmark.extra_info.update(done.extra)
    _CLOCK.play(done.sampled.samples)
    benchmark.pedantic(_CLOCK.step, rounds=len(done.sampled.samples))
