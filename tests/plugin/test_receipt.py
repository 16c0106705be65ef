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
    assert (written.profile, written.known, written.added) == ("quick", "", "")
    assert (written.devices, written.emulated, written.status) == ((), "", 0)


#: Stands in for a machine with two kinds of devices, here and in worker processes.
CONFTEST = """
import importlib, sys
from contextlib import contextmanager
from types import SimpleNamespace

from harness.device import Device, Machine

arches = ("sm_90", "sm_120")
devices = tuple(Device(index=i, vendor="cuda", arch=arch, units=8, uuid=f"GPU-{i}") for i, arch in enumerate(arches))
importlib.import_module("harness.device.detect")._detect = lambda environment: Machine(devices=devices)
now = [0]

@contextmanager
def device(index):
    before, now[0] = now[0], index
    yield
    now[0] = before

cuda = SimpleNamespace(
    is_initialized=lambda: True, current_device=lambda: now[0], synchronize=lambda: None, device=device
)
sys.modules["torch"] = SimpleNamespace(cuda=cuda)
"""

ABOUT_A_TARGET = """
import os

import pytest

@pytest.mark.isolated
def test_in_a_worker(gpu_target):
    assert os.getppid() == int(os.environ["PARENT"])

def test_left_out(gpu_target):
    pass

@pytest.mark.parametrize("number", [1])
def test_about_none(number):
    assert os.getpid() == int(os.environ["PARENT"])
"""


def test_a_receipt_says_which_target_a_test_was_about_and_what_is_missing(pytester, monkeypatch):
    pytester.makeini("[pytest]\nconformance_modules = kernels\nreceipt_tests = test_gpu.py\n")
    pytester.makeconftest(CONFTEST)
    # what is no test of a GPU need not be collected
    pytester.makepyfile(test_gpu=ABOUT_A_TARGET, test_elsewhere="import no_such_module\n")
    added = "--deselect=test_gpu.py::test_left_out --hypothesis-profile ci --known known.toml"
    monkeypatch.setenv("PYTEST_ADDOPTS", added)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    code = "import os, pytest, sys; os.environ['PARENT'] = str(os.getpid()); sys.exit(pytest.main(sys.argv[1:]))"
    arguments = ("-p", "harness.plugin", "-p", "no:cacheprovider", "-m", "sm120 or sm90 or not gpu", "test_gpu.py")
    result = pytester.run(sys.executable, "-c", code, *arguments, "--receipt", "r.json")
    assert result.ret == pytest.ExitCode.OK
    written = record.read(pytester.path / "r.json")
    tests = {test.id.rpartition("::")[2]: test for test in written.tests}
    assert {name: (test.outcome, test.target, test.device, test.hardware) for name, test in tests.items()} == {
        "test_in_a_worker[sm_90]": ("passed", "sm_90", 0, True),
        "test_in_a_worker[sm_120]": ("passed", "sm_120", 1, True),
        "test_about_none[1]": ("passed", "", 0, False),
    }
    assert [(device.arch, device.index, device.uuid) for device in written.devices] == [
        ("sm_90", 0, "GPU-0"), ("sm_120", 1, "GPU-1"),
    ]  # fmt: skip
    assert written.unknown == ""
    assert (written.profile, written.known, written.added) == ("ci", "known.toml", added)
    assert written.selections == tuple(
        record.Selection(target=target, whole=2, missing=1, some=(f"test_gpu.py::test_left_out[{target}]",))
        for target in ("sm_90", "sm_120")
    )
