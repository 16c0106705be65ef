"""What must hold of verdicts: checks that a planted fault must fail, on simulated and recorded series."""

from dataclasses import replace

import numpy as np
import pytest

from harness.bench import numbers, series
from harness.bench.verdicts import Evidence, Rules, Verdict, judge
from tests.unit.bench_series import (
    DRIFTS,
    KINDS,
    PROCESSES,
    Noise,
    drifting,
    in_turns,
    recorded,
    recorded_slowdowns,
    runs,
    session,
)

CHECKS = {}
RULES = Rules()
#: What a night has, and enough of it that a share of 1 % is 3 nights.
QUADS, NIGHTS, WORKLOADS = 12, 300, 16


def check(function):
    CHECKS[function.__name__] = function
    return function


def changed(verdicts):
    return (verdicts == Verdict.SLOWER) | (verdicts == Verdict.FASTER)


def alarms(verdicts):
    """The share of nights on which something is claimed to have changed."""
    return changed(verdicts).any(axis=-1).mean()


def judged(times):
    return judge(series.interleaved(times), RULES).verdicts


@check
def students_t_is_the_tabulated_one():
    tails = numbers.student_sf(np.array([2.228139, 4.586894, 0.0, -2.228139]), 10)
    assert tails == pytest.approx([0.025, 0.0005, 0.5, 0.975], rel=1e-4)
    assert numbers.student_sf(12.7062, 1) == pytest.approx(0.025, rel=1e-5)
    assert numbers.student_quantile(0.025, np.array([1.0, 4.0, 30.0])) == pytest.approx([12.7062, 2.776445, 2.042272])
    assert numbers.student_sf(np.inf, 5) == 0
    assert np.isnan(numbers.student_sf(1.0, 0))


@check
def holm_steps_down():
    assert numbers.holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@check
def an_interval_of_a_median_covers_it():
    assert numbers.median_interval(range(1, 21)) == (6, 15)
    rng = np.random.default_rng(1)
    skewed = rng.exponential(size=(1500, 15))
    found = [numbers.median_interval(row) for row in skewed]
    covered = np.mean([low <= np.log(2) <= high for low, high in found])
    assert 0.95 <= covered < 0.99


@check
def the_same_code_gives_no_alarm_whatever_the_noise():
    rng = np.random.default_rng(2)
    for kind in KINDS.values():
        times = session(rng, replace(kind, drift=0.10), trials=NIGHTS, quads=QUADS, workloads=WORKLOADS)
        assert alarms(judged(times)) <= 0.01
        assert alarms(judge(series.interleaved_with_itself(times), RULES).verdicts) <= 0.01


@check
def five_per_cent_are_found_or_doubted_and_never_same():
    rng = np.random.default_rng(3)
    for name, kind in KINDS.items():
        for drift in (0.0, 0.10):
            noise = replace(kind, drift=drift)
            times = session(rng, noise, trials=NIGHTS, quads=QUADS, workloads=WORKLOADS, slowdown=0.05)
            verdicts = judged(times)[:, 0]
            assert set(verdicts) <= {Verdict.SLOWER, Verdict.CANNOT_TELL}, name
            if name not in ("loud", "two clocks"):
                assert (verdicts == Verdict.SLOWER).mean() >= 0.95, (name, drift)


@check
def claims_at_the_margin_itself_are_as_rare_as_promised():
    rng = np.random.default_rng(4)
    at_margin = session(rng, Noise(block=0.003), trials=1000, quads=QUADS, workloads=WORKLOADS)
    at_margin += np.log1p(RULES.margin) * np.array(series.orders(QUADS))[None, :, :, None]
    verdicts = judged(at_margin)
    # of 1000 nights 10 are allowed, and chance adds up to 10
    assert alarms(verdicts) <= 20 / 1000
    assert (verdicts == Verdict.SAME).any(axis=-1).mean() <= 20 / 1000


@check
def same_takes_evidence():
    loud = Evidence(effect=np.zeros(3), error=np.array([0.02, 0.001, np.nan]), df=np.array([11.0, 11.0, np.nan]))
    assert list(judge(loud, RULES).verdicts) == [Verdict.CANNOT_TELL, Verdict.SAME, Verdict.CANNOT_TELL]
    # significantly more than nothing, and shown to be within the margin
    small = Evidence(effect=np.array([0.008]), error=np.array([0.001]), df=np.array([11.0]))
    assert list(judge(small, RULES).verdicts) == [Verdict.SAME]


@check
def directions_are_told_apart():
    both = Evidence(effect=np.array([0.05, -0.05]), error=np.full(2, 0.001), df=np.full(2, 11.0))
    found = judge(both, RULES)
    assert list(found.verdicts) == [Verdict.SLOWER, Verdict.FASTER]
    assert (found.low < both.effect).all()
    assert (found.high > both.effect).all()


@check
def steady_drift_and_position_cancel():
    line = np.linspace(0, 0.1, 4 * QUADS).reshape(1, QUADS, 4, 1)
    assert series.interleaved(line).effect == pytest.approx(0, abs=1e-12)
    assert series.interleaved_with_itself(line).effect == pytest.approx(0, abs=1e-12)
    first = np.zeros((1, QUADS, 4, 1))
    first[:, :, 0] = 0.08
    assert series.interleaved(first).effect == pytest.approx(0, abs=1e-12)
    assert series.interleaved_with_itself(first).effect == pytest.approx(0, abs=1e-12)


@check
def a_change_is_measured_as_large_as_it_is():
    rng = np.random.default_rng(5)
    times = session(rng, Noise(block=1e-4), trials=1, quads=QUADS, workloads=3, slowdown=0.05)
    assert np.expm1(series.interleaved(times).effect[0]) == pytest.approx([0.05, 0, 0], abs=1e-3)


@check
def a_loud_workload_keeps_its_noise_to_itself():
    rng = np.random.default_rng(6)
    times = np.concatenate(
        [session(rng, Noise(block=block), trials=1, quads=QUADS, workloads=1) for block in (0.001, 0.05)], axis=-1
    )
    quiet, loud = series.interleaved(times).error[0]
    assert quiet < 0.001
    assert loud > 0.005
    assert list(judged(times)[0]) == [Verdict.SAME, Verdict.CANNOT_TELL]


@check
def a_block_counts_once():
    times = session(np.random.default_rng(7), Noise(), trials=1, quads=QUADS, workloads=2)
    assert list(series.interleaved(times).df[0]) == [QUADS - 1, QUADS - 1]


@check
def two_runs_without_history_are_doubted_by_the_drift():
    rng = np.random.default_rng(8)
    base = 0.0005 * rng.standard_normal((10, 4))
    head = 0.0005 * rng.standard_normal((10, 4)) + np.log1p([0.0, 0.05, 0.09, 0.16])
    found = judge(series.stored(base, head, np.empty((0, 4)), RULES), RULES)
    assert list(found.verdicts) == [Verdict.CANNOT_TELL] * 3 + [Verdict.SLOWER]


@check
def history_says_how_much_runs_differ():
    rng = np.random.default_rng(9)
    for kind in (Noise(), KINDS["all"]):
        for drift in (0.0, 0.05):
            noise = replace(kind, drift=drift)
            past = runs(rng, noise, trials=NIGHTS, count=22, block_count=10, workloads=8)
            history, base, head = past[:, :21].mean(axis=2), past[:, 20], past[:, 21]
            found = judge(series.stored(base, head, history, RULES), RULES).verdicts
            assert alarms(found) <= 0.01
            slower = judge(series.stored(base, head + np.log1p(0.05), history, RULES), RULES).verdicts
            assert not (slower == Verdict.SAME).any()
            if kind == Noise() and drift == 0:
                assert (slower == Verdict.SLOWER).mean() >= 0.95


@check
def runs_differ_by_what_steps_of_history_say():
    rng = np.random.default_rng(13)
    past = 0.01 * rng.standard_normal((4000, 1))
    blocks = 0.001 * rng.standard_normal((10, 1))
    assert series.stored(blocks, blocks, past, RULES).error == pytest.approx(0.01 * np.sqrt(2), rel=0.05)


@check
def a_step_in_history_does_not_pass_for_calm():
    calm = np.zeros((20, 1)) + 0.0001 * np.arange(20)[:, None] % 2
    wild = calm + 0.05 * (np.arange(20)[:, None] % 3)
    blocks = np.zeros((10, 1)) + 0.0002 * np.arange(10)[:, None]
    assert series.stored(blocks, blocks, wild, RULES).error > 10 * series.stored(blocks, blocks, calm, RULES).error


@check
def a_run_that_differs_from_itself_shows():
    jumping = np.log(1 + 0.1 * (np.arange(10) % 4 // 2 != np.arange(10) % 2))[:, None]
    assert judge(series.with_itself(jumping), RULES).verdicts != [Verdict.SAME]
    assert series.with_itself(np.linspace(0, 0.1, 8)[:, None]).effect == pytest.approx(0, abs=1e-12)


@check
def a_slowdown_that_was_recorded_is_found():
    fast, slow = recorded_slowdowns()
    change = np.expm1((slow - fast).mean(axis=0))
    # 5 % fewer rows take 4.5 % less at most: what a launch takes stays
    large = change > 0.035
    assert large.sum() >= 2
    for drift in DRIFTS:
        rng = np.random.default_rng(14)
        times = in_turns(rng, fast, slow, trials=NIGHTS, quads=QUADS) + drifting(rng, (NIGHTS, QUADS), drift)
        verdicts = judged(times)
        assert not (verdicts == Verdict.FASTER).any()
        assert not (verdicts[:, large] == Verdict.SAME).any()
        assert (verdicts[:, large] == Verdict.SLOWER).mean() >= 0.95, drift


@check
def recorded_nights_hold_beside_their_history():
    blocks = recorded()[PROCESSES]
    for drift in DRIFTS:
        rng = np.random.default_rng(15)
        # 22 runs of 10 neighbouring processes, each with an offset that all its workloads share
        starts = rng.integers(0, blocks.shape[0] - 9, size=(NIGHTS, 22))
        nights = blocks[starts[..., None] + np.arange(10)] + drift * rng.uniform(-0.5, 0.5, (NIGHTS, 22, 1, 1))
        history, base, head = nights[:, :21].mean(axis=2), nights[:, 20], nights[:, 21]
        assert alarms(judge(series.stored(base, head, history, RULES), RULES).verdicts) <= 0.01, drift
        slower = judge(series.stored(base, head + np.log1p(0.05), history, RULES), RULES).verdicts
        assert not ((slower == Verdict.SAME) | (slower == Verdict.FASTER)).any(), drift
        if drift == 0:
            calm = blocks.std(axis=0, ddof=1) < 0.01
            assert (slower[:, calm] == Verdict.SLOWER).mean() >= 0.95


@check
def recorded_series_hold_too():
    assert recorded()
    for name, blocks in recorded().items():
        rng = np.random.default_rng(10)
        times = in_turns(rng, blocks, blocks, trials=NIGHTS, quads=QUADS)
        for drift in DRIFTS:
            assert alarms(judged(times + drifting(rng, times.shape[:2], drift))) <= 0.01, (name, drift)
        head = np.array(series.orders(QUADS))[None, :, :, None]
        slower = judged(times + np.log1p(0.05) * head)
        assert not ((slower == Verdict.SAME) | (slower == Verdict.FASTER)).any(), name
        calm = blocks.std(axis=0, ddof=1) < 0.01
        assert calm.mean() > 0.4, name
        assert (slower[:, calm] == Verdict.SLOWER).mean() >= 0.95, name
