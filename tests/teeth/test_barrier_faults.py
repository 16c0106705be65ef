"""Every fault planted in the grid barrier is killed by the check that names it."""

import importlib
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.vgpu import KernelFault
from tests.teeth.barrier_faults import FAULTS
from tests.unit import barrier_checks

ROOT = Path(__file__).parents[2]
BARRIER, KERNELS = "planted_grid_barrier", "planted_barrier_kernels"
SOURCES = {BARRIER: ROOT / "harness/launch/grid_barrier.py", KERNELS: ROOT / "tests/unit/barrier_kernels.py"}


@contextmanager
def api_with(fault, folder):
    """Import copies of the barrier with ``fault`` in it (None: as it is) and of the kernels that use it."""
    text = {name: path.read_text() for name, path in SOURCES.items()}
    if fault is not None:
        found = text[BARRIER].count(fault.old)
        assert found == fault.count, f"{fault.old!r} stands {found} times"
        text[BARRIER] = text[BARRIER].replace(fault.old, fault.new)
    text[KERNELS] = text[KERNELS].replace("from harness.launch.grid_barrier", f"from {BARRIER}")
    for name, source in text.items():
        (folder / f"{name}.py").write_text(source)
    sys.path.insert(0, str(folder))
    try:
        yield SimpleNamespace(barrier=importlib.import_module(BARRIER), kernels=importlib.import_module(KERNELS))
    finally:
        sys.path.remove(str(folder))
        for name in text:
            sys.modules.pop(name, None)


def test_a_copy_without_a_fault_passes(tmp_path):
    with api_with(None, tmp_path) as api:
        barrier_checks.launches_reuse_the_words(api)
        barrier_checks.the_host_raises_the_report_once(api)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path):
    with (
        api_with(fault, tmp_path) as api,
        # a refusal that does not come is reported by pytest.raises as a failure of its own
        pytest.raises((AssertionError, pytest.fail.Exception, KernelFault, api.barrier.GridBarrierTimeout)),
    ):
        barrier_checks.CHECKS[fault.check](api)


def test_every_check_kills_some_fault():
    assert barrier_checks.CHECKS.keys() == {fault.check for fault in FAULTS}


def test_no_two_planted_faults_are_the_same():
    assert len({(fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
