"""Counting what a strategy reaches, and shrinking a planted fault, both the same in every run."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from harness import profiles


@pytest.fixture
def examples():
    """``examples(strategy)`` -> what the ``ci`` profile would try, the same in every run."""

    def draw(strategy, count=profiles.EXAMPLES["ci"]):
        drawn = []

        @settings(
            max_examples=count,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def collect(example):
            drawn.append(example)

        collect()
        return drawn

    return draw


@pytest.fixture
def reach(examples, request):
    """``reach(strategy, corners)`` fails with a table of counts if the ``ci`` profile misses a corner."""

    def check(strategy, corners):
        drawn = examples(strategy)
        counts = Counter({name: 0 for name in corners})
        for example in drawn:
            counts.update(name for name, holds in corners.items() if holds(example))
        # not record_property, which warns under --junitxml
        request.node.user_properties.extend(counts.items())
        table = "\n".join(f"{count:5d} of {len(drawn)}  {name}" for name, count in counts.items())
        assert all(counts.values()), f"corners never reached:\n{table}"

    return check


@pytest.fixture
def minimal():
    """``minimal(strategy, fails)`` -> the example that a fault showing on ``fails`` shrinks to."""

    def shrink(strategy, fails):
        config = settings(
            max_examples=2000,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        return find(strategy, fails, settings=config, random=random.Random(0))

    return shrink
