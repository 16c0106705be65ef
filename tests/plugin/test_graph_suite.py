"""The suite of CUDA graphs, as somebody else collects it: what makes no promise is not among its tests."""

import subprocess
import sys

import pytest

KERNELS = """
from harness import implements
from harness.contract import Capturable
from reference.merge_attn_states import merge_attn_states


@implements("merge_attn_states", name="acme-captured", capturable=Capturable())
def captured(outs, lses):
    return merge_attn_states(outs, lses)


@implements("merge_attn_states", name="acme-eager")
def eager(outs, lses):
    return merge_attn_states(outs, lses)
"""


@pytest.mark.parametrize(
    ("chosen", "collected"),
    [("acme", ["acme-captured"]), ("acme-captured", ["acme-captured"]), ("acme-eager", [])],
)
def test_what_does_not_say_that_it_is_capturable_is_not_collected(tmp_path, chosen, collected):
    (tmp_path / "acme.py").write_text(KERNELS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nconformance_modules = acme\naddopts = -p no:cacheprovider\n")
    arguments = ["--collect-only", "-q", "-m", "sm120", "--impl", chosen, "--pyargs", "harness.suites.test_graphs"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "harness.plugin", *arguments],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == (pytest.ExitCode.OK if collected else pytest.ExitCode.NO_TESTS_COLLECTED)
    found = [line.partition("[")[2].rstrip("]") for line in done.stdout.splitlines() if "::" in line]
    assert found == [f"sm_120-merge_attn_states-{name}" for name in collected]
