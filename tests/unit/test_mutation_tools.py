"""Other tools as judges: with fakes everywhere, with the tools themselves where they are installed."""

import importlib.metadata
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import triton

from harness.mutation import apart, judge, peers, plan, pool, reach, styles, tools
from harness.mutation import results as results_module
from tests.unit import test_mutation_run
from tests.unit.mutation_tools import CHECKS
from tests.unit.test_mutation_run import mutant
from tests.unit.test_mutation_run import target as target  # a fixture

MODULES = {
    "apart": apart, "judge": judge, "peers": peers, "plan": plan, "reach": reach, "results": results_module,
    "styles": styles, "tools": tools,
}  # fmt: skip
ROOT = Path(__file__).parents[2]
#: (a call, what is told of it)
ENDS = {
    "a value": ("lambda: {'a': 1}", "Outcome(value={'a': 1}, problem='', late=False)"),
    "an exception": ("lambda: {}[3]", "KeyError: 3"),
    "an exit": ("lambda: sys.exit(1)", "SystemExit: 1"),
    "a crash": ("lambda: os.kill(os.getpid(), 11)", "the process ended with status -11"),
    "a hang": ("lambda: time.sleep(60)", "no answer after 0 s"),
    "more than a pipe holds": ("lambda: len('x' * 2**20)", "1048576"),
}


@pytest.mark.parametrize("name", CHECKS)
def test_check(name, monkeypatch):
    # what a check replaces in a module is put back
    for module in MODULES.values():
        for attribute, value in vars(module).copy().items():
            monkeypatch.setattr(module, attribute, value)
    CHECKS[name](SimpleNamespace(**MODULES))


def test_a_call_apart_ends_in_every_way():
    """In a process without other threads: it forks."""
    calls = "\n".join(f"print({name!r}, apart({call}, seconds={0.2 if name == 'a hang' else 30}))"
                      for name, (call, _) in ENDS.items())  # fmt: skip
    script = f"import os, sys, time\nfrom harness.mutation.apart import apart\n{calls}\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=120)
    lines = done.stdout.splitlines()
    assert len(lines) == len(ENDS), done.stderr
    for line, (name, (_, told)) in zip(lines, ENDS.items(), strict=True):
        assert line.startswith(name)
        assert told in line


def missing(name):
    """Why style ``name`` cannot be used here, or nothing."""
    try:
        release = importlib.metadata.version(styles.TOOLS[name])
    except importlib.metadata.PackageNotFoundError:
        return f"needs {styles.TOOLS[name]}, found none"
    wanted = {"ttsem": ("3.8.",), "triton-viz": ("3.6.", "3.7.")}.get(name, ("",))
    if not triton.__version__.startswith(wanted):
        return f"{styles.TOOLS[name]} {release} needs Triton {' or '.join(wanted)}, found {triton.__version__}"
    return ""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.skipif(bool(missing(name)), reason=missing(name))) for name in styles.TOOLS],
)
def test_the_tool_itself_kills_what_it_can_and_nothing_else(name, target):
    settings = replace(
        test_mutation_run.SETTINGS,
        style=name,
        modules=(*test_mutation_run.SETTINGS.modules, "tests.unit.mutation_shapes"),
    )
    found = []
    chosen = [mutant(target, "wrong value"), mutant(target, "same instructions")]
    pool.run(target, chosen, settings, until=float("inf"), on_result=found.append)
    assert [one.status.value for one in found] == ["KILLED", "SURVIVED"], found
