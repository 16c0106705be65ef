"""Every test here is one about a target: ``-m sm120`` selects what ``-m sm90`` does, and each skips for its own."""

import pytest


@pytest.fixture(autouse=True)
def _about_a_target(gpu_target):
    return gpu_target
