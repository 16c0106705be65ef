"""Simulated times of blocks: drift of a session, of runs, warming, autocorrelation, heavy tails, two clock rates."""

import json
import lzma
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.bench.series import orders


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Shares of time.  ``drift``: over one session or between runs; the others: from block to block.

    ``warming``: how much slower the first block is, gone after a few; ``slow_share``: how often a block meets the
    lower clock rate, which costs ``slow``.
    """

    drift: float = 0.0
    block: float = 0.003
    correlation: float = 0.0
    heavy: bool = False
    warming: float = 0.0
    slow: float = 0.0
    slow_share: float = 0.0


#: Each kind of noise alone and all together; the drift comes on top.
KINDS = {
    "quiet": Noise(),
    "warming": Noise(warming=0.05),
    "correlated": Noise(correlation=0.8),
    "heavy tails": Noise(heavy=True),
    "two clocks": Noise(slow=0.03, slow_share=0.25),
    "loud": Noise(block=0.02),
    "all": Noise(block=0.004, correlation=0.6, heavy=True, warming=0.03, slow=0.02, slow_share=0.1),
}
DRIFTS = (0.0, 0.02, 0.05, 0.10)


def blocks(rng, noise, shape):
    """Return ``[trials, blocks, workloads]`` log times around 0, without the drift."""
    trials, count, workloads = shape
    drawn = rng.standard_t(3, shape) / np.sqrt(3) if noise.heavy else rng.standard_normal(shape)
    times = np.empty(shape)
    last = rng.standard_normal((trials, workloads))
    keep = noise.correlation
    for block in range(count):
        last = keep * last + np.sqrt(1 - keep * keep) * drawn[:, block]
        times[:, block] = noise.block * last
    times += noise.warming * np.exp(-np.arange(count) / 2)[None, :, None]
    # a clock rate is the whole device's
    slow = rng.random((trials, count, 1)) < noise.slow_share
    return times + noise.slow * slow


def session(rng, noise, *, trials, quads, workloads, slowdown=0.0):
    """Return ``[trials, quads, 4, workloads]`` of a session in turns; ``slowdown`` of head in the first workload."""
    count = 4 * quads
    times = blocks(rng, noise, (trials, count, workloads))
    times = times.reshape(trials, quads, 4, workloads) + drifting(rng, (trials, quads), noise.drift)
    times[..., 0] += np.log1p(slowdown) * np.array(orders(quads))[None]
    return times


def runs(rng, noise, *, trials, count, block_count, workloads):
    """Return ``[trials, runs, blocks, workloads]``: every run with an offset of its own, part of it all workloads'."""
    times = np.stack([blocks(rng, noise, (trials, block_count, workloads)) for _ in range(count)], axis=1)
    shared = rng.uniform(-0.5, 0.5, (trials, count, 1, 1))
    own = rng.uniform(-0.5, 0.5, (trials, count, 1, workloads))
    return times + noise.drift * (0.7 * shared + 0.3 * own)


RECORDINGS = Path(__file__).parent / "recordings"
#: Implementations that only `PROCESSES` holds: the same kernel on about 5 % fewer rows, and on all.
FEWER, ALL = "fewer rows", "triton"
PROCESSES = "bench_processes_h200.json.xz"


def recorded():
    """Return, by file, ``[blocks, workloads]`` log medians of one build on an H200, in the order they were taken."""
    return {file.name: _read(file)[1] for file in sorted(RECORDINGS.glob("bench_[!r]*.json.xz"))}


def recorded_slowdowns():
    """Return ``[blocks, workloads]`` log medians of processes, of the faster build and of the slower one."""
    names, blocks = _read(RECORDINGS / PROCESSES)
    fast = [place for place, name in enumerate(names) if f"[{FEWER}-" in name]
    slow = [names.index(names[place].replace(f"[{FEWER}-", f"[{ALL}-")) for place in fast]
    return blocks[:, fast], blocks[:, slow]


def _read(file):
    content = json.loads(lzma.decompress(file.read_bytes()))
    return content["names"], np.log(np.array(content["blocks"]))


def in_turns(rng, base, head, *, trials, quads):
    """Return ``[trials, quads, 4, workloads]``: quads of neighbouring blocks, so that drift and correlation stay."""
    starts = rng.integers(0, base.shape[0] - 3, size=(trials, quads))
    taken = starts[..., None] + np.arange(4)
    return np.where(np.array(orders(quads))[None, :, :, None], head[taken], base[taken])


def drifting(rng, shape, drift):
    """Return ``[trials, quads, 4, 1]`` of a session's drift: half steady, half one that wanders."""
    trials, quads = shape
    count = 4 * quads
    line = np.linspace(0, 1, count)[None, :, None]
    walk = np.cumsum(rng.standard_normal((trials, count, 1)), axis=1) / np.sqrt(count)
    return (drift / 2 * (rng.choice((-1, 1), (trials, 1, 1)) * line + walk)).reshape(trials, quads, 4, 1)
