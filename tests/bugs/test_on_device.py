"""On a GPU: entries that only it shows, and every fault around a launch by the same check as on the virtual GPU."""

from dataclasses import replace

import pytest
import torch

from harness import registry
from harness.contract import Capturable
from tests.bugs import on_device
from tests.bugs.corpus import BUGS
from tests.bugs.entry import Source
from tests.bugs.running import implementation_of, violations, wrapped

#: Checks that compare outputs of launches; the others look at what the virtual GPU alone sees.
COMPARING = ("oracle:", "shape", "written", "raises", "inputs", "relation:", "repeat", "poison:", "unwritten")
AROUND = [bug for bug in BUGS if not isinstance(bug.fault, Source) and bug.check.startswith(COMPARING)]


@pytest.fixture(autouse=True)
def _about_a_target(gpu_target):
    return gpu_target


@pytest.fixture(scope="module")
def device():
    return torch.device("cuda", torch.cuda.current_device())


@pytest.mark.parametrize("bug", AROUND, ids=str)
def test_the_same_check_kills_on_a_device(bug, device):
    from harness.hardware.emulation import CannotEmulate
    from harness.hardware.lane import DeviceLane

    lane = DeviceLane(device)
    sound = implementation_of(bug)
    try:
        assert not violations(sound, bug.check, bug.case, lane=lane)
    except AssertionError:
        if not lane.refused:
            raise
        # which the plugin takes for a skip, its words for the reason
        raise CannotEmulate(min(lane.refused)) from None
    faulty = violations(wrapped(sound, bug.fault), bug.check, bug.case, lane=lane)
    assert bug.check in {violation.check for violation in faulty}


@pytest.mark.parametrize("bug", on_device.BUGS, ids=str)
def test_a_graph_shows_it(bug, device):
    from harness.graphs.suite import check_graphs

    of = registry.contract(bug.contract)
    promise = Capturable(cases=(repr(bug.case),))
    sound = replace(implementation_of(bug), capturable=promise)
    assert not check_graphs(of, sound, device)
    found = check_graphs(of, wrapped(sound, bug.fault), device)
    assert any(violation.check.startswith(bug.check) for violation in found)
