"""What an installed plugin costs a project that does not use it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUDGET_S = 0.3
HEAVY = ("torch", "triton", "hypothesis", "numpy")

CONFTEST = """
import sys
from pathlib import Path

def pytest_unconfigure(config):
    Path("modules").write_text("\\n".join(sys.modules))
"""


def cpu_seconds(arguments, folder):
    """User and system time of one child: unlike wall time, it does not grow when the machine is busy."""
    with subprocess.Popen(arguments, cwd=folder, env=environment(), stdout=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
    return usage.ru_utime + usage.ru_stime


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}


@pytest.fixture
def project(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    return tmp_path


def modules_after_an_empty_run(project, choice):
    cpu_seconds([sys.executable, "-m", "pytest", "-p", choice], project)
    return set((project / "modules").read_text().splitlines())


def test_an_empty_run_loads_nothing_heavy(project):
    bare = modules_after_an_empty_run(project, "no:harness.plugin")
    loaded = modules_after_an_empty_run(project, "harness.plugin")
    assert "harness.plugin" in loaded
    assert "torch" not in loaded
    # Hypothesis' own plugin may load Hypothesis, with or without ours
    assert [name for name in HEAVY if name in loaded - bare] == []


def test_an_empty_run_costs_less_than_the_budget(project):
    runs = {"harness.plugin": [], "no:harness.plugin": []}
    for _ in range(4):
        for choice, seconds in runs.items():
            seconds.append(cpu_seconds([sys.executable, "-m", "pytest", "-p", choice], project))
    extra = min(runs["harness.plugin"]) - min(runs["no:harness.plugin"])
    assert extra < BUDGET_S, runs


def test_importing_harness_loads_nothing_heavy():
    code = f"import harness, sys; sys.exit(str([name for name in {HEAVY} if name in sys.modules] or ''))"
    child = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert child.stderr == "\n"


def test_importing_harness_costs_less_than_the_budget(tmp_path):
    bare = min(cpu_seconds([sys.executable, "-c", "pass"], tmp_path) for _ in range(4))
    with_harness = min(cpu_seconds([sys.executable, "-c", "import harness"], tmp_path) for _ in range(4))
    assert with_harness - bare < BUDGET_S
