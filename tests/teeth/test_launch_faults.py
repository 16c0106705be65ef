"""Every fault planted in device facts, residency and safe grids is killed by the check that names it."""

import importlib
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.teeth.launch_faults import FAULTS
from tests.unit import context_checks, detect_checks, launch_checks

HARNESS = Path(__file__).parents[2] / "harness"
COPY = "planted_launch"
PACKAGES = ("device", "launch")
CHECKS = launch_checks.CHECKS | context_checks.CHECKS


@contextmanager
def api_with(fault, folder):
    """Import copies of ``harness.device`` and ``harness.launch`` with ``fault`` in them (None: as they are)."""
    root = folder / COPY
    root.mkdir()
    (root / "__init__.py").touch()
    for package in PACKAGES:
        shutil.copytree(HARNESS / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    if fault is not None:
        target = root / fault.file
        source = target.read_text()
        assert source.count(fault.old) == 1, f"{fault.old!r} stands {source.count(fault.old)} times"
        target.write_text(source.replace(fault.old, fault.new))
    for path in root.rglob("*.py"):
        text = path.read_text()
        for package in PACKAGES:
            text = text.replace(f"harness.{package}", f"{COPY}.{package}")
        path.write_text(text)
    sys.path.insert(0, str(folder))
    try:
        # by name: the package's attribute of a submodule's name may be the function in it
        for module in ("nvidia", "amd"):
            importlib.import_module(f"{COPY}.device.{module}")
        yield SimpleNamespace(
            device=importlib.import_module(f"{COPY}.device"),
            launch=importlib.import_module(f"{COPY}.launch"),
            capabilities=importlib.import_module(f"{COPY}.device.capabilities"),
        )
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == COPY]:
            del sys.modules[name]


def run(check, api, folder):
    if check in detect_checks.CHECKS:
        (folder / "empty").mkdir()
        detect_checks.CHECKS[check](api, folder / "empty")
    else:
        CHECKS[check](api)


@pytest.mark.parametrize("check", [*CHECKS, *detect_checks.CHECKS])
def test_a_copy_without_a_fault_passes(check, tmp_path):
    with api_with(None, tmp_path) as api:
        run(check, api, tmp_path)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path):
    with (
        api_with(fault, tmp_path) as api,
        # a refusal that does not come is reported by pytest.raises as a failure of its own
        pytest.raises((AssertionError, pytest.fail.Exception, api.launch.DoesNotFit)),
    ):
        run(fault.check, api, tmp_path)


def test_every_check_kills_some_fault():
    checks = CHECKS.keys() | detect_checks.CHECKS.keys()
    assert checks == {fault.check for fault in FAULTS}


def test_no_two_planted_faults_are_the_same():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
