"""Device facts, residency and safe grids: the checks of ``launch_checks``, and what else must hold of them."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import harness.device as device
import harness.launch as launch
from harness.device import capabilities
from tests.unit import context_checks, launch_checks

API = SimpleNamespace(device=device, launch=launch, capabilities=capabilities)


CHECKS = launch_checks.CHECKS | context_checks.CHECKS


@pytest.mark.parametrize("name", CHECKS)
def test_it_holds_that(name):
    CHECKS[name](API)


def test_importing_device_facts_and_launch_loads_no_torch_and_no_triton():
    code = (
        "import sys, harness.launch, harness.device.capabilities;"
        "sys.exit(any(name in sys.modules for name in ('torch', 'triton', 'numpy', 'hypothesis', 'pynvml')))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2]).returncode == 0
