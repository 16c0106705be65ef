"""CUDA graphs without a device: the checks that teeth run on planted faults."""

from types import SimpleNamespace

import pytest

from harness.graphs import lint, suite
from tests.unit.graph_checks import CHECKS


@pytest.mark.parametrize("name", CHECKS)
def test_graphs(name):
    CHECKS[name](SimpleNamespace(lint=lint, suite=suite))
