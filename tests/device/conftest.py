"""Every test here is one about a target: ``-m sm120`` selects what ``-m sm90`` does, and each skips for its own."""

import os

import pytest
import torch

from harness.device import detect
from harness.hardware import placing


@pytest.fixture(autouse=True)
def _about_a_target(gpu_target):
    return gpu_target


@pytest.fixture
def device(gpu_target):
    """The device of this test, which need not be the first one here."""
    return torch.device("cuda", torch.cuda.current_device())


@pytest.fixture
def child_environment(gpu_target):
    """The environment of a process that sees the device of this test alone."""
    return {**os.environ, **placing.only(placing.device_for(gpu_target, detect()))}
