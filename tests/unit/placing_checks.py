"""What must hold where a machine has devices of several kinds, on one that is simulated; for teeth too."""

import os
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch

from harness.device import TARGETS
from harness.launch.current import current_target
from tests.unit.hardware_checks import item_of, machine


@contextmanager
def devices(api, *arches, current=0, initialized=True, switching=True):
    """A machine with CUDA devices of ``arches``, for the modules of ``api``; yields which one is current, as a list."""
    here = machine(*arches)
    now = [current]

    @contextmanager
    def device(index):
        assert switching, "torch was asked for another device"
        before, now[0] = now[0], index if isinstance(index, int) else index.index
        try:
            yield
        finally:
            now[0] = before

    def properties(of):
        major, minor = divmod(int(arches[torch.device(of).index].removeprefix("sm_")), 10)
        return SimpleNamespace(major=major, minor=minor)

    with ExitStack() as stack:
        for module in (api.placing, api.selection, api.lane):
            stack.enter_context(patch.object(module, "detect", lambda: here))
        faked = {
            "device": device, "current_device": lambda: now[0], "is_initialized": lambda: initialized,
            "get_device_properties": properties,
        }  # fmt: skip
        stack.enter_context(patch.multiple(torch.cuda, **faked))
        yield now


def a_test_runs_on_the_device_of_its_target(api):
    item = item_with_stash("sm120")
    # an sm_90 could stand in for it
    with devices(api, "sm_90", "sm_120", "sm_120") as current:
        with suppress(KeyError), api.selection.on_its_device(item, TARGETS["sm120"]):
            assert current == [1]
            assert api.selection.device_index(item) == 1
            raise KeyError
        assert current == [0]
        with api.selection.on_its_device(item, TARGETS["sm90"]):
            assert current == [0]
        with api.selection.on_its_device(item, None):
            assert current == [0]
    with devices(api, "sm_89", "sm_120", current=1) as current:
        with api.selection.on_its_device(item_with_stash("sm89"), TARGETS["sm89"]):
            assert current == [0]
        assert current == [1]
    # one device: a process that does not use CUDA stays so
    alone = devices(api, "sm_120", initialized=False, switching=False)
    with alone, api.selection.on_its_device(item, TARGETS["sm120"]):
        assert api.selection.device_index(item) == 0


def item_with_stash(target, **options):
    item = item_of(target, **options)
    item.stash = {}
    return item


def the_device_that_was_used_is_known(api):
    item = item_with_stash("sm120")
    with devices(api, "sm_120", "sm_89") as current, api.selection.on_its_device(item, TARGETS["sm120"]):
        assert api.selection.device_index(item) == 0
        current[0] = 1
        assert api.selection.device_index(item) == 1
    with devices(api, "sm_120", "sm_89", current=1):
        assert api.selection.device_index(item_with_stash(None)) == 1
    with devices(api, "sm_120", initialized=False):
        assert api.selection.device_index(item_with_stash(None)) is None


def the_device_that_can_stands_in(api):
    item = item_with_stash("sm120", emulate="sm120")
    with devices(api, "sm_80", "sm_90", "sm_100") as current:
        assert api.selection.reason_to_skip(item) is None
        assert api.selection.lane_target("sm120").arch == "sm_120"
        with api.selection.on_its_device(item, TARGETS["sm120"]):
            assert current == [1]
            assert current_target(torch.device("cuda:1")) == TARGETS["sm120"]
        lane = api.lane.device_lane(TARGETS["sm120"])
        assert (lane.device.index, lane.emulated) == (1, TARGETS["sm120"])


def the_lane_of_a_target_is_on_its_device(api):
    with devices(api, "sm_89", "sm_120"):
        assert str(api.lane.device_lane(TARGETS["sm120"]).device) == "cuda:1"
        assert api.lane.device_lane(TARGETS["sm120"]).emulated is None
        assert str(api.lane.device_lane(TARGETS["sm89"]).device) == "cuda:0"
        assert str(api.lane.device_lane().device) == "cuda:0"
        assert api.selection.lane_target(None).arch == "sm_89"
        assert api.selection.lane_target("sm120").arch == "sm_120"
    with devices(api, "sm_120", "sm_120", current=1):
        assert str(api.lane.device_lane(TARGETS["sm120"]).device) == "cuda:1"
    # device 0 has no name here
    with devices(api, "sm_70", "sm_90"):
        assert str(api.lane.device_lane(api.selection.lane_target(None)).device) == "cuda:1"
    with devices(api, "sm_80"), pytest.raises(api.emulation.CannotEmulate, match="needs sm_90: sm_80, which is here"):
        api.lane.device_lane(TARGETS["sm90"])


def the_suite_runs_on_the_device_of_its_target(api):
    chosen = []

    def lane_of(target=None):
        chosen.append(target)
        raise LookupError

    with patch.object(api.suite, "device_lane", lane_of):
        for run, more in ((api.suite.searched, ()), (api.suite.at_real_size, (0,))):
            with pytest.raises(LookupError):
                run(None, None, TARGETS["sm120"], *more, None)
    assert chosen == [TARGETS["sm120"]] * 2


def a_child_process_sees_the_device_alone(api):
    _, second = machine("sm_89", "sm_120").devices
    for visible, left in (("", "1"), ("GPU-a,GPU-b,GPU-c", "GPU-b"), ("5,7", "7")):
        with patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": visible}):
            assert api.placing.only(second) == {"CUDA_VISIBLE_DEVICES": left}
    assert api.placing.only(None) == {}


CHECKS = {
    check.__name__: check
    for check in (
        a_test_runs_on_the_device_of_its_target,
        the_device_that_was_used_is_known,
        the_device_that_can_stands_in,
        the_lane_of_a_target_is_on_its_device,
        the_suite_runs_on_the_device_of_its_target,
        a_child_process_sees_the_device_alone,
    )
}
