"""Products and their partitions: the counts that contracts name, and what must be true of every row."""

import pytest

from harness.device import DEVICES, TARGETS, target_of

COUNTS = {
    "A100": 108, "RTX 3090": 82, "RTX A6000": 84, "L4": 58, "L40S": 142, "RTX 4090": 128, "H20": 78, "H100 PCIe": 114,
    "H100 SXM": 132, "H200": 132, "B200": 148, "GB200": 152, "GB300": 160, "RTX PRO 6000": 188, "RTX 5090": 170,
    "GB10": 48, "MI300X": 304, "MI300A": 228, "MI308X": 80, "MI355X": 256, "RX 7900 XTX": 48, "MI400": 192,
}  # fmt: skip


def test_every_product_has_the_units_it_is_sold_with():
    assert {name: device.units for name, device in DEVICES.items()} == COUNTS


def test_the_partitions_of_the_contracts_are_there():
    assert DEVICES["MI400"].units_of("SPX") == 192
    assert DEVICES["MI400"].units_of("DPX") == 96
    assert DEVICES["MI300X"].units_of("CPX") == 38
    assert DEVICES["MI355X"].units_of("CPX") == 32
    assert DEVICES["H100 SXM"].units_of("1g") == 16
    assert DEVICES["H200"].units_of() == 132


def test_an_unknown_partition_is_refused():
    with pytest.raises(ValueError, match="MI308X has no partition 'CPX'; known: SPX"):
        DEVICES["MI308X"].units_of("CPX")
    with pytest.raises(ValueError, match="L4 has no partition '1g'; known: none"):
        DEVICES["L4"].units_of("1g")


@pytest.mark.parametrize("name", DEVICES)
def test_a_row_has_a_target_a_source_and_parts_that_are_no_larger_than_the_whole(name):
    device = DEVICES[name]
    assert device.name == name
    assert device.target in TARGETS.values()
    assert device.source
    assert all(0 < units <= device.units for units in device.partitions.values())
    if device.arch.startswith("gfx"):
        # equal parts of the whole
        assert all(device.units % units == 0 for units in device.partitions.values())


def test_an_unknown_target_is_refused():
    with pytest.raises(ValueError, match=r"no target 'sm_75'; there are: sm_80, .*, gfx1250"):
        target_of("sm_75")


def test_every_target_is_called_by_the_name_that_its_device_reports():
    assert all(marker == target.arch.replace("_", "") for marker, target in TARGETS.items())
    assert {target.arch for target in TARGETS.values() if target.vendor == "cuda"} == {
        "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121",
    }  # fmt: skip
