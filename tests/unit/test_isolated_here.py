"""In this project, which makes errors of warnings and whose package is installed, an isolated test runs in a worker."""

import os

import pytest

from harness.hardware.worker import DEPTH


@pytest.mark.isolated(deadline=60)
def test_an_isolated_test_runs_in_a_worker():
    assert os.environ[DEPTH] == "1"
