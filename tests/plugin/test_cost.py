"""What an installed plugin costs a project that does not use it, in modules; tests/benchmarks says it in seconds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CONFTEST = """
import sys
from pathlib import Path

def pytest_unconfigure(config):
    Path("modules").write_text("\\n".join(sys.modules))
"""


def run(arguments, folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def project(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    return tmp_path


def modules_after_an_empty_run(project, choice):
    assert run(["-m", "pytest", "-p", choice], project).returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    return set((project / "modules").read_text().splitlines())


def test_an_empty_run_loads_the_plugin_and_nothing_else(project):
    bare = modules_after_an_empty_run(project, "no:harness.plugin")
    loaded = modules_after_an_empty_run(project, "harness.plugin")
    assert "torch" not in loaded
    # Hypothesis' own plugin may load Hypothesis, with or without ours
    assert loaded - bare == {"harness", "harness.plugin", "harness.receipts", "harness.receipts.plugin"}


def test_importing_harness_loads_itself_and_little_of_the_standard_library(tmp_path):
    code = "import sys; before = set(sys.modules); import harness; print(*sorted(set(sys.modules) - before))"
    child = run(["-c", code], tmp_path)
    assert child.stderr == ""
    loaded = child.stdout.split()
    # seconds differ with the machine; modules cost them, and modules are what grows
    assert [name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names] == ["harness"]
    assert len(loaded) <= 50, loaded
