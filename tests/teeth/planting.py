"""Faults planted in this repository's kernels: one change of source each, imported beside the original."""

import importlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import registry
from harness.contract import Implementation

KERNELS = Path(__file__).parents[2] / "kernels"
COPY = "planted_kernels"


@dataclass(frozen=True)
class Planted:
    """One fault: in ``kernels/FILE.py``, ``old`` becomes ``new``; ``check`` must kill it in ``implementation``.

    ``old`` stands exactly once in the file, or ``count`` times, all of which change.
    """

    name: str
    file: str
    old: str
    new: str
    check: str
    contract: str
    implementation: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.contract}-{self.name}".replace(" ", "_")


@contextmanager
def implementation_with(fault: Planted, folder: Path) -> Iterator[Implementation]:
    """Import a copy of ``kernels`` with ``fault`` in it and yield the implementation that the fault is about."""
    shutil.copytree(KERNELS, folder / COPY, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder / COPY).glob("*.py"):
        path.write_text(path.read_text().replace("from kernels.", f"from {COPY}."))
    target = folder / COPY / f"{fault.file}.py"
    source = target.read_text()
    assert source.count(fault.old) == fault.count, f"{fault.old!r} stands {source.count(fault.old)} times"
    target.write_text(source.replace(fault.old, fault.new))

    registered = registry._implementations
    registry._implementations = {}
    sys.path.insert(0, str(folder))
    try:
        importlib.import_module(f"{COPY}.{fault.contract}")
        yield registry._implementations[fault.contract, fault.implementation]
    finally:
        sys.path.remove(str(folder))
        registry._implementations = registered
        for name in [name for name in sys.modules if name.split(".")[0] == COPY]:
            del sys.modules[name]
