"""Detection and markers, on machines that are described instead of present."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.device import MARKERS, TARGETS, Device, Machine, unmet
from harness.device.detect import _amd, _visible

HOPPER = Device(index=0, vendor="cuda", arch="sm_90", units=132)
MI300 = Device(index=0, vendor="rocm", arch="gfx942", units=304)
NODE = "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\n"
CPU_NODE = "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n"


@pytest.mark.parametrize(
    ("wanted", "devices", "reason"),
    [
        ([], [], None),
        (["gpu"], [HOPPER], None),
        (["gpu"], [], "needs a GPU, found no GPU"),
        (["sm90"], [HOPPER], None),
        (["sm120"], [HOPPER], "needs sm_120, found sm_90"),
        (["sm90", "sm120"], [HOPPER], None),
        (["rocm"], [HOPPER], "needs an AMD GPU, found sm_90"),
        (["rocm"], [HOPPER, MI300], None),
        (["multi_gpu"], [HOPPER], "needs 2 GPUs, found sm_90"),
        (["multi_gpu", "sm90"], [HOPPER, MI300], "needs sm_90, 2 GPUs, found sm_90, gfx942"),
        (["multi_gpu", "sm90"], [HOPPER, HOPPER], None),
        (["sm121"], [Device(index=0, vendor="cuda", arch="sm_120", units=188)], "needs sm_121, found sm_120"),
    ],
)
def test_unmet_names_what_is_needed_and_found(wanted, devices, reason):
    assert unmet(wanted, Machine(devices=tuple(devices))) == reason


def test_a_number_of_gpus_counts_fitting_devices_only():
    machine = Machine(devices=(HOPPER, MI300))
    assert unmet(["sm90"], machine, gpus=1) is None
    assert unmet(["sm90"], machine, gpus=2) == "needs sm_90, 2 GPUs, found sm_90, gfx942"


def test_an_unknown_marker_is_refused():
    with pytest.raises(KeyError, match="sm89"):
        unmet(["sm89"], Machine())


def test_every_target_has_a_marker():
    assert set(TARGETS) < set(MARKERS)


def test_a_machine_prints_counts_and_problems():
    assert str(Machine(devices=(HOPPER, HOPPER, MI300))) == "2 x sm_90, gfx942"
    assert str(Machine(problem="cuInit returned 999")) == "no GPU (cuInit returned 999)"


def nodes(tmp_path: Path, *texts: str) -> Path:
    for number, text in enumerate(texts):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "properties").write_text(text)
    return tmp_path


def test_amd_devices_are_read_from_the_topology(tmp_path, monkeypatch):
    monkeypatch.delenv("ROCR_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    assert _amd(nodes(tmp_path, CPU_NODE, NODE)) == (MI300,)


def test_the_environment_hides_amd_devices(tmp_path, monkeypatch):
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "1,0")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    assert len(_amd(nodes(tmp_path, NODE, NODE, NODE))) == 1
    assert _visible(3, "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES") == [0]
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "")
    assert _visible(3, "ROCR_VISIBLE_DEVICES") == []


def test_a_driver_that_fails_is_a_reason_and_not_an_exception(monkeypatch):
    module = sys.modules["harness.device.detect"]
    monkeypatch.setattr(module, "_CUDA_CHILD", "raise SystemExit('cuInit returned 803')")
    assert module._nvidia() == ((), "cuInit returned 803")
    monkeypatch.setattr(module, "_CUDA_CHILD", "print('[[12, 0, 188], [9, 0, 132]]')")
    devices, problem = module._nvidia()
    assert [device.arch for device in devices] == ["sm_120", "sm_90"]
    assert problem == ""


def test_detecting_loads_no_torch():
    code = "import sys; from harness.device import detect; detect(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2]).returncode == 0
