"""Detection of real devices, on drivers and topology files that are described instead of present."""

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import harness.device as device_package
from harness.device import amd, nvidia, target_of
from harness.device.detect import detect
from tests.unit.detect_checks import CHECKS, CPU_NODE, NAVI, NODE, nodes
from tests.unit.fake_driver import H200, RTX_PRO_6000, FakeNvml, build, uuid_of

XCD = "simd_count 152\nsimd_per_cu 4\ngfx_target_version 90402\nunique_id 4660\n"


@pytest.fixture(autouse=True)
def everything_visible(monkeypatch):
    for variable in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """``machine(library)``: a machine whose driver is ``library`` and that has no AMD device."""

    def set_up(library):
        module = sys.modules["harness.device.detect"]
        monkeypatch.setattr(module, "_NVIDIA_NODES", (os.curdir,))
        monkeypatch.setattr(module, "_nvml", lambda: None)
        ask = nvidia.devices
        monkeypatch.setattr(module.nvidia, "devices", lambda: ask(library=library))
        monkeypatch.setattr(module.amd, "devices", lambda: ())
        module._detect.cache_clear()

    yield set_up
    sys.modules["harness.device.detect"]._detect.cache_clear()


@pytest.mark.parametrize("name", CHECKS)
def test_it_holds_that(name, tmp_path):
    CHECKS[name](SimpleNamespace(device=device_package), tmp_path)


def test_the_drivers_figures_replace_the_tables(tmp_path):
    odd = RTX_PRO_6000 | {"shared_per_unit": 65_536, "blocks_per_unit": 8, "threads_per_unit": 1024}
    (device,), _ = nvidia.devices(library=build(tmp_path, devices=(odd,)))
    assert (device.limits.shared, device.limits.blocks, device.limits.warps) == (65_536, 8, 32)
    assert device.limits.barriers == target_of("sm_120").limits.barriers


def test_attributes_that_an_old_driver_lacks_leave_the_tables_figures(tmp_path):
    old = {name: H200[name] for name in ("major", "minor", "units")}
    (device,), _ = nvidia.devices(library=build(tmp_path, devices=(old,)))
    assert device.driver.shared_reserved is None
    assert device.limits == target_of("sm_90").limits


def test_a_driver_that_hides_its_architecture_is_a_problem(tmp_path):
    library = build(tmp_path, devices=({"major": 9, "minor": 0},))
    assert nvidia.devices(library=library) == ((), "cuDeviceGetAttribute(16) returned 1")


@pytest.mark.parametrize(
    ("visible", "units"), [("1", [188]), ("1,0", [188, 132]), ("0,7,1", [132]), ("", []), ("-1", [])]
)
def test_the_driver_numbers_what_the_environment_leaves(tmp_path, monkeypatch, visible, units):
    library = build(tmp_path, devices=(H200, RTX_PRO_6000))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found, problem = nvidia.devices(library=library)
    assert ([device.units for device in found], problem) == (units, "")


def test_a_missing_driver_is_a_reason_and_not_an_exception(tmp_path):
    found, problem = nvidia.devices(library=str(tmp_path / "libcuda.so.1"))
    assert found == ()
    assert problem.startswith("no CUDA driver library: ")


@pytest.mark.parametrize(
    ("init", "problem"),
    [
        ("return 803;", "cuInit returned 803"),
        ("_exit(3);", "the CUDA driver ended its caller with exit status 3"),
        ("_exit(0);", "the process that asks the CUDA driver answered ''"),
    ],
)
def test_a_broken_driver_is_a_reason_and_not_an_exception(tmp_path, init, problem):
    assert nvidia.devices(library=build(tmp_path, init=init)) == ((), problem)


def test_a_driver_that_hangs_is_given_up(tmp_path):
    library = build(tmp_path, init="sleep(60);")
    start = time.monotonic()
    assert nvidia.devices(library=library, deadline_s=0.5) == ((), "the CUDA driver did not answer in 0.5 s")
    assert time.monotonic() - start < 20


def test_the_asking_process_never_loads_the_driver(tmp_path):
    library = build(tmp_path)
    nvidia.devices(library=library)
    assert library not in Path("/proc/self/maps").read_text()


def test_an_nvml_that_fails_changes_nothing(tmp_path):
    found, _ = nvidia.devices(library=build(tmp_path))
    assert nvidia.joined(found, FakeNvml([], broken=True)) == found
    assert nvidia.joined(found, FakeNvml([(uuid_of(0), None)]))[0].clock_mhz is None


def test_detection_asks_again_when_the_environment_changed(tmp_path, monkeypatch, machine):
    machine(build(tmp_path, devices=(H200, RTX_PRO_6000)))
    assert str(detect()) == "sm_90, sm_120"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert str(detect()) == "sm_120"
    assert detect() is detect()


def test_detection_says_why_there_is_nothing(tmp_path, machine):
    machine(build(tmp_path, init="return 999;"))
    assert str(detect()) == "no GPU (cuInit returned 999)"


def test_each_amd_partition_is_a_device_with_its_own_units(tmp_path):
    assert [device.units for device in amd.devices(nodes(tmp_path, CPU_NODE, *[XCD] * 8), {})] == [38] * 8


def test_nodes_are_numbered_by_number_and_not_by_name(tmp_path):
    found = amd.devices(nodes(tmp_path, *[XCD] * 10, NODE), {})
    assert [device.units for device in found] == [38] * 10 + [304]


def test_an_unreadable_node_is_left_out(tmp_path):
    folder = nodes(tmp_path, NODE, XCD)
    (folder / "0" / "properties").unlink()
    (folder / "0" / "properties").mkdir()
    assert [device.units for device in amd.devices(folder, {})] == [38]


@pytest.mark.parametrize(
    ("environment", "archs"),
    [
        ({}, ["gfx942", "gfx1100"]),
        ({"ROCR_VISIBLE_DEVICES": "1,0"}, ["gfx1100", "gfx942"]),
        ({"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "0"}, ["gfx1100"]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-0000000000005678"}, ["gfx1100"]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
        ({"HIP_VISIBLE_DEVICES": "-1,0"}, []),
        ({"HIP_VISIBLE_DEVICES": "0,2,1"}, ["gfx942"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["gfx1100"]),
        ({"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, ["gfx942"]),
    ],
)
def test_the_environment_hides_and_orders_amd_devices(tmp_path, environment, archs):
    found = amd.devices(nodes(tmp_path, NODE, NAVI), environment)
    assert [device.arch for device in found] == archs
    assert [device.index for device in found] == list(range(len(archs)))
