"""Residency against the driver's own answer on a real GPU, shape by shape; nothing is launched."""

from contextlib import ExitStack

import pytest

from harness.device import detect
from harness.device.capabilities import has_clusters
from harness.hardware import placing
from harness.launch import Resources, barrier_safe_grid, context_units, resident_blocks
from harness.launch.clusters import active_clusters
from tests.device.occupancy import Kernel, primary_context, ptx, retained

pytestmark = pytest.mark.cuda

LIVE = (1, 20, 28, 36, 44, 60, 84, 120, 152, 190, 236)
WARPS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32)
BARRIERS = (1, 2, 3, 7, 16)


@pytest.fixture
def device(gpu_target):
    return placing.device_for(gpu_target, detect())


@pytest.fixture
def driver(device):
    with primary_context(device.index) as library:
        yield library


@pytest.fixture(scope="module")
def kernels():
    """Kernels by device: their context, which torch holds too, outlives a test."""
    with ExitStack() as contexts:
        yield contexts, {}


@pytest.fixture
def kernel(kernels, driver, device):
    """``kernel(live, barriers, static_shared)``, each loaded once on a device."""
    contexts, by_device = kernels
    if device.index not in by_device:
        contexts.enter_context(retained(device.index))
    loaded = by_device.setdefault(device.index, {})
    target = "sm_90" if has_clusters(device.target) else "sm_80"

    def load(live, barriers=1, static_shared=0):
        key = (live, barriers, static_shared)
        if key not in loaded:
            source = ptx(live=live, barriers=barriers, static_shared=static_shared, target=target)
            loaded[key] = Kernel(driver, source)
        return loaded[key]

    return load


def shapes(limits):
    """(live, barriers, static shared, warps, dynamic shared): every limit in turn, and its edges."""
    half = limits.shared // 2 // limits.shared_unit * limits.shared_unit - limits.shared_reserved
    most = limits.shared_per_block
    yield from ((live, 1, 0, warps, 4) for live in LIVE for warps in WARPS)
    for dynamic in (0, 1, 6272, 6273, 6476, 30_000, half, half + 1, most - 1, most, most + 1):
        yield from ((1, 1, 0, warps, dynamic) for warps in (1, 4, 32))
    yield from ((1, 1, static, 4, dynamic) for static in (4, 4096, 40_000) for dynamic in (0, half - static, half))
    yield from ((1, barriers, 0, warps, 0) for barriers in BARRIERS for warps in (1, 2, 4))


def test_resident_blocks_equal_the_drivers_answer(kernel, device, request):
    different, compared = [], set()
    for live, barriers, static_shared, num_warps, dynamic_shared in shapes(device.limits):
        found = kernel(live, barriers, static_shared)
        block = Resources(
            num_warps=num_warps,
            registers=found.registers,
            shared_dynamic=dynamic_shared,
            shared_static=found.static_shared,
            barriers=barriers,
        )
        ours = resident_blocks(block, device.limits).blocks_per_sm
        drivers = found.blocks_per_sm(num_warps, dynamic_shared)
        compared.add(block)
        if ours != drivers:
            different.append(f"{block}: ours {ours}, the driver's {drivers}")
    request.node.user_properties.append(("shapes", len(compared)))
    assert len(compared) >= 40
    assert different == [], f"{len(different)} of {len(compared)} shapes differ"


def test_the_kernels_are_as_different_as_they_were_ordered(kernel):
    registers = [kernel(live).registers for live in LIVE]
    assert registers == sorted(registers)
    assert registers[0] <= 32
    assert registers[-1] >= 240
    assert len({-(-count // 8) for count in registers}) >= 8


def test_the_table_is_what_this_device_states(device):
    assert device.limits == device.target.limits


@pytest.mark.sm90
@pytest.mark.sm100
@pytest.mark.sm103
@pytest.mark.sm120
@pytest.mark.sm121
def test_no_more_pairs_of_blocks_are_counted_than_the_driver_finds(kernel, device):
    too_many = []
    for live, num_warps, dynamic_shared in ((1, 4, 0), (1, 32, 0), (60, 8, 4), (120, 8, 30_000), (1, 4, 60_000)):
        found = kernel(live)
        block = Resources(num_warps=num_warps, registers=found.registers, shared_dynamic=dynamic_shared, cluster_size=2)
        ours = barrier_safe_grid(10**6, block, device).bound // 2
        drivers = found.active_clusters(2, num_warps, dynamic_shared)
        if ours > drivers:
            too_many.append(f"{block}: ours {ours}, the driver's {drivers}")
    assert too_many == []


@pytest.mark.sm90
@pytest.mark.sm100
@pytest.mark.sm103
@pytest.mark.sm120
@pytest.mark.sm121
def test_with_the_compiled_kernel_clusters_are_the_drivers(kernel, device):
    found = kernel(60)
    for size, num_warps, dynamic_shared in ((2, 8, 4), (4, 8, 30_000), (8, 4, 60_000)):
        block = Resources(num_warps=num_warps, registers=found.registers, shared_dynamic=dynamic_shared)
        drivers = found.active_clusters(size, num_warps, dynamic_shared)
        assert active_clusters(found.handle, size, block) == drivers
        safe = barrier_safe_grid(10**6, block, device, clusters=size, function=found.handle)
        assert safe.bound == drivers * size


def test_the_context_of_the_whole_device_has_all_its_sms(driver, device):
    assert context_units() == device.units
