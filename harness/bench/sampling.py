"""How many samples are enough: until the median is known well, or the time is up."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.bench.numbers import median_interval

#: Segments that the samples of one process are cut into, to see whether it agrees with itself.
SEGMENTS = 10
PATIENCE = 3
#: Share of all samples, at either end, that a mean takes no further out than the next one.
_EDGE = 0.05
#: Samples that are taken and forgotten: the first calls after a pause are slower, or, of a cool device, quicker.
_WARM_UP = 6

Stopped = Literal["precise", "time", "count"]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """When to stop: ``width`` is the half width of the median's interval as a share of the median.

    Never before ``least`` samples, unless they would take more than ``PATIENCE`` times ``seconds``, and then never
    before ``fewest``; never after ``most``.
    """

    width: float = 0.005
    confidence: float = 0.95
    seconds: float = 0.4
    least: int = 2 * SEGMENTS
    fewest: int = 6
    most: int = 2000


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Seconds a call, in the order they were taken; the interval of their median; why there are no more."""

    samples: tuple[float, ...]
    low: float
    high: float
    stopped: Stopped

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.samples)


def segmented(samples: tuple[float, ...]) -> list[float]:
    """Return the medians of up to ``SEGMENTS`` stretches of ``samples``, as long as each other but for one sample."""
    return [statistics.median(stretch) for stretch in _stretches(samples)]


def segmented_means(samples: tuple[float, ...]) -> list[float]:
    """Return the means of the same stretches.

    A median does not show that a call which was slow one time in ten is slow four times in ten; a mean does.
    """
    return [statistics.fmean(stretch) for stretch in _stretches(clipped(samples))]


def clipped(samples: Sequence[float]) -> tuple[float, ...]:
    """Return ``samples`` with the ``_EDGE`` at either end, one or more of three, moved to what is next to them."""
    ordered = sorted(samples)
    rank = math.ceil(_EDGE * len(ordered)) if len(ordered) > 2 else 0
    low, high = ordered[rank], ordered[-1 - rank]
    return tuple(min(max(value, low), high) for value in samples)


def _stretches(samples: tuple[float, ...]) -> list[tuple[float, ...]]:
    count = min(SEGMENTS, len(samples))
    bounds = [round(number * len(samples) / count) for number in range(count + 1)]
    return [samples[start:end] for start, end in itertools.pairwise(bounds)]


def sample(
    take: Callable[[int], list[float]], effort: Effort, *, clock: Callable[[], float] = time.monotonic
) -> Sampled:
    """Call ``take(count)``, which returns seconds a call, until ``effort`` is satisfied.

    The interval assumes samples that are independent, which those of one process are not quite: it decides when to
    stop, and comparisons rest on blocks instead.
    """
    began = clock()
    samples = take(min(_WARM_UP, effort.most))
    if clock() - began < effort.seconds / 4:
        began, samples = clock(), take(min(effort.fewest, effort.most))
    while True:
        spent = clock() - began
        low, high = median_interval(samples, effort.confidence)
        stopped: Stopped | None = None
        if len(samples) >= effort.most:
            stopped = "count"
        elif len(samples) >= effort.least:
            if (high - low) / 2 <= effort.width * statistics.median(samples):
                stopped = "precise"
            elif spent >= effort.seconds:
                stopped = "time"
        elif len(samples) >= effort.fewest and spent >= PATIENCE * effort.seconds:
            stopped = "time"
        if stopped is not None:
            return Sampled(samples=tuple(samples), low=low, high=high, stopped=stopped)
        # half again as many, as far as the time that is left takes them
        pace, slow = spent / len(samples), spent >= effort.seconds
        affordable = int((effort.seconds - spent) / pace) + 1 if pace > 0 and not slow else 1
        missing = effort.least - len(samples)
        if missing > 0:
            # all that are missing at once, if patience lasts so long
            batch = min(missing, max(1, int((PATIENCE * effort.seconds - spent) / pace))) if pace > 0 else missing
        else:
            batch = max(1, min(len(samples) // 2, affordable))
        samples += take(min(batch, effort.most - len(samples)))
