"""Runs a program of ``late_programs`` with a fault planted in ``harness.launch``: MODULE OLD NEW PROGRAM.

Before anything imports it: the device functions are compiled from the source that is imported.
"""

import runpy
import sys
import tempfile
from importlib.abc import MetaPathFinder
from importlib.util import spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Planted(MetaPathFinder):
    """Finds one module in another file."""

    def __init__(self, name, path):
        self.name = name
        self.path = path

    def find_spec(self, name, path=None, target=None):
        return spec_from_file_location(name, self.path) if name == self.name else None


if __name__ == "__main__":
    module, old, new, program = sys.argv[1:]
    source = (ROOT / "harness" / "launch" / f"{module}.py").read_text()
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {module}"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, f"{module}.py")
        copy.write_text(source.replace(old, new))
        sys.meta_path.insert(0, Planted(f"harness.launch.{module}", copy))
        sys.argv = ["late_programs", program]
        runpy.run_module("tests.device.late_programs", run_name="__main__")
