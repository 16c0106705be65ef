"""What device facts and residency must say, as checks of an API: the real one, and in tests/teeth one with a fault.

Every check takes ``api`` with the members ``device`` and ``launch``, the packages of those names, and ``capabilities``.
"""

import pytest

#: One row a target: clusters, wgmma, tensor memory, fp8, fnuz, fp4, block scales, tf32, cooperative launch.
PREDICATES = """
target   clusters wgmma tensor_memory fp8_mma fp8_is_fnuz fp4_mma block_scaled_mma tf32_mma cooperative_launch
sm_80    -        -     -             -       -           -       -                yes      yes
sm_86    -        -     -             -       -           -       -                yes      yes
sm_89    -        -     -             yes     -           -       -                yes      yes
sm_90    yes      yes   -             yes     -           -       -                yes      yes
sm_100   yes      -     yes           yes     -           yes     yes              yes      yes
sm_103   yes      -     yes           yes     -           yes     yes              yes      yes
sm_120   yes      -     -             yes     -           yes     yes              yes      yes
sm_121   yes      -     -             yes     -           yes     yes              yes      yes
gfx942   -        -     -             yes     yes         -       -                yes      yes
gfx950   -        -     -             yes     -           yes     yes              -        yes
gfx1100  -        -     -             -       -           -       -                -        yes
gfx1250  -        -     -             yes     -           yes     yes              -        yes
"""
#: What becomes of a descriptor's operations: N native, L lowered to pointers, R refused; Triton 3.6, 3.7, 3.8, 3.9.
DESCRIPTORS = """
target   load store gather scatter
sm_80    LLLL LLLL  LLLL   LLLL
sm_86    LLLL LLLL  LLLL   LLLL
sm_89    LLLL LLLL  LLLL   LLLL
sm_90    NNNN NNNN  RRRR   RRRR
sm_100   NNNN NNNN  NNNN   NNNN
sm_103   NNNN NNNN  NNNN   NNNN
sm_120   NNNN NNNN  NNNN   RRRR
sm_121   NNNN NNNN  NNNN   RRRR
gfx942   LLLL LLLL  LLLL   LLLL
gfx950   LLLL LLLL  LLLL   LLLL
gfx1100  LLLL LLLL  LLLL   LLLL
gfx1250  LNNN LNNN  LRNN   LRNN
"""
VERSIONS = ((3, 6), (3, 7), (3, 8), (3, 9))
FORMS = {"N": "native", "L": "lowered", "R": "refused"}


def table(text):
    """``{row: {column: cell}}`` of one of the tables above."""
    head, *rows = (line.split() for line in text.strip().splitlines())
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def predicates_hold_for_every_target(api):
    expected = table(PREDICATES)
    targets = {target.arch: target for target in api.device.TARGETS.values()}
    assert expected.keys() == targets.keys()
    names = {name.removeprefix("has_"): predicate for name, predicate in api.capabilities.PREDICATES.items()}
    for arch, row in expected.items():
        assert row.keys() == names.keys()
        for name, cell in row.items():
            assert names[name](targets[arch]) is (cell == "yes"), (arch, name)


def descriptors_hold_for_every_target_and_triton(api):
    targets = {target.arch: target for target in api.device.TARGETS.values()}
    expected = table(DESCRIPTORS)
    assert expected.keys() == targets.keys()
    for arch, row in expected.items():
        assert row.keys() == api.capabilities.TMA_PREDICATES.keys()
        for operation, cells in row.items():
            for version, cell in zip(VERSIONS, cells, strict=True):
                form = api.capabilities.tma_form(targets[arch], operation, version)
                assert form == FORMS[cell], (arch, operation, version)
                native = api.capabilities.TMA_PREDICATES[operation](targets[arch], version)
                assert native is (cell == "N"), (arch, operation, version)


def blocks(api, arch, **resources):
    """Blocks an SM of ``arch``, and what limits them."""
    found = api.launch.resident_blocks(api.launch.Resources(**resources), api.device.target_of(arch).limits)
    return found.blocks_per_sm, found.limiter


def nvidias_published_examples_hold(api):
    # CUDA C++ Best Practices Guide, "Calculating Occupancy": 37 registers a thread on 64 warps and 65,536 registers
    assert blocks(api, "sm_80", num_warps=4, registers=37) == (12, "registers")
    assert blocks(api, "sm_80", num_warps=10, registers=37) == (4, "registers")
    # CUDA C++ Programming Guide, "Multiprocessor Level": 64 registers and 512 threads, two blocks; 65, one
    assert blocks(api, "sm_80", num_warps=16, registers=64) == (2, "registers")
    assert blocks(api, "sm_80", num_warps=16, registers=65) == (1, "registers")


def facts_measured_on_an_h200_hold(api):
    assert blocks(api, "sm_90", num_warps=32, registers=32, shared_dynamic=4) == (2, "warps")
    assert blocks(api, "sm_90", num_warps=4, registers=32, shared_dynamic=4) == (16, "warps")
    # the two-phase kernel without and with divisibility hints
    assert blocks(api, "sm_90", num_warps=8, registers=255, shared_dynamic=24_576) == (1, "registers")
    assert blocks(api, "sm_90", num_warps=8, registers=78, shared_dynamic=49_152) == (3, "registers")


def limits_of_desktop_blackwell_hold(api):
    assert blocks(api, "sm_120", num_warps=32, registers=32) == (1, "warps")
    assert blocks(api, "sm_120", num_warps=1, registers=24) == (24, "blocks")
    assert blocks(api, "sm_120", num_warps=1, registers=24, barriers=2) == (12, "barriers")
    # four stages of moe_scatter fit, five do not
    assert blocks(api, "sm_120", num_warps=4, registers=128, shared_dynamic=98_328) == (1, "shared")
    assert blocks(api, "sm_120", num_warps=4, registers=128, shared_dynamic=131_104) == (0, "shared")
    assert blocks(api, "sm_120", num_warps=4, registers=32, shared_dynamic=101_376) == (1, "shared")
    assert blocks(api, "sm_120", num_warps=4, registers=32, shared_dynamic=101_377) == (0, "shared")


def allocation_granularities_count(api):
    # 56 registers take 1,792 of the 16,384 of a sub-partition for a warp: 36 warps; so do 49
    assert blocks(api, "sm_90", num_warps=1, registers=56, barriers=0) == (32, "blocks")
    assert blocks(api, "sm_90", num_warps=2, registers=56) == (18, "registers")
    assert blocks(api, "sm_90", num_warps=2, registers=49) == (18, "registers")
    # 72 take 2,304: 7 warps in each sub-partition and 2,048 registers of overhang in all four that nobody can use
    assert blocks(api, "sm_90", num_warps=4, registers=72) == (7, "registers")
    assert blocks(api, "sm_90", num_warps=1, registers=72, barriers=2) == (28, "registers")
    # the launch check rounds warps up to fours: five of 255 take 65,536, nine of 200 would take 76,800
    assert blocks(api, "sm_90", num_warps=5, registers=255) == (1, "registers")
    assert blocks(api, "sm_90", num_warps=9, registers=200) == (0, "registers")
    assert blocks(api, "sm_90", num_warps=2, registers=256) == (0, "registers")
    # 1,024 reserved and 128 of granularity: 113 KiB in two, 227 KiB in one
    assert blocks(api, "sm_90", num_warps=4, registers=32, shared_dynamic=115_712) == (2, "shared")
    assert blocks(api, "sm_90", num_warps=4, registers=32, shared_dynamic=115_713) == (1, "shared")
    assert blocks(api, "sm_90", num_warps=4, registers=32, shared_static=4096, shared_dynamic=111_617) == (1, "shared")
    assert blocks(api, "sm_90", num_warps=1, registers=16, shared_dynamic=6272) == (32, "shared")
    assert blocks(api, "sm_90", num_warps=1, registers=16, shared_dynamic=6273) == (31, "shared")
    assert blocks(api, "sm_90", num_warps=1, registers=16, shared_dynamic=6476) == (30, "shared")
    assert blocks(api, "sm_90", num_warps=33, registers=16) == (0, "warps")


def barriers_and_tensor_memory_count(api):
    assert blocks(api, "sm_90", num_warps=1, registers=32, barriers=16) == (4, "barriers")
    assert blocks(api, "sm_100", num_warps=1, registers=32, barriers=2) == (32, "blocks")
    assert blocks(api, "sm_103", num_warps=1, registers=32, barriers=2) == (16, "barriers")
    assert blocks(api, "sm_86", num_warps=1, registers=32, barriers=16) == (16, "blocks")
    assert blocks(api, "sm_100", num_warps=4, registers=64, tensor_memory_columns=256) == (2, "tensor_memory")
    assert blocks(api, "sm_100", num_warps=4, registers=64, tensor_memory_columns=512) == (1, "tensor_memory")
    assert blocks(api, "sm_120", num_warps=4, registers=64, tensor_memory_columns=128) == (0, "tensor_memory")


def amd_waves_are_llvms(api):
    # waves a SIMD of LLVM's occupancy remark, times four SIMDs, in workgroups of one wave
    for arch, vgprs, sgprs, waves in (
        ("gfx942", 145, 106, 3),
        ("gfx942", 104, 66, 4),
        ("gfx942", 128, 16, 4),
        ("gfx942", 129, 16, 3),
        ("gfx942", 32, 96, 7),
        ("gfx942", 32, 80, 8),
        ("gfx950", 84, 78, 5),
        ("gfx1250", 128, 68, 8),
        ("gfx1250", 129, 68, 7),
        ("gfx1100", 97, 0, 12),
    ):
        assert blocks(api, arch, num_warps=1, registers=vgprs, sgprs=sgprs)[0] == 4 * waves, (arch, vgprs, sgprs)


def amd_workgroups_are_the_smaller_reading(api):
    assert blocks(api, "gfx942", num_warps=4, registers=128) == (4, "registers")
    # six waves on four SIMDs: two of them hold two, so eight places a SIMD hold four workgroups and not five
    assert blocks(api, "gfx942", num_warps=6, registers=32) == (4, "waves")
    assert blocks(api, "gfx942", num_warps=3, registers=32) == (10, "waves")
    assert blocks(api, "gfx942", num_warps=2, registers=32) == (16, "waves")
    assert blocks(api, "gfx1250", num_warps=2, registers=32) == (16, "barriers")
    assert blocks(api, "gfx942", num_warps=4, registers=32, shared_dynamic=32_768) == (2, "shared")
    assert blocks(api, "gfx942", num_warps=4, registers=32, shared_dynamic=21_505) == (2, "shared")
    assert blocks(api, "gfx950", num_warps=4, registers=32, shared_dynamic=65_537) == (2, "shared")
    assert blocks(api, "gfx942", num_warps=4, registers=32, shared_dynamic=65_537) == (0, "shared")
    assert blocks(api, "gfx942", num_warps=17, registers=32) == (0, "waves")
    assert blocks(api, "gfx1100", num_warps=4, registers=257) == (0, "registers")


def grid(api, wanted, where, num_warps=32, registers=32, **arguments):
    """Grid and bound of a kernel with 4 bytes of shared memory."""
    resources = api.launch.Resources(num_warps=num_warps, registers=registers, shared_dynamic=4)
    device = api.device.DEVICES[where] if where in api.device.DEVICES else api.device.target_of(where)
    found = api.launch.barrier_safe_grid(wanted, resources, device, **arguments)
    return found.grid, found.bound


def grids_end_at_the_residency_bound(api):
    assert grid(api, 264, "H200") == (264, 264)
    assert grid(api, 265, "H200") == (264, 264)
    assert grid(api, 1, "H200") == (1, 264)
    assert grid(api, 9999, "sm_90", num_sms=96) == (192, 192)
    assert grid(api, 256, "MI400", num_warps=32, registers=64) == (256, 384)
    assert grid(api, 256, "MI400", num_warps=32, registers=64, num_sms=96) == (192, 192)
    assert grid(api, 256, "MI400", num_warps=32, registers=128, num_sms=96) == (96, 96)


def reserved_units_are_left_out(api):
    assert grid(api, 264, "H200", reserved=2) == (260, 260)
    assert grid(api, 264, "H200", reserved=131) == (2, 2)
    with pytest.raises(api.launch.DoesNotFit, match="reserve of 132 leaves none of 132 units"):
        grid(api, 264, "H200", reserved=132)
    with pytest.raises(api.launch.DoesNotFit, match="reserve of 41 leaves none of 40 units"):
        grid(api, 264, "H200", num_sms=40, reserved=41)


def even_grids_are_rounded_down(api):
    assert grid(api, 133, "H200", even=True) == (132, 264)
    assert grid(api, 9999, "B200", num_warps=64 // 2, num_sms=75, registers=64, even=True) == (74, 74)
    with pytest.raises(api.launch.DoesNotFit, match="wanted 1: the smallest grid has 2 blocks"):
        grid(api, 1, "H200", even=True)
    with pytest.raises(api.launch.DoesNotFit, match="fewer than the 2 blocks"):
        grid(api, 8, "RTX PRO 6000", num_sms=1, even=True)


def clusters_need_whole_pairs(api):
    assert grid(api, 9999, "H200", clusters=2) == (264, 264)
    assert grid(api, 263, "H200", clusters=2) == (262, 264)
    # the driver of an H200 finds 528 pairs of this block
    assert grid(api, 9999, "H200", clusters=2, num_warps=4) == (1056, 1056)
    # each of the two blocks that a held SM would have may belong to a cluster of its own
    assert grid(api, 9999, "H200", clusters=2, reserved=1) == (260, 260)
    assert grid(api, 9999, "H200", clusters=4, active_clusters=64) == (256, 256)
    assert grid(api, 9999, "H200", clusters=4, active_clusters=64, reserved=3) == (232, 232)
    assert grid(api, 9999, "H200", clusters=2, active_clusters=999) == (264, 264)
    assert grid(api, 9999, "sm_90", num_sms=95, clusters=2, active_clusters=94) == (188, 188)
    for match, arguments in {
        "an odd partition of 95 units": {"num_sms": 95, "clusters": 2},
        "clusters of 4 blocks fit depends on": {"num_sms": 96, "clusters": 4},
        "fewer than the 2 blocks": {"num_sms": 2, "clusters": 2, "reserved": 1},
        "wanted 1: the smallest grid has 2 blocks": {"clusters": 2, "wanted": 1},
    }.items():
        with pytest.raises(api.launch.DoesNotFit, match=match):
            grid(api, arguments.pop("wanted", 9999), "H200", **arguments)
    with pytest.raises(api.launch.DoesNotFit, match="gfx942 launches no clusters"):
        grid(api, 4, "MI300X", num_warps=4, clusters=2)


def a_block_that_no_unit_holds_is_refused(api):
    with pytest.raises(api.launch.DoesNotFit, match="no unit of sm_120 holds a block: 131104 bytes of shared memory"):
        api.launch.barrier_safe_grid(
            1,
            api.launch.Resources(num_warps=4, registers=128, shared_dynamic=131_104),
            api.device.DEVICES["RTX PRO 6000"],
        )


def a_real_devices_own_limits_and_units_count(api):
    facts = api.device.DriverFacts(threads_per_unit=1024, shared_per_unit=65_536, blocks_per_unit=3)
    device = api.device.Device(index=1, vendor="cuda", arch="sm_90", units=16, driver=facts)
    warps = api.launch.Resources(num_warps=16, registers=32)
    assert api.launch.barrier_safe_grid(9999, warps, device).bound == 32
    slots = api.launch.Resources(num_warps=1, registers=32)
    assert api.launch.barrier_safe_grid(9999, slots, device).bound == 48
    shared = api.launch.Resources(num_warps=1, registers=32, shared_dynamic=31_744)
    assert api.launch.barrier_safe_grid(9999, shared, device).bound == 32
    # per-block limits below those of the SM, as on embedded parts: five warps are checked as eight
    small = api.device.DriverFacts(registers_per_block=32_768, shared_per_block=49_152)
    device = api.device.Device(index=0, vendor="cuda", arch="sm_90", units=4, driver=small)
    for does_not_fit in (
        api.launch.Resources(num_warps=5, registers=130),
        api.launch.Resources(num_warps=1, registers=32, shared_dynamic=49_153),
    ):
        with pytest.raises(api.launch.DoesNotFit, match="no unit of sm_90 holds a block"):
            api.launch.barrier_safe_grid(1, does_not_fit, device)
    assert api.launch.barrier_safe_grid(9999, api.launch.Resources(num_warps=4, registers=130), device).bound == 12


CHECKS = {
    check.__name__: check
    for check in (
        predicates_hold_for_every_target,
        descriptors_hold_for_every_target_and_triton,
        nvidias_published_examples_hold,
        facts_measured_on_an_h200_hold,
        limits_of_desktop_blackwell_hold,
        allocation_granularities_count,
        barriers_and_tensor_memory_count,
        amd_waves_are_llvms,
        amd_workgroups_are_the_smaller_reading,
        grids_end_at_the_residency_bound,
        reserved_units_are_left_out,
        even_grids_are_rounded_down,
        clusters_need_whole_pairs,
        a_block_that_no_unit_holds_is_refused,
        a_real_devices_own_limits_and_units_count,
    )
}
