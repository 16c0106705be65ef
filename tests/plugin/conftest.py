"""Child pytest runs see this source tree and nothing of the options of the run that starts them."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _source_tree(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
