"""Laws of residency, on drawn resources: monotone in every one, and never more than there is."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.device import TARGETS, target_of
from harness.device.limits import AMD, NVIDIA
from harness.launch import DoesNotFit, Resources, barrier_safe_grid, resident_blocks

FIELDS = [field.name for field in fields(Resources) if field.name != "cluster_size"]
LARGEST = {
    "num_warps": 34, "registers": 520, "shared_dynamic": 340_000, "shared_static": 50_000, "barriers": 17, "sgprs": 120,
    "tensor_memory_columns": 520,
}  # fmt: skip
resources = st.builds(
    Resources, **{name: st.integers(1 if name == "num_warps" else 0, LARGEST[name]) for name in FIELDS}
)
modest = st.builds(
    Resources,
    num_warps=st.integers(1, 16),
    registers=st.integers(16, 128),
    shared_dynamic=st.integers(0, 30_000),
    sgprs=st.integers(0, 100),
)
archs = st.sampled_from([target.arch for target in TARGETS.values()])


def up(value, unit):
    return -(-value // unit) * unit


@given(archs, resources | modest, st.sampled_from(FIELDS), st.integers(1, 40_000))
def test_more_of_any_resource_never_makes_room(arch, block, name, more):
    limits = target_of(arch).limits
    larger = replace(block, **{name: getattr(block, name) + more})
    before, after = resident_blocks(block, limits), resident_blocks(larger, limits)
    assert after.blocks_per_sm <= before.blocks_per_sm


@given(st.sampled_from(list(NVIDIA)), modest)
def test_resident_blocks_never_take_more_than_an_sm_has(arch, block):
    limits = NVIDIA[arch]
    count = resident_blocks(block, limits).blocks_per_sm
    assert count <= limits.blocks
    assert count * block.num_warps <= limits.warps
    assert count * block.num_warps * up(block.registers * 32, 256) <= limits.registers
    assert count * up(block.shared + 1024, 128) <= limits.shared


@given(st.sampled_from(list(NVIDIA)), modest)
def test_one_block_more_than_resident_would_not_fit(arch, block):
    limits = NVIDIA[arch]
    found = resident_blocks(block, limits)
    count = found.blocks_per_sm + 1
    a_warp = up(block.registers * 32, 256)
    fits = {
        "warps": count * block.num_warps <= limits.warps,
        "blocks": count <= limits.blocks,
        "shared": count * up(block.shared + 1024, 128) <= limits.shared,
        "registers": count * block.num_warps <= 4 * (limits.registers // 4 // a_warp)
        and a_warp * up(block.num_warps, 4) <= limits.registers,
        "barriers": limits.barriers is None or count * block.barriers <= limits.barriers,
    }
    assert not all(fits.values())
    assert not fits[found.limiter]


@given(st.sampled_from(list(AMD)), modest)
def test_resident_workgroups_can_be_dealt_to_the_simds(arch, block):
    limits = AMD[arch]
    waves = min(limits.waves_per_simd, limits.vgprs // up(max(1, block.registers), limits.vgpr_unit))
    if limits.sgprs is not None:
        waves = min(waves, limits.sgprs // up(block.sgprs + 16, 16))
    count = resident_blocks(block, limits).blocks_per_sm
    # the hardest dealer first: each workgroup begins at the SIMD that holds most, and still every wave finds a place
    assert count * block.num_warps <= waves * limits.simds
    if block.num_warps >= limits.simds:
        assert count * up(block.num_warps, limits.simds) // limits.simds <= waves
    assert count * up(block.shared, limits.lds_unit) <= limits.lds


@given(archs, resources | modest)
def test_the_limiter_allows_the_fewest_and_says_so(arch, block):
    found = resident_blocks(block, target_of(arch).limits)
    assert found.blocks_per_sm == min(found.by_limit.values()) == found.by_limit[found.limiter] >= 0
    assert found.detail


@given(
    archs,
    modest,
    st.integers(1, 4000),
    st.integers(1, 304),
    st.integers(0, 40),
    st.booleans(),
    st.sampled_from([1, 1, 2]),
)
def test_a_safe_grid_is_resident_as_a_whole(arch, block, wanted, num_sms, reserved, even, clusters):
    arguments = {"num_sms": num_sms, "reserved": reserved, "even": even, "clusters": clusters}
    try:
        found = barrier_safe_grid(wanted, block, target_of(arch), **arguments)
    except DoesNotFit:
        return
    each = resident_blocks(block, target_of(arch).limits).blocks_per_sm
    # wherever the reserved units are, the others hold the grid
    assert 1 <= found.grid <= min(wanted, (num_sms - reserved) * each)
    assert found.grid <= found.bound
    assert found.grid % clusters == 0
    assert not even or found.grid % 2 == 0
    if clusters == 2:
        assert found.grid // 2 <= (num_sms // 2 - reserved) * each
    assert barrier_safe_grid(found.grid, block, target_of(arch), **arguments).grid == found.grid
    assert found.residency.limiter in found.reason


@given(archs, modest, st.integers(1, 304), st.integers(0, 40))
def test_a_larger_reserve_never_gives_a_larger_grid(arch, block, num_sms, reserved):
    def bound(reserve):
        try:
            return barrier_safe_grid(9999, block, target_of(arch), num_sms=num_sms, reserved=reserve).bound
        except DoesNotFit:
            return 0

    assert bound(reserved + 1) < bound(reserved) or bound(reserved) == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"wanted": 0}, "wanted: wanted at least 1, got 0"),
        ({"reserved": -1}, "reserved: wanted at least 0, got -1"),
        ({"num_sms": 0}, "num_sms: wanted at least 1, got 0"),
        ({"num_sms": None}, "num_sms: wanted a number of units with a Target, got None"),
        ({"clusters": 0}, "clusters: wanted at least 1, got 0"),
        ({"active_clusters": 4}, "active_clusters: wanted a count with clusters > 1, got 4"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_by_name(changed, message):
    arguments = {"wanted": 4, "num_sms": 132} | changed
    with pytest.raises(ValueError, match=f"^{message}$") as refusal:
        barrier_safe_grid(
            arguments.pop("wanted"), Resources(num_warps=4, registers=32), target_of("sm_90"), **arguments
        )
    assert not isinstance(refusal.value, DoesNotFit)


@pytest.mark.parametrize("name", [*FIELDS, "cluster_size"])
def test_negative_resources_are_refused_by_name(name):
    with pytest.raises(ValueError, match=f"^{name}: wanted at least"):
        Resources(**({"num_warps": 1, "registers": 1} | {name: -1}))
