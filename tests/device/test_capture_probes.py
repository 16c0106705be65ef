"""A GPU says of single operations under capture what the capture lint says of them without one."""

import pytest
import torch

from harness.graphs.capture import CaptureFault, capture
from tests.unit import capture_probes
from tests.unit.capture_probes import inputs, launch_of


def is_captured(probe):
    """Whether a capture takes it, after two calls outside of one; the device is sound afterwards."""
    given, launch = inputs("cuda"), launch_of(probe)
    torch.cuda.manual_seed(0)
    with torch.inference_mode():
        launch(**given)
    launch(**given)
    torch.cuda.synchronize()
    try:
        captured = capture(launch, given, stream=torch.cuda.Stream())
    except CaptureFault:
        return False
    captured.graph.replay()
    torch.cuda.synchronize()
    captured.graph.reset()
    return True


@pytest.mark.parametrize(("kind", "taken"), [("BREAKS", False), ("SOUND", True), ("LATER", True)])
def test_a_capture_takes_what_it_is_said_to_take(kind, taken):
    probes = getattr(capture_probes, kind)
    assert [name for name, probe in probes.items() if is_captured(probe) is not taken] == []
    assert torch.rand(3, device="cuda").isfinite().all()
