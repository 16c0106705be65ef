"""Benchmarks as users of pytest-benchmark know them: asked for by marker, stored by --benchmark-json."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from _pytest.config import parse_warning_filter
from _pytest.mark.expression import Expression

from harness.bench import store
from harness.bench.measure import Refused
from harness.suites import conftest
from harness.suites.test_benchmarks import Benched, Workload

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


def test_what_pytest_benchmark_says_to_its_user_is_no_error(pytestconfig):
    with warnings.catch_warnings():
        for text in pytestconfig.getini("filterwarnings"):
            warnings.filterwarnings(*parse_warning_filter(text, escape=False))
        for said in (
            "Not saving anything, no benchmarks have been run!",
            "Can't compare. No benchmark files in '.benchmarks'.",
            "Benchmark machine_info is different. Current: {} VS saved: {}.",
            "Benchmarks are automatically disabled because xdist plugin is active.",
        ):
            with pytest.warns(UserWarning, match=re.escape(said)):
                warnings.warn(said, stacklevel=1)
        with pytest.raises(UserWarning):
            warnings.warn("Benchmark fixture was not used at all in this test!", stacklevel=1)


def test_benchmarks_are_named_in_what_minus_k_takes():
    case = SimpleNamespace(name="c"), SimpleNamespace(name="triton"), None, "num_parts=2,empty=4096", "rot"
    assert str(Workload(*case)) == "c-triton-num_parts:2+empty:4096-rot"
    chosen = Expression.compile("num_parts:2+empty:4096-rot and not dob")
    assert chosen.evaluate(lambda word, **_: word in str(Workload(*case)))


def test_a_wrong_peer_is_stored_as_no_fault_of_ours():
    gone = [Refused(name=f"c[{name}-x]", reason="oracle:out", peer=name != "ours") for name in ("ours", "sglang-slot")]
    effort = SimpleNamespace(width=0.1, seconds=1.0, most=9)
    bench = SimpleNamespace(rates=None, effort=effort, measure=lambda contract, chosen, case, label: [gone.pop()])
    benched = Benched(bench)
    for name in ("sglang-slot", "ours"):
        found = benched.of(Workload(SimpleNamespace(name="c"), SimpleNamespace(name=name), None, "x", "rot"))
        assert isinstance(found, Refused)
    assert [item["name"] for item in store.wrong({"harness": benched.ours()})] == ["c[ours-x]"]
    assert len(benched.ours()["refused"]) == 2


def config_of(*, words="", args=("harness/suites",), only=False, plugin=True):
    options = {"markexpr": words, "benchmark_only": only}
    return SimpleNamespace(
        args=args,
        getoption=lambda name, default=None: options.get(name, default),
        pluginmanager=SimpleNamespace(hasplugin=lambda name: plugin),
    )


def asked(**fields):
    """What the suite's conftest says about the file of benchmarks."""
    config = config_of(**fields)
    return conftest.pytest_ignore_collect(SUITES / "test_benchmarks.py", config)


def test_the_device_is_named_before_anything_is_timed():
    # --benchmark-compare reads an earlier run then, which names it
    info = {}
    conftest.pytest_benchmark_update_machine_info(config_of(words="sm120"), info)
    assert info == {}
    conftest.pytest_benchmark_update_machine_info(config_of(words="benchmark"), info)
    assert info["device"]["name"]


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
