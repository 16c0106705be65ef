"""Runs of the command line in a child, and the emulation in this process."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.sanitize.emulation import Options, emulate


@dataclass(frozen=True)
class Ran:
    """A finished run: exit status, what it printed, and the message of each failed test (None: passed) by name."""

    status: int
    out: str
    tests: dict[str, str | None]

    @property
    def failed(self):
        return {name for name, message in self.tests.items() if message is not None}


def run(folder, *arguments):
    """Run ``python -m harness sanitize`` in ``folder``."""
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TRITON_"))}
    done = subprocess.run(
        [sys.executable, "-m", "harness", "sanitize", *arguments],
        cwd=folder,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    tests = {}
    report = folder / "junit.xml"
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):
            problems = [node for kind in ("failure", "error", "skipped") for node in case.iter(kind)]
            text = "".join(f"{node.get('message')}\n{node.text}" for node in problems)
            tests[f"{case.get('classname').split('.')[-1]}::{case.get('name')}"] = text if problems else None
    return Ran(done.returncode, done.stdout + done.stderr, tests)


def run_suite(folder, *options, arguments=()):
    """Run all tests of ``folder``; sanitize takes ``options``, pytest ``arguments``."""
    return run(folder, *options, "pytest", "-p", "no:cacheprovider", "--junitxml=junit.xml", *arguments)


@pytest.fixture
def machine():
    """The emulated device, in this process."""
    with emulate(Options()) as found:
        yield found
