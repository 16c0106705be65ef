"""Why a grid is not clamped by the number of SMs or CUs alone: three cases where that hangs and ours does not."""

import pytest

from harness.device import DEVICES
from harness.launch import DoesNotFit, Resources, barrier_safe_grid, resident_blocks

#: 32 waves of 128 VGPRs: one workgroup a CU, the next needs the registers that the first holds.
WIDE = Resources(num_warps=32, registers=128, shared_dynamic=98_304)
HALF = DEVICES["MI400"]


def clamped_by_count(wanted, num_cus):
    """The clamp that upstream shipped."""
    return min(wanted, num_cus)


def resident(grid, resources, device, num_cus, *, held=(), cluster=1):
    """How many of ``grid`` blocks find a place, unit by unit; ``held`` units belong to somebody else.

    A cluster of two takes both units of a pair.
    """
    each = resident_blocks(resources, device.target.limits).blocks_per_sm
    room = [0 if unit in held else each for unit in range(num_cus)]
    if cluster == 2:
        room = [2 * min(pair) for pair in zip(room[::2], room[1::2], strict=False)]
    placed = 0
    for unit in room:
        placed += min(unit, grid - placed)
    return placed


def test_units_held_by_another_stream():
    naive = clamped_by_count(256, 96)
    assert resident(naive, WIDE, HALF, 96, held={5, 17}) == 94 < naive
    safe = barrier_safe_grid(256, WIDE, HALF, num_sms=HALF.units_of("DPX"), reserved=2)
    assert safe.grid == 94 == resident(safe.grid, WIDE, HALF, 96, held={5, 17})
    assert "96 - 2 reserved" in safe.reason


def test_clusters_of_two_on_an_odd_partition():
    one_each = Resources(num_warps=32, registers=64, cluster_size=2)
    device = DEVICES["H100 SXM"]
    naive = clamped_by_count(256, 95)
    assert resident(naive, one_each, device, 95, cluster=2) == 94 < naive
    with pytest.raises(DoesNotFit, match="odd partition of 95 units"):
        barrier_safe_grid(256, one_each, device, num_sms=95)
    assert barrier_safe_grid(256, one_each, device, num_sms=95, active_clusters=47).grid == 94


def test_a_block_that_no_unit_can_hold():
    too_much = Resources(num_warps=4, registers=64, shared_dynamic=327_681)
    naive = clamped_by_count(256, 96)
    assert resident(naive, too_much, HALF, 96) == 0 < naive
    with pytest.raises(DoesNotFit, match="no unit of gfx1250 holds a block: 327681 bytes of LDS"):
        barrier_safe_grid(256, too_much, HALF, num_sms=96)


def test_the_count_alone_wastes_units_that_hold_two():
    two_each = Resources(num_warps=32, registers=64)
    assert clamped_by_count(256, 96) == 96
    assert barrier_safe_grid(256, two_each, HALF, num_sms=96).grid == 192
