"""Every fault planted in the mutation engine is killed by the check that names it."""

import compileall
import importlib.util
import inspect
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.teeth import (
    mutation_fate_faults,
    mutation_faults,
    mutation_gate_faults,
    mutation_order_faults,
    mutation_policy_faults,
)
from tests.unit.mutation_policies import CHECKS
from tests.unit.test_mutation_accounting import Api

FAULTS = (
    *mutation_faults.FAULTS,
    *mutation_order_faults.FAULTS,
    *mutation_gate_faults.FAULTS,
    *mutation_fate_faults.FAULTS,
    *mutation_policy_faults.FAULTS,
)
ENGINE = Path(__file__).parents[2] / "harness" / "mutation"
COPY = "planted_mutation"
MODULES = {name: module for name, module in vars(Api).items() if not name.startswith("__")}


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """A copy of ``harness.mutation`` under another name, compiled once for all faults."""
    copy = tmp_path_factory.mktemp("engine") / COPY
    shutil.copytree(ENGINE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in copy.rglob("*.py"):
        path.write_text(path.read_text().replace("harness.mutation", COPY))
    compileall.compile_dir(copy, quiet=1)
    return copy


@contextmanager
def api_with(fault, folder, engine):
    """Import a copy of ``engine`` with ``fault`` in it."""
    shutil.copytree(engine, folder / COPY)
    target = folder / COPY / fault.file
    source = target.read_text()
    assert source.count(fault.old) == 1, f"{fault.old!r} stands {source.count(fault.old)} times"
    target.write_text(source.replace(fault.old, fault.new))
    # a change of the same length within a second would go unnoticed
    Path(importlib.util.cache_from_source(target)).unlink()
    sys.path.insert(0, str(folder))
    try:
        copies = {name: module.__name__.replace("harness.mutation", COPY) for name, module in MODULES.items()}
        yield SimpleNamespace(**{name: importlib.import_module(copy) for name, copy in copies.items()})
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == COPY]:
            del sys.modules[name]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path, engine):
    check = CHECKS[fault.check]
    (tmp_path / "files").mkdir()
    wants_folder = "folder" in inspect.signature(check).parameters
    with api_with(fault, tmp_path, engine) as api, pytest.raises((AssertionError, pytest.fail.Exception)):
        check(api, *([tmp_path / "files"] if wants_folder else []))


def test_no_two_planted_faults_are_the_same():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
