"""Topologies and capability rows: corners reached, faults shrunk to the devices that show them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.device import DEVICES, TARGETS
from harness.device.capabilities import TRITON_VERSIONS, has_tma_scatter, tma_form
from harness.strategies.topologies import CapabilityRow, Topology, capability_rows, topologies


def names(spec):
    return [name for name, _ in spec.parts]


def archs(spec):
    return [device.arch for device in spec.machine().devices]


def test_every_corner_of_a_topology_is_reached(reach):
    corners = {
        "one device": lambda spec: len(spec.parts) == 1,
        "four devices": lambda spec: len(spec.parts) == 4,
        "a later device with fewer units": lambda spec: any(later < spec.units[0] for later in spec.units[1:]),
        "a later device with more units": lambda spec: any(later > spec.units[0] for later in spec.units[1:]),
        "several alike": lambda spec: len(spec.parts) > 1 and len(set(spec.parts)) == 1,
        "one product, differently partitioned": lambda spec: len(set(spec.parts)) > len(set(names(spec))),
        "two architectures": lambda spec: len(set(archs(spec))) > 1,
        "one architecture, two products": lambda spec: len(set(names(spec))) > 1 == len(set(archs(spec))),
        "a MIG instance": lambda spec: any(device.mig for device in spec.machine().devices),
        "DPX": lambda spec: any(partition == "DPX" for _, partition in spec.parts),
        "CPX": lambda spec: any(partition == "CPX" for _, partition in spec.parts),
        "NVIDIA": lambda spec: spec.machine().devices[0].vendor == "cuda",
        "AMD": lambda spec: spec.machine().devices[0].vendor == "rocm",
    }
    reach(topologies(), corners)


def test_every_product_and_partition_is_drawn(examples):
    drawn = {part for spec in examples(topologies(), 1500) for part in spec.parts}
    assert drawn == {(device.name, part) for device in DEVICES.values() for part in (None, *device.partitions)}


@given(topologies(min_devices=2, max_devices=3, min_units=48, max_units=188, vendors=("cuda",)))
def test_topologies_stay_within_what_was_asked_for(spec):
    assert 2 <= len(spec.parts) <= 3
    assert all(48 <= units <= 188 for units in spec.units)
    assert {device.vendor for device in spec.machine().devices} == {"cuda"}


@given(topologies(min_devices=0))
def test_a_machine_has_the_devices_of_its_topology_in_order(spec):
    devices = spec.machine().devices
    assert [device.index for device in devices] == list(range(len(spec.parts)))
    assert tuple(device.units for device in devices) == spec.units
    assert len({device.vendor for device in devices}) <= 1
    assert eval(repr(spec), {"Topology": Topology}) == spec


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        pytest.param(
            lambda spec: spec.units[-1] < spec.units[0],
            Topology(parts=(("A100", None), ("A100", "1g"))),
            id="device 0's count used for all",
        ),
        pytest.param(lambda spec: len(spec.parts) > 1, Topology(parts=(("A100", None),) * 2), id="only one device"),
        pytest.param(
            lambda spec: "sm_121" in archs(spec), Topology(parts=(("GB10", None),)), id="sm_121 taken for sm_120"
        ),
    ],
)
def test_a_fault_of_a_machine_shrinks_to_the_devices_that_show_it(minimal, fault, found):
    assert minimal(topologies(), fault) == found


def test_every_row_of_the_capabilities_is_drawn(examples):
    rows = itertools.product((target.arch for target in TARGETS.values()), TRITON_VERSIONS)
    assert {(row.arch, row.triton) for row in examples(capability_rows(), 600)} == set(rows)


def test_rows_of_one_vendor_and_version_only(examples):
    drawn = examples(capability_rows(vendors=("rocm",), versions=((3, 8),)), 40)
    assert {(row.target.vendor, row.triton) for row in drawn} == {("rocm", (3, 8))}


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        pytest.param(
            lambda row: (
                row.target.vendor == "cuda" and not has_tma_scatter(row.target, row.triton) and row.arch > "sm_8z"
            ),
            CapabilityRow(arch="sm_90", triton=(3, 6)),
            id="scatter from Hopper on",
        ),
        pytest.param(
            lambda row: tma_form(row.target, "gather", row.triton) != tma_form(row.target, "gather", (3, 9)),
            CapabilityRow(arch="gfx1250", triton=(3, 6)),
            id="Triton's version ignored",
        ),
    ],
)
def test_a_capability_fault_shrinks_to_the_row_that_shows_it(minimal, fault, found):
    assert minimal(capability_rows(), fault) == found


@given(st.sampled_from([target.arch for target in TARGETS.values()]))
def test_a_row_prints_what_is_not_the_newest_triton(arch):
    assert repr(CapabilityRow(arch=arch)) == f"CapabilityRow(arch='{arch}')"
    assert repr(CapabilityRow(arch=arch, triton=(3, 7))) == f"CapabilityRow(arch='{arch}', triton=(3, 7))"


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: topologies(min_devices=2, max_devices=1), "min_devices"),
        (lambda: topologies(vendors=()), "vendors"),
        (lambda: topologies(vendors=("intel",)), "vendors"),
        (lambda: topologies(min_units=500, max_units=600), "min_units"),
        (lambda: capability_rows(vendors=("intel",)), "vendors"),
        (lambda: capability_rows(versions=()), "versions"),
        (lambda: capability_rows(versions=((3, 5),)), "versions"),
        (lambda: Topology(parts=(("H300", None),)), "parts"),
        (lambda: Topology(parts=(("H200", "DPX"),)), "parts"),
        (lambda: CapabilityRow(arch="sm_75"), "arch"),
        (lambda: CapabilityRow(arch="sm_90", triton=(3, 5)), "triton"),
    ],
)
def test_impossible_arguments_are_refused_by_name(call, named):
    with pytest.raises(ValueError, match=f"^{named}: wanted"):
        call()
