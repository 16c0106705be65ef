"""How often verdicts are wrong, and how often five per cent are found, on many more simulated nights than the tests."""

from dataclasses import replace

import numpy as np
import pytest

from harness.bench import series
from harness.bench.verdicts import Rules, Verdict, judge
from tests.unit.bench_series import DRIFTS, KINDS, runs, session

RULES = Rules()
NIGHTS, WORKLOADS, QUADS = 3000, 60, 12


def rates(verdicts):
    """Shares of nights with a claim of a change, and of the first workload found slower, doubted and the same."""
    changed = (verdicts == Verdict.SLOWER) | (verdicts == Verdict.FASTER)
    first = verdicts[:, 0]
    return changed.any(axis=-1).mean(), *((first == verdict).mean() for verdict in list(Verdict)[::-1])


@pytest.mark.parametrize("name", KINDS)
def test_turns(name, benchmark, say_ratio):
    def nights():
        found = []
        for drift in DRIFTS:
            rng = np.random.default_rng(11)
            noise = replace(KINDS[name], drift=drift)
            for slowdown in (0.0, 0.05):
                times = session(rng, noise, trials=NIGHTS // 10, quads=QUADS, workloads=WORKLOADS, slowdown=slowdown)
                for _ in range(9):
                    more = session(rng, noise, trials=NIGHTS // 10, quads=QUADS, workloads=WORKLOADS, slowdown=slowdown)
                    times = np.concatenate((times, more))
                found.append((drift, slowdown, judge(series.interleaved(times), RULES).verdicts))
        return found

    for drift, slowdown, verdicts in benchmark.pedantic(nights):
        alarm, doubted, slower, same, _ = rates(verdicts)
        if slowdown == 0:
            say_ratio(f"turns, {name}, drift {drift:.0%}: alarm on {alarm:.2%} of nights, same {same:.0%}")
            assert alarm <= 0.01
        else:
            say_ratio(f"turns, {name}, drift {drift:.0%}, 5% slower: found {slower:.1%}, cannot tell {doubted:.1%}")
            assert same == 0


@pytest.mark.parametrize("name", KINDS)
def test_stored(name, benchmark, say_ratio):
    def nights():
        found = []
        for drift in DRIFTS:
            for past in (0, 6, 20):
                rng = np.random.default_rng(12)
                noise = replace(KINDS[name], drift=drift)
                made = runs(rng, noise, trials=NIGHTS // 10, count=past + 2, block_count=10, workloads=20)
                history = made[:, : past + 1 if past else 0].mean(axis=2)
                base, head = made[:, past], made[:, past + 1].copy()
                calm = judge(series.stored(base, head, history, RULES), RULES).verdicts
                head[..., 0] += np.log1p(0.05)
                found.append((drift, past, calm, judge(series.stored(base, head, history, RULES), RULES).verdicts))
        return found

    for drift, past, calm, slow in benchmark.pedantic(nights):
        alarm = rates(calm)[0]
        _, doubted, slower, same, _ = rates(slow)
        say_ratio(
            f"stored, {name}, drift {drift:.0%}, {past} runs of history: alarm {alarm:.2%}; 5% slower: found "
            f"{slower:.1%}, cannot tell {doubted:.1%}"
        )
        assert alarm <= 0.01
        assert same == 0
