"""What must hold of sampling: when it stops, and what it makes of its samples."""

import statistics
from types import SimpleNamespace

import numpy as np

from harness.bench import sampling, store
from harness.bench.sampling import Effort

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def _clocked(samples, seconds_each):
    """A source of samples, and a clock that goes on by ``seconds_each`` a sample."""
    state = SimpleNamespace(now=0.0, taken=0)

    def take(count):
        state.taken += count
        state.now += count * seconds_each
        return [next(samples) for _ in range(count)]

    return take, lambda: state.now


@check
def sampling_stops_when_the_median_is_known():
    quiet = (1.0 + 0.001 * (place % 3) for place in range(10**6))
    take, clock = _clocked(quiet, 1e-3)
    found = sampling.sample(take, Effort(width=0.005, seconds=10), clock=clock)
    assert found.stopped == "precise"
    assert len(found.samples) == Effort().least
    warming = iter([5.0] * 6 + [1.0] * 1000)
    take, clock = _clocked(warming, 1e-3)
    assert set(sampling.sample(take, Effort(seconds=10), clock=clock).samples) == {1.0}
    # one sample in a hundred that was very quick, or very slow, changes nothing
    spiked = (0.01 if place % 10 == 0 else 1.0 for place in range(10**6))
    take, clock = _clocked(spiked, 1e-3)
    assert sampling.sample(take, Effort(seconds=10), clock=clock).median == 1.0


@check
def sampling_stops_when_the_time_is_up():
    loud = iter(np.random.default_rng(0).exponential(size=10**6))
    take, clock = _clocked(loud, 1e-2)
    found = sampling.sample(take, Effort(width=1e-6, seconds=1.0), clock=clock)
    assert found.stopped == "time"
    assert 0.9 <= len(found.samples) * 1e-2 <= 1.6
    take, clock = _clocked(loud, 0.1)
    assert len(sampling.sample(take, Effort(seconds=1.0), clock=clock).samples) == Effort().least
    # nobody waits for twenty samples of ten seconds
    take, clock = _clocked(loud, 10.0)
    assert len(sampling.sample(take, Effort(seconds=1.0), clock=clock).samples) == Effort().fewest
    take, clock = _clocked(loud, 0.0)
    found = sampling.sample(take, Effort(width=1e-9, most=55), clock=clock)
    assert (found.stopped, len(found.samples)) == ("count", 55)


@check
def segments_are_medians_of_all_samples_in_order():
    samples = tuple(float(place) for place in range(100))
    assert sampling.segmented(samples) == [statistics.median(samples[i : i + 10]) for i in range(0, 100, 10)]
    assert sampling.segmented((3.0, 9.0, 100.0)) == [3.0, 9.0, 100.0]
    assert store.blocks_of([1.0, 1.0, 50.0] * 10)[0] == 1.0
