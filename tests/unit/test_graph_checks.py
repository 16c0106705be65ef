"""CUDA graphs without a device: the checks that teeth run on planted faults."""

from types import SimpleNamespace

import pytest

from harness.graphs import cases, lint, suite
from tests.unit.graph_checks import CHECKS


@pytest.mark.parametrize("name", CHECKS)
def test_graphs(name):
    CHECKS[name](SimpleNamespace(cases=cases, lint=lint, suite=suite))
