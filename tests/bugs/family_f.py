"""Family f, barriers over a grid, persistent kernels, occupancy: what must be resident, and who arrives how often."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness import device, launch
from harness.device import DEVICES, target_of
from harness.launch import DoesNotFit, Resources, barrier_safe_grid
from harness.launch.physical import Described, physical_from
from harness.launch.scatter_shared import Operands, Tile, shared_bytes
from harness.launch.sm_budget import current_budget, sm_budget, workspace_key
from kernels import _ep_launch
from tests.bugs.cases import ep, scatter
from tests.bugs.entry import Bug, Policy, Source
from tests.bugs.running import BARRIER, Changed, Made
from tests.unit.launch_checks import clusters_need_whole_pairs

GRIDS, BUDGET = "harness.launch.grids", "harness.launch.sm_budget"
EP, EP_FILE = "ep_dispatch_combine", "kernels/_ep_kernels.py"
#: A block of it fills a unit.
WHOLE_UNIT = Resources(num_warps=32, registers=64)
_TWO_RANKS = ep((0, 1), (1, 0), live=(2, 2), tokens=2)


def two_sms_are_left_to_other_streams() -> None:
    with physical_from(Described(148)), sm_budget() as sms:
        assert sms == 146


def odd_grids_make_no_cluster() -> None:
    clusters_need_whole_pairs(SimpleNamespace(device=device, launch=launch))


def both_partitions_of_a_big_part_get_a_grid_that_fits() -> None:
    _ep_launch.plan.cache_clear()
    for units in (192, 96):
        place = _ep_launch.Place(where=DEVICES["MI400"], num_units=units)
        wished = _ep_launch.wish(_ep_launch.DispatchDtype.FP4, _ep_launch.EpKernelType.INTRA_NODE, 128)
        one_each = Resources(num_warps=32, registers=128)
        shape = _ep_launch.plan("ep_dispatch", wished, 4096, one_each, place, units)
        assert shape.block_num == units
    _ep_launch.plan.cache_clear()


def scales_take_shared_memory() -> None:
    target, tile = target_of("sm_100"), Tile(128, 128, 64)
    plain, scaled = (
        shared_bytes(target, tile, 2, Operands(weights=4, scaled=scaled), gathers=False, scatters=False)
        for scaled in (False, True)
    )
    assert scaled - plain == 128 * 64 // 32


def a_block_that_fills_a_unit_is_counted_once() -> None:
    assert barrier_safe_grid(9999, WHOLE_UNIT, DEVICES["H200"]).grid == 132


def a_grid_is_never_larger_than_what_is_resident() -> None:
    assert barrier_safe_grid(133, WHOLE_UNIT, DEVICES["H200"]).grid == 132
    with pytest.raises(DoesNotFit):
        barrier_safe_grid(1, Resources(num_warps=33, registers=64), DEVICES["H200"])


def a_workspace_is_made_inside_of_its_budget() -> None:
    with physical_from(Described(132)):
        assert current_budget() is None
        with pytest.raises(ValueError, match="inside"):
            workspace_key("mega_moe", 64, uses_sms=True)


def every_rank_asks_for_the_same_grid() -> None:
    wishes = {
        _ep_launch.wish(_ep_launch.DispatchDtype.FP4, _ep_launch.EpKernelType.INTRA_NODE, rows) for rows in (128, 4096)
    }
    assert len(wishes) == 1


BUGS = (
    Bug("B161", "predibase/lorax#35", "blocks meet a different number of times", EP, "triton",
        Source(EP_FILE, "        if grid_barrier(words_ptr, 2, max_polls):\n",
               "        passed = tl.program_id(0) > 0\n"
               "        if tl.program_id(0) == 0:\n"
               "            passed = grid_barrier(words_ptr, 2, max_polls)\n"
               "        if passed:\n"), "memory", _TWO_RANKS),
    Bug("B165", "ROCm/mori#494", "the first to leave clears what others still look at", EP, "triton",
        Source(BARRIER, "    if before == _grid_blocks() - 1:\n", "    if before == 0:\n"), "interleaving", _TWO_RANKS),
    Bug("B166", "ROCm/mori#597", "more ranks than lanes that look at them", EP, "triton",
        Source("kernels/_ep_arguments.py", "MAX_WORLD = 8", "MAX_WORLD = 64"), "rejects:nine ranks"),
    Bug("B169", "lightseekorg/tokenspeed#351", "arrival without release", EP, "triton",
        Made("harness/launch/grid_barrier.py", "grid_barrier", "semantics",
             '"release"', "'relaxed'"), "interleaving", _TWO_RANKS),
    Bug("B170", "flashinfer-ai/flashinfer#3610", "the count of one launch is used by the next", EP, "triton",
        Made("harness/launch/grid_barrier.py", "grid_leave", "one path",
             "tl.store(words_ptr, 0)", "pass"), "interleaving", _TWO_RANKS),
    Bug("B175", "Dao-AILab/flash-attention#2705", "a tile is taken again and another one not at all", "moe_scatter",
        "persistent-store",
        Source("kernels/_moe_scatter_kernels.py", "range(tl.program_id(0), num_tiles * columns, tl.num_programs(0))",
               "range(0, num_tiles * columns, tl.num_programs(0))"), "written",
        scatter((0, 1), (2, 3), out=128)),
    Bug("B176", "flashinfer-ai/flashinfer#3700", "a block arrives twice", EP, "triton",
        Source(BARRIER, "tl.atomic_add(words_ptr, 1, sem=", "tl.atomic_add(words_ptr, 2, sem="), "interleaving",
        _TWO_RANKS),
    Bug("B177", "flashinfer-ai/flashinfer#5001", "idle blocks wait for one count, and can miss it", EP, "triton",
        Source(BARRIER, "while (seen < needed) &", "while (seen != needed) &",
               (("    while seen < needed:", "    while seen != needed:"),)), "interleaving",
        ep((0,), live=(1,), tokens=1, spare=4)),
)  # fmt: skip

POLICIES = (
    Policy("B154", "sgl-project/sglang#30399", "a grid as wide as the device beside another stream's kernel",
           Made("harness/launch/sm_budget.py", "_target", "index",
                "physical - reserve", "physical"),
           two_sms_are_left_to_other_streams),
    Policy("B156", "deepseek-ai/DeepGEMM#429", "tiles that make no whole cluster",
           Changed(GRIDS, "step = math.lcm(cluster, 2 if even else 1)", "step = 2 if even else 1"),
           odd_grids_make_no_cluster),
    Policy("B157", "sgl-project/sglang#39763", "256 blocks with a barrier on 192 and 96 compute units",
           Changed("kernels._ep_launch", "block_num=safe.grid,", "block_num=blocks,"),
           both_partitions_of_a_big_part_get_a_grid_that_fits),
    Policy("B159", "deepseek-ai/DeepGEMM#339", "shared memory counted without the scales",
           Changed("harness.launch.scatter_shared", " + (tile.n * tile.k // 32 if operands.scaled else 0)", ""),
           scales_take_shared_memory),
    Policy("B160", "vllm-project/vllm#41189", "two blocks a unit assumed, one is resident",
           Changed(GRIDS, "bound = left * blocks", "bound = left * max(blocks, 2)"),
           a_block_that_fills_a_unit_is_counted_once),
    Policy("B162", "cupy/cupy#3894", "a cooperative grid above the occupancy",
           Made("harness/launch/grids.py", "barrier_safe_grid", "clamp",
                "min(wanted, bound)", "wanted"),
           a_grid_is_never_larger_than_what_is_resident),
    Policy("B164", "sgl-project/sglang#37933", "ranks choose by their own number of tokens",
           Changed("kernels._ep_launch", "max_tokens < FEW_TOKENS", "max_tokens < 2 * FEW_TOKENS"),
           every_rank_asks_for_the_same_grid),
    Policy("B178", "sgl-project/sglang#39223", "a buffer laid out for another number of SMs",
           Changed(BUDGET, "    if budget is None:\n", "    if budget is None:\n        budget = physical_sms(index)\n"
                   "    if budget is None:\n"),
           a_workspace_is_made_inside_of_its_budget),
)  # fmt: skip
