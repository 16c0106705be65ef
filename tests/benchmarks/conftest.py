"""Benchmarks run when they are asked for, ``pytest tests/benchmarks --benchmark-only``, and end with their ratios."""

from pathlib import Path

import pytest

from tests.strategies.conftest import examples as examples

RATIOS = pytest.StashKey[list]()


def pytest_configure(config):
    config.stash[RATIOS] = []


def pytest_collection_modifyitems(config, items):
    if config.getoption("benchmark_only", default=False):
        return
    here = Path(__file__).parent
    left_out = [item for item in items if here in item.path.parents]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter, config):
    lines = config.stash.get(RATIOS, [])
    if lines:
        terminalreporter.section("measured side by side")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def say_ratio(request):
    """Keep a line for the end of the run."""
    return request.config.stash[RATIOS].append
