"""The suite that compiles for targets, as somebody else runs it: only on request, and with what failed in one line."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import plugin

KERNELS = """
import torch
import triton
import triton.language as tl

from harness import implements


@triton.jit
def part_kernel(outs_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + index, tl.load(outs_ptr + index, mask=index < n), mask=index < n)


@implements("merge_attn_states", name="acme-first")
def first_part(outs, lses):
    out = torch.empty_like(outs[0])
    part_kernel[triton.cdiv(out.numel(), 1024),](outs, out, out.numel(), BLOCK=1024)
    return out, lses[0]


@implements("merge_attn_states", name="acme-broken")
def broken(outs, lses):
    raise ValueError("no table for this target")
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "acme.py").write_text(KERNELS)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nconformance_modules = acme\naddopts = -p no:cacheprovider -p no:xdist\n"
    )
    environment = {**os.environ, "HARNESS_CACHE": str(tmp_path / "cache")}

    def run(*arguments):
        command = [sys.executable, "-m", "pytest", "-p", "harness.plugin", "-q", "--pyargs", *arguments]
        child = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        return child.returncode, child.stdout

    return run


def test_compiles_for_the_targets_that_are_named(run, tmp_path):
    status, out = run("harness.suites.test_targets", "--compile-for", "sm_90", "--impl", "acme")
    assert status == 1
    assert "1 failed, 1 passed" in out
    assert "REFUSED merge_attn_states acme-broken: (launch) on sm_90: the launch raised ValueError: no table" in out
    assert list((tmp_path / "cache").rglob("*.json"))


def test_is_left_out_unless_a_target_is_named():
    suites = Path(plugin.__file__).parent / "suites"
    for asked, path, ignored in (
        ([], "test_targets.py", True),
        (["sm_90"], "test_targets.py", None),
        ([], "test_contracts.py", None),
    ):
        config = SimpleNamespace(getoption={"compile_for": asked}.__getitem__)
        assert plugin.pytest_ignore_collect(suites / path, config) is ignored
