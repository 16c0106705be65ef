"""A fault planted in a copy of one room of the harness, imported beside the original."""

import importlib
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

HARNESS = Path(__file__).parents[2] / "harness"


@dataclass(frozen=True)
class RoomFault:
    """In ``harness/ROOM/FILE.py``, ``old``, which stands there once, becomes ``new``; the check called so must fail."""

    name: str
    room: str
    file: str
    old: str
    new: str
    check: str

    def __str__(self) -> str:
        return self.name.replace(" ", "_")


@contextmanager
def api_with(fault, modules, folder):
    """Import a copy of the fault's room with the fault in it; yields its ``modules`` by name."""
    copy = f"planted_{fault.room}"
    root = folder / copy
    shutil.copytree(HARNESS / fault.room, root, ignore=shutil.ignore_patterns("__pycache__"))
    target = root / f"{fault.file}.py"
    source = target.read_text()
    assert source.count(fault.old) == 1, f"{fault.old!r} stands {source.count(fault.old)} times"
    target.write_text(source.replace(fault.old, fault.new))
    for path in root.glob("*.py"):
        path.write_text(path.read_text().replace(f"harness.{fault.room}", copy))
    sys.path.insert(0, str(folder))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(f"{copy}.{name}") for name in modules})
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == copy]:
            del sys.modules[name]
