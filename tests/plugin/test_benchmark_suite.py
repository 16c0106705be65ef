"""Benchmarks as users of pytest-benchmark know them: asked for by marker, stored by --benchmark-json."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.bench import store
from harness.suites import conftest

SUITES = Path(__file__).parents[2] / "harness" / "suites"
SUITE = "harness.suites.test_benchmarks"
KERNELS = """
from harness import implements
from reference.merge_attn_states import merge_attn_states

implements("merge_attn_states", name="acme")(merge_attn_states)


@implements("merge_attn_states", name="acme-first")
def first(outs, lses):
    return outs[0].clone(), lses[0].clone()
"""


def test_a_marker_asks_for_benchmarks_and_a_wrong_kernel_has_none(tmp_path):
    (tmp_path / "acme.py").write_text(KERNELS)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nconformance_modules = acme\naddopts = -p no:cacheprovider -p no:xdist\n"
    )
    chosen = ["-k", "head_dim and 64", "-m", "benchmark", "--contract", "merge_attn_states", "--impl", "acme"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "harness.plugin",
            *chosen,
            "--benchmark-json",
            "run.json",
            "--pyargs",
            SUITE,
        ],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "not timed: oracle:out" in done.stdout
    found = store.read(tmp_path / "run.json")
    assert {key[1] for key in found.entries} == {"acme"}
    assert {key[3] for key in found.entries} <= {"vgpu", "rot", "dob", "warm"}
    assert found.device["name"]
    assert found.document["harness"]["refused"][0]["name"].startswith("merge_attn_states[acme-first-")


def asked(*, words="", args=("harness/suites",), only=False, plugin=True):
    """What the suite's conftest says about the file of benchmarks."""
    options = {"markexpr": words, "benchmark_only": only}
    config = SimpleNamespace(
        args=args,
        getoption=lambda name, default=None: options.get(name, default),
        pluginmanager=SimpleNamespace(hasplugin=lambda name: plugin),
    )
    return conftest.pytest_ignore_collect(SUITES / "test_benchmarks.py", config)


def test_nobody_collects_benchmarks_by_accident():
    assert asked() is True
    assert asked(words="sm120") is True
    assert asked(words="benchmark and not slow") is None
    assert asked(only=True) is None
    assert asked(args=["harness/suites/test_benchmarks.py::test_workload"]) is None
    assert asked(args=["harness.suites.test_benchmarks"]) is None
    with pytest.raises(pytest.UsageError, match="need pytest-benchmark, found none"):
        asked(words="benchmark", plugin=False)
    assert conftest.pytest_ignore_collect(SUITES / "test_values.py", None) is None
