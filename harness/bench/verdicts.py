"""From an effect and its error to *faster*, *same*, *slower* or *cannot tell*, for many workloads at once."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np

from harness.bench.defaults import ALPHA, DRIFT, LONE, MARGIN
from harness.bench.numbers import Array, holm, student_quantile, student_sf


class Verdict(enum.StrEnum):
    """How the head compares with the base on one workload."""

    FASTER = "faster"
    SAME = "same"
    SLOWER = "slower"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a verdict takes.

    ``margin``: changes of time up to this share count as none.  ``alpha``: the chance, over all workloads of a
    comparison together, that a change is claimed where there is none past the margin, and likewise that *same* is
    claimed where there is one.  ``drift``: how much two runs of the same code may differ where no history says how
    much they do; ``lone``: how far a run of one process may be off where too few runs say.  ``resolution``: the least
    standard error that is believed, as a share.  ``confidence``: of the interval that is shown.
    """

    margin: float = MARGIN
    alpha: float = ALPHA
    drift: float = DRIFT
    lone: float = LONE
    resolution: float = 0.0005
    confidence: float = 0.99

    def __post_init__(self) -> None:
        for name in ("margin", "alpha", "drift", "lone", "resolution", "confidence"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name}: wanted a share between 0 and 1, got {getattr(self, name)!r}")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was measured of each workload, the last axis: logarithms of head's time over base's.

    ``error`` is the standard error of ``effect`` with ``df`` degrees of freedom, NaN where nothing is known of it;
    ``doubt`` is added to either side, for what no measurement here could have shown.
    """

    effect: Array
    error: Array
    df: Array
    doubt: Array | float = 0.0


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The evidence judged: verdicts, ``low`` and ``high`` of the interval around ``effect``, adjusted p values.

    ``p_change`` belongs to the claim of a change past the margin, ``p_same`` to that of none.
    """

    effect: Array
    low: Array
    high: Array
    p_change: Array
    p_same: Array
    verdicts: np.ndarray[tuple[int, ...], np.dtype[np.object_]]


def judge(evidence: Evidence, rules: Rules, means: Evidence | None = None) -> Judgement:
    """Judge every workload; *same* is claimed by an equivalence test, never for want of evidence.

    ``means`` is the evidence of means beside that of medians: *same* takes both, for a median does not show that calls
    which were slow now and then are slow more often.

    Both claims are corrected by Holm's method and not by Benjamini and Hochberg's: clocks and temperature are shared
    by all workloads of a run, so that tests depend on each other, and one wrong alarm a hundred nights is one too many.
    """
    margin, error = math.log1p(rules.margin), np.maximum(evidence.error, rules.resolution)
    away = margin + evidence.doubt
    with np.errstate(invalid="ignore"):
        slower = student_sf((evidence.effect - away) / error, evidence.df)
        faster = student_sf((-evidence.effect - away) / error, evidence.df)
        width = student_quantile((1 - rules.confidence) / 2, evidence.df) * error + evidence.doubt
    p_change = holm(_known(np.minimum(2 * np.minimum(slower, faster), 1)))
    p_same = _equivalent(evidence, rules)
    if means is not None:
        p_same = np.maximum(p_same, _equivalent(means, rules))
    verdicts = np.full(evidence.effect.shape, Verdict.CANNOT_TELL, dtype=object)
    verdicts[p_same <= rules.alpha] = Verdict.SAME
    verdicts[(p_change <= rules.alpha) & (evidence.effect > 0)] = Verdict.SLOWER
    verdicts[(p_change <= rules.alpha) & (evidence.effect < 0)] = Verdict.FASTER
    return Judgement(
        effect=evidence.effect,
        low=evidence.effect - width,
        high=evidence.effect + width,
        p_change=p_change,
        p_same=p_same,
        verdicts=verdicts,
    )


def _equivalent(evidence: Evidence, rules: Rules) -> Array:
    """Return adjusted p values of the claim that times differ by no more than the margin."""
    inside, error = math.log1p(rules.margin) - evidence.doubt, np.maximum(evidence.error, rules.resolution)
    with np.errstate(invalid="ignore"):
        below = student_sf((inside - evidence.effect) / error, evidence.df)
        above = student_sf((inside + evidence.effect) / error, evidence.df)
    return holm(_known(np.maximum(below, above)))


def _known(p: Array) -> Array:
    """Return ``p`` with 1 where there is nothing to test."""
    return np.where(np.isnan(p), 1.0, p)
