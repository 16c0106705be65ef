"""``pytest --receipt FILE`` writes what ran, wherever the harness is in use."""

import os
import sys

import pytest

from harness.receipts import record

pytest_plugins = ["pytester"]

TESTS = """
import pytest

def test_on_the_host():
    assert True

@pytest.mark.sm120
def test_on_hardware():
    raise SystemExit("reached the hardware test")
"""


def test_a_run_writes_its_receipt(pytester, monkeypatch):
    pytester.makeini("[pytest]\nconformance_modules = kernels\nreceipt_sources = mine\n")
    for variable in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.setenv(variable, "")
    pytester.mkdir("mine").joinpath("kernel.py").write_text("")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "harness.plugin", "-p", "no:cacheprovider", "--receipt", "out/r.json")
    assert result.ret == pytest.ExitCode.OK
    written = record.read(pytester.path / "out" / "r.json")
    tests = {test.id.rpartition("::")[2]: test for test in written.tests}
    assert tests["test_on_the_host"].outcome == "passed"
    assert not tests["test_on_the_host"].hardware
    assert (tests["test_on_hardware"].outcome, tests["test_on_hardware"].hardware) == ("skipped", True)
    assert "needs sm_120, found no GPU" in tests["test_on_hardware"].note
    assert list(written.sources) == ["mine/kernel.py"]
    assert "--receipt" in written.arguments
    assert (written.devices, written.emulated, written.status) == ((), "", 0)


#: Stands in for a device of each target, here and in worker processes.
CONFTEST = """
from harness.hardware import selection

selection.reason_to_skip = lambda item: None
"""

ABOUT_A_TARGET = """
import os

import pytest

@pytest.mark.isolated
def test_in_a_worker(gpu_target):
    assert os.getppid() == int(os.environ["PARENT"])

@pytest.mark.parametrize("number", [1])
def test_about_none(number):
    assert os.getpid() == int(os.environ["PARENT"])
"""


def test_a_receipt_says_which_target_a_test_was_about(pytester, monkeypatch):
    pytester.makeini("[pytest]\nconformance_modules = kernels\n")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(ABOUT_A_TARGET)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    code = "import os, pytest, sys; os.environ['PARENT'] = str(os.getpid()); sys.exit(pytest.main(sys.argv[1:]))"
    arguments = ("-p", "harness.plugin", "-p", "no:cacheprovider", "-m", "sm120 or sm90 or not gpu")
    result = pytester.run(sys.executable, "-c", code, *arguments, "--receipt", "r.json")
    assert result.ret == pytest.ExitCode.OK
    tests = {test.id.rpartition("::")[2]: test for test in record.read(pytester.path / "r.json").tests}
    assert {name: (test.outcome, test.target, test.hardware) for name, test in tests.items()} == {
        "test_in_a_worker[sm_90]": ("passed", "sm_90", True),
        "test_in_a_worker[sm_120]": ("passed", "sm_120", True),
        "test_about_none[1]": ("passed", "", False),
    }
