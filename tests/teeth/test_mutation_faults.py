"""Every fault planted in the mutation engine is killed by the check that names it."""

import importlib
import inspect
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.teeth.mutation_faults import FAULTS
from tests.unit.mutation_proofs import CHECKS
from tests.unit.test_mutation_accounting import Api

ENGINE = Path(__file__).parents[2] / "harness" / "mutation"
COPY = "planted_mutation"
MODULES = {name: module for name, module in vars(Api).items() if not name.startswith("__")}


@contextmanager
def api_with(fault, folder):
    """Import a copy of ``harness.mutation`` with ``fault`` in it."""
    shutil.copytree(ENGINE, folder / COPY, ignore=shutil.ignore_patterns("__pycache__"))
    target = folder / COPY / fault.file
    source = target.read_text()
    assert source.count(fault.old) == 1, f"{fault.old!r} stands {source.count(fault.old)} times"
    target.write_text(source.replace(fault.old, fault.new))
    for path in (folder / COPY).rglob("*.py"):
        path.write_text(path.read_text().replace("harness.mutation", COPY))
    sys.path.insert(0, str(folder))
    try:
        copies = {name: module.__name__.replace("harness.mutation", COPY) for name, module in MODULES.items()}
        yield SimpleNamespace(**{name: importlib.import_module(copy) for name, copy in copies.items()})
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == COPY]:
            del sys.modules[name]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path):
    check = CHECKS[fault.check]
    (tmp_path / "files").mkdir()
    wants_folder = "folder" in inspect.signature(check).parameters
    with api_with(fault, tmp_path) as api, pytest.raises((AssertionError, pytest.fail.Exception)):
        check(api, *([tmp_path / "files"] if wants_folder else []))


def test_no_two_planted_faults_are_the_same():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
