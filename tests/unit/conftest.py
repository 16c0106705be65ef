"""A registry that a test may fill: what it adds is gone afterwards."""

import pytest

from harness import registry


@pytest.fixture
def own_registry(monkeypatch):
    """Empty registries of contracts and implementations, for the time of one test."""
    # modules register once a process: what this test would be the first to load must not be lost with its registry
    registry.load()
    monkeypatch.setattr(registry, "_contracts", {})
    monkeypatch.setattr(registry, "_implementations", {})
    return registry
