"""Every fault planted in the compile lane is killed by the check that names it."""

import importlib
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.teeth.compile_faults import FAULTS as COMPILE_FAULTS
from tests.teeth.sharing_faults import FAULTS as SHARING_FAULTS
from tests.teeth.wgmma_faults import FAULTS as WGMMA_FAULTS
from tests.unit.compile_checks import CHECKS
from tests.unit.test_compile_checks import MODULES

COMPILING = Path(__file__).parents[2] / "harness" / "compiling"
COPY = "planted_compiling"
FAULTS = (*COMPILE_FAULTS, *SHARING_FAULTS, *WGMMA_FAULTS)


@contextmanager
def api_with(fault, folder):
    """Import a copy of ``harness.compiling`` with ``fault`` in it."""
    root = folder / COPY
    shutil.copytree(COMPILING, root, ignore=shutil.ignore_patterns("__pycache__"))
    target = root / f"{fault.file}.py"
    source = target.read_text()
    assert source.count(fault.old) == 1, f"{fault.old!r} stands {source.count(fault.old)} times"
    target.write_text(source.replace(fault.old, fault.new))
    for path in root.glob("*.py"):
        path.write_text(path.read_text().replace("harness.compiling", COPY))
    sys.path.insert(0, str(folder))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(f"{COPY}.{name}") for name in MODULES})
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == COPY]:
            del sys.modules[name]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path):
    with api_with(fault, tmp_path) as api, pytest.raises(AssertionError):
        CHECKS[fault.check](api)


def test_every_check_kills_some_fault():
    assert CHECKS.keys() == {fault.check for fault in FAULTS}


def test_no_two_planted_faults_are_the_same():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
