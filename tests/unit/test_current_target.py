"""Which target a launch is told to choose for: the pretended one, the device's, or the caller's default."""

import threading

import pytest
import torch

from harness.device.targets import target_of
from harness.launch.current import current_target, pretending

CPU = torch.device("cpu")


def test_a_pretended_target_counts_before_the_default_and_only_in_its_scope():
    with pretending("sm_90"):
        assert current_target(CPU, "sm_120") is target_of("sm_90")
        with pretending(target_of("gfx942")):
            assert current_target(CPU).arch == "gfx942"
        assert current_target(CPU).arch == "sm_90"
    assert current_target(CPU, "sm_120").arch == "sm_120"


def test_the_outer_target_is_back_after_an_exception():
    with pytest.raises(ZeroDivisionError), pretending("sm_90"):
        _ = 1 // 0
    assert current_target(CPU, target_of("sm_80")).arch == "sm_80"


def test_another_thread_does_not_see_it():
    seen = []
    with pretending("sm_90"):
        thread = threading.Thread(target=lambda: seen.append(current_target(CPU, "sm_120").arch))
        thread.start()
        thread.join()
    assert seen == ["sm_120"]


def test_a_cpu_without_default_and_an_unknown_name_are_refused():
    with pytest.raises(ValueError, match="device: wanted a GPU, or a target set by pretending"):
        current_target(CPU)
    with pytest.raises(ValueError, match="no target 'sm_91'"), pretending("sm_91"):
        pass


@pytest.mark.parametrize(
    ("facts", "hip", "arch"),
    [
        ({"major": 12, "minor": 0}, None, "sm_120"),
        ({"major": 9, "minor": 0}, None, "sm_90"),
        ({"gcnArchName": "gfx942:sramecc+:xnack-"}, "6.4", "gfx942"),
    ],
)
def test_a_gpu_is_its_own_target(monkeypatch, facts, hip, arch):
    device = torch.device("cuda", 3)
    asked = []

    def properties(which):
        asked.append(which)
        return type("Properties", (), facts)

    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert current_target(device, "sm_80").arch == arch
    assert asked == [device]
