"""The command line: scripts, exit statuses, options that reach xdist's workers."""

import pytest

from tests.sanitize.conftest import run, run_suite

KERNEL = """
import sys
import torch
import triton
import triton.language as tl


@triton.jit
def fill(out_ptr, n, VALUE: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, VALUE, mask=offs < n)


"""

SCRIPT = (
    KERNEL
    + """
if __name__ == "__main__":
    out = torch.empty(10, device="cuda")
    fill[(1,)](out, int(sys.argv[1]), VALUE=3.0, BLOCK=16)
    print("sum", out.sum().item(), torch.cuda.get_device_capability())
"""
)

SUITE = (
    KERNEL
    + """
def test_target():
    assert torch.cuda.get_device_capability() == (9, 0)
    assert triton.runtime.driver.active.get_current_target().arch == 90


def test_unwritten():
    x = torch.empty(16, device="cuda")
    fill[(1,)](x, 16, VALUE=1.0, BLOCK=16)
    assert x.sum() == 16


def test_fault():
    fill[(1,)](torch.empty(10, device="cuda"), 11, VALUE=1.0, BLOCK=16)
"""
)


def test_a_script_runs_with_its_arguments(tmp_path):
    (tmp_path / "work.py").write_text(SCRIPT)
    ran = run(tmp_path, "--target", "sm_89", "work.py", "10")
    assert ran.status == 0, ran.out
    assert "sum 30.0 (8, 9)" in ran.out
    assert "sanitize: 1 kernel, 1 launch, 1 program, " in ran.out


def test_a_fault_in_a_script_is_a_traceback_of_the_kernel_and_status_1(tmp_path):
    (tmp_path / "work.py").write_text(SCRIPT)
    ran = run(tmp_path, "work.py", "11")
    assert ran.status == 1
    assert "OutOfBounds: out of bounds store in fill (work.py:11): argument out_ptr" in ran.out
    assert "tl.store(out_ptr + offs, VALUE, mask=offs < n)" in ran.out
    assert "harness/vgpu" not in ran.out


def test_the_workers_of_xdist_are_emulated_and_counted(tmp_path):
    pytest.importorskip("xdist")
    (tmp_path / "test_suite.py").write_text(SUITE)
    ran = run_suite(tmp_path, "--target", "sm_90", arguments=("-n", "1"))
    assert ran.failed == {"test_suite::test_fault"}, ran.out
    assert "1 kernel, 2 launches, 2 programs, " in ran.out
    assert "1 kernel fault\n" in ran.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "sm_1", "pytest"), "harness: sanitize: no target 'sm_1'; there are: sm_80"),
        ((), "harness: sanitize: what is to be run?"),
        (("missing.py",), "harness: sanitize: no script missing.py"),
    ],
)
def test_what_cannot_run_is_one_line_and_status_2(tmp_path, arguments, message):
    ran = run(tmp_path, *arguments)
    assert ran.status == 2
    assert ran.out.startswith(message)
    assert ran.out.count("\n") == 1


def test_the_surface_is_listed(tmp_path):
    ran = run(tmp_path, "--surface")
    assert ran.status == 0
    assert "torch.cuda: is_available" in ran.out
