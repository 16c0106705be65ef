"""What detection must find, as checks of an API like those of ``launch_checks``; ``folder`` is an empty folder."""

from tests.unit.fake_driver import H200, MIG, RTX_PRO_6000, FakeNvml, build, uuid_of

NODE = "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\nunique_id 4660\n"
NAVI = "simd_count 192\nsimd_per_cu 2\ngfx_target_version 110000\nunique_id 22136\n"
CPU_NODE = "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n"


def nodes(folder, *texts):
    """A topology with one node a text."""
    for number, text in enumerate(texts):
        (folder / str(number)).mkdir()
        (folder / str(number) / "properties").write_text(text)
    return folder


def every_device_is_asked_for_itself(api, folder):
    found, problem = api.device.nvidia.devices(library=build(folder, devices=(H200, RTX_PRO_6000, MIG)))
    assert problem == ""
    assert [(device.arch, device.units) for device in found] == [("sm_90", 132), ("sm_120", 188), ("sm_90", 16)]
    assert [device.uuid for device in found] == [uuid_of(0), uuid_of(1), uuid_of(2)]
    assert [device.limits.shared_per_block for device in found] == [232_448, 101_376, 232_448]
    assert [device.driver.memory for device in found] == [150_754_820_096, 102_641_958_912, 150_754_820_096]


def nvml_is_joined_by_uuid(api, folder):
    found, _ = api.device.nvidia.devices(library=build(folder, devices=(H200, RTX_PRO_6000, MIG)))
    nvml = FakeNvml([(uuid_of(7), 1, []), None, (uuid_of(1), 2600), (uuid_of(0), 1980, [uuid_of(2, "MIG")])])
    joined = api.device.nvidia.joined(found, nvml)
    assert [device.clock_mhz for device in joined] == [1980, 2600, 1980]
    assert [device.mig for device in joined] == [False, False, True]
    assert joined[2].uuid == uuid_of(2, "MIG")
    assert (joined[2].units, joined[2].limits) == (16, api.device.target_of("sm_90").limits)
    assert nvml.open == 0


def a_crash_is_a_reason(api, folder):
    library = build(folder, init="abort();")
    assert api.device.nvidia.devices(library=library) == ((), "the CUDA driver ended its caller with SIGABRT")


def amd_nodes_are_counted_in_the_tables_units(api, folder):
    topology = nodes(folder, CPU_NODE, NODE, NAVI)
    found = api.device.amd.devices(topology, {})
    assert [(device.index, device.vendor, device.arch, device.units) for device in found] == [
        (0, "rocm", "gfx942", 304),
        (1, "rocm", "gfx1100", 48),
    ]
    assert found[0].uuid == "GPU-0000000000001234"
    hidden = api.device.amd.devices(topology, {"HIP_VISIBLE_DEVICES": "1,2,0"})
    assert [(device.index, device.arch) for device in hidden] == [(0, "gfx1100")]


CHECKS = {
    check.__name__: check
    for check in (
        every_device_is_asked_for_itself,
        nvml_is_joined_by_uuid,
        a_crash_is_a_reason,
        amd_nodes_are_counted_in_the_tables_units,
    )
}
