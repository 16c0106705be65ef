"""What grids must take from the machine: its context, the budget in force, its driver; as checks of an API.

Every check takes ``api`` as in ``launch_checks``.
"""

import ctypes
import importlib
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from tests.unit.launch_checks import grid


def part(api, name):
    """A module of ``api.launch``."""
    return importlib.import_module(f"{api.launch.__name__}.{name}")


@contextmanager
def on_a_machine(api, units, *others):
    """An H200 as device 0, whose current context may use ``units`` SMs, beside ``others``; yields that device."""
    device = api.device.Device(index=0, vendor="cuda", arch="sm_90", units=132)
    machine = api.device.Machine(devices=(device, *others))
    physical = part(api, "physical")
    with (
        patch.object(part(api, "grids"), "detect", lambda: machine),
        physical.physical_from(physical.Described(units)),
    ):
        yield device


def this_machines_device_is_asked_what_may_be_used(api):
    block = api.launch.Resources(num_warps=32, registers=32, shared_dynamic=4)
    budgets, ask = part(api, "sm_budget"), api.launch.barrier_safe_grid
    with on_a_machine(api, 96) as device:
        found = ask(9999, block, device)
        assert (found.bound, found.num_sms) == (192, 96)
        assert "96 units of sm_90 (96 of 132 in this context and budget) x 2 blocks" in found.reason
        assert grid(api, 9999, "H200") == (192, 192)
        assert ask(9999, block, device, num_sms=132).bound == 264
        with budgets.sm_budget(2, device=0):
            assert ask(9999, block, device).bound == grid(api, 9999, "H200")[1] == 188
            budgets.set_num_sms(40, 0)
            assert ask(9999, block, device, reserved=1).bound == 78
            # other devices are whole: one of this kind that is not here, and a product that is not
            elsewhere = api.device.Device(index=0, vendor="cuda", arch="sm_90", units=132, uuid="GPU-elsewhere")
            assert ask(9999, block, elsewhere).bound == 264
            assert grid(api, 9999, "H100 PCIe") == (228, 228)
            budgets.set_num_sms(None, 0)
    with on_a_machine(api, 132) as device:
        assert ask(9999, block, device).reason.count("132") == 1
    with on_a_machine(api, 96, api.device.Device(index=1, vendor="cuda", arch="sm_80", units=108)):
        assert grid(api, 9999, "A100") == (216, 216)
    # one that was found and cannot be asked
    nobody = SimpleNamespace(current_device=lambda: 0, context=_refuses(part(api, "physical").NoDevice))
    with on_a_machine(api, 96) as device, part(api, "physical").physical_from(nobody):
        assert ask(9999, block, device).bound == 264


def _refuses(error):
    def refuse(device):
        raise error

    return refuse


def the_driver_counts_the_clusters_of_a_compiled_kernel(api):
    asked = []

    def answering(count):
        def clusters(function, size, resources):
            asked.append((function, size, resources.num_warps))
            return count

        return patch.object(part(api, "clusters"), "active_clusters", clusters)

    with answering(33):
        assert grid(api, 9999, "H200", clusters=4, function=77) == (132, 132)
        assert asked == [(77, 4, 32)]
        assert grid(api, 9999, "H200", clusters=4, function=77, active_clusters=64) == (256, 256)
        assert grid(api, 9999, "H200", function=77) == (264, 264)
        with pytest.raises(api.launch.DoesNotFit, match="gfx942 launches no clusters"):
            grid(api, 4, "MI300X", num_warps=4, clusters=2, function=77)
        assert len(asked) == 1
    with answering(None):
        assert grid(api, 9999, "H200", clusters=2, function=77) == (264, 264)
        with pytest.raises(api.launch.DoesNotFit, match="clusters of 4 blocks fit depends on"):
            grid(api, 9999, "H200", clusters=4, function=77)


class OldDriver:
    """Calls of a CUDA 11 driver: one context, on device 1, and neither its id nor what it may use."""

    def cuInit(self, flags):
        return 0

    def cuCtxGetCurrent(self, context):
        context._obj.value = 0xC0DE
        return 0

    def cuCtxGetDevice(self, device):
        device._obj.value = 1
        return 0

    def cuDeviceGetAttribute(self, value, attribute, device):
        value._obj.value = {(16, 0): 132, (16, 1): 78}[attribute, getattr(device, "value", device)]
        return 0


def a_driver_without_green_contexts_gives_the_devices_units(api):
    physical = part(api, "physical")
    physical._Driver.open.cache_clear()
    try:
        with patch.object(ctypes, "CDLL", lambda name: OldDriver()):
            assert api.launch.context_units() == 78
            with physical.physical_from(physical.DriverPhysical()):
                assert [physical.physical_sms(0), physical.physical_sms(1)] == [132, 78]
            block = api.launch.Resources(num_warps=32, registers=32)
            assert part(api, "clusters").active_clusters(77, 2, block) is None
    except AttributeError as error:
        pytest.fail(f"asked for what it lacks: {error}")
    finally:
        physical._Driver.open.cache_clear()


CHECKS = {
    check.__name__: check
    for check in (
        this_machines_device_is_asked_what_may_be_used,
        the_driver_counts_the_clusters_of_a_compiled_kernel,
        a_driver_without_green_contexts_gives_the_devices_units,
    )
}
