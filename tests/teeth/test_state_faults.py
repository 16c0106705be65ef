"""Every fault planted in budgets, leases, constraints, ledger and injector is killed by the check that names it."""

import importlib
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.teeth import budget_checks, budget_faults, state_checks, state_faults

HARNESS = Path(__file__).parents[2] / "harness"
COPY = "planted_state"
CHECKS = budget_checks.CHECKS | state_checks.CHECKS
FAULTS = (*budget_faults.FAULTS, *state_faults.FAULTS)
MODULES = ("state", "state_readers", "state_torch", "injector", "thread_crossing")


@contextmanager
def api_with(fault, folder):
    """Import copies of the modules under test with ``fault`` in them (None: as they are)."""
    root = folder / COPY
    shutil.copytree(HARNESS / "launch", root / "launch", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "__init__.py").touch()
    for module in MODULES:
        shutil.copy(HARNESS / f"{module}.py", root)
    if fault is not None:
        target = root / fault.file
        source = target.read_text()
        assert source.count(fault.old) == 1, f"{fault.old!r} stands {source.count(fault.old)} times"
        target.write_text(source.replace(fault.old, fault.new))
    for path in root.rglob("*.py"):
        text = path.read_text().replace("from harness import state_torch", f"from {COPY} import state_torch")
        for module in (*MODULES, "launch"):
            text = text.replace(f"harness.{module}", f"{COPY}.{module}")
        path.write_text(text)
    sys.path.insert(0, str(folder))
    try:
        yield SimpleNamespace(
            budget=importlib.import_module(f"{COPY}.launch.sm_budget"),
            lease=importlib.import_module(f"{COPY}.launch.lease"),
            constraints=importlib.import_module(f"{COPY}.launch.constraints"),
            state=importlib.import_module(f"{COPY}.state"),
            injector=importlib.import_module(f"{COPY}.injector"),
        )
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == COPY]:
            del sys.modules[name]


def test_a_copy_without_a_fault_passes_every_check(tmp_path):
    with api_with(None, tmp_path) as api:
        for check in CHECKS.values():
            check(api)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path):
    with api_with(fault, tmp_path) as api:
        try:
            CHECKS[fault.check](api)
        except (AssertionError, pytest.fail.Exception, api.lease.LeaseError):
            return
    pytest.fail(f"{fault.check} passed")


def test_every_check_kills_some_fault():
    assert {fault.check for fault in FAULTS} == set(CHECKS)
