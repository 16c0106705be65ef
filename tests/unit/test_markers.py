"""Markers, on machines that are described instead of present."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.device import MARKERS, TARGETS, Device, Machine, unmet

HOPPER = Device(index=0, vendor="cuda", arch="sm_90", units=132)
MI300 = Device(index=0, vendor="rocm", arch="gfx942", units=304)


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
    with pytest.raises(KeyError, match="sm42"):
        unmet(["sm42"], Machine())


def test_every_target_has_a_marker():
    assert set(TARGETS) < set(MARKERS)


def test_a_machine_prints_counts_and_problems():
    assert str(Machine(devices=(HOPPER, HOPPER, MI300))) == "2 x sm_90, gfx942"
    assert str(Machine(problem="cuInit returned 999")) == "no GPU (cuInit returned 999)"


def test_detecting_loads_no_torch():
    code = "import sys; from harness.device import detect; detect(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2]).returncode == 0
