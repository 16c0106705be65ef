"""The one launch of ``mega_moe``: its grid, its barriers, its budget, and what happens where blocks are missing."""

import dataclasses
from functools import partial

import pytest
import torch

from harness.compiling.recording import record
from harness.device.targets import TARGETS
from harness.launch.grid_barrier import check_grid_barriers
from harness.launch.lease import lease_holders
from harness.launch.physical import Described, NoDevice, physical_from
from harness.launch.sm_budget import current_budget, set_num_sms, sm_budget
from harness.strategies.moe import Routing
from harness.vgpu import Deadlock, Schedule, VirtualGPU
from kernels.mega_moe import mega_moe
from kernels.mxfp4_moe import mxfp4_moe
from tests.unit.contract_cases import build, contract

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def several():
    """Arguments of two tokens on four experts: more tiles than there are blocks."""
    case = dataclasses.replace(contract("mega_moe").pinned[2], hidden_size=64, intermediate_size=128)
    inputs, _ = build(contract("mega_moe"), case)
    del inputs["max_blocks"]
    return inputs


@pytest.fixture(scope="module")
def expected(several):
    with VirtualGPU():
        return mxfp4_moe(**several)


def grids(gpu):
    return [(launch.kernel, launch.grid) for launch in gpu.launches]


@pytest.mark.parametrize(
    ("units", "max_blocks", "blocks"), [(16, None, 14), (7, None, 4), (6, None, 4), (16, 3, 2), (4, None, 2)]
)
def test_one_launch_of_an_even_grid_within_the_budget(several, expected, units, max_blocks, blocks):
    with VirtualGPU(schedule=Schedule(sm_count=units)) as gpu:
        out = mega_moe(**several, max_blocks=max_blocks)
    assert grids(gpu) == [("mega_moe_slots_kernel", (blocks, 1, 1))]
    assert torch.equal(out, expected)


@pytest.mark.parametrize("seed", range(3))
def test_no_block_reads_what_another_has_not_published(several, expected, seed):
    with VirtualGPU(schedule=Schedule(seed=seed, sm_count=5, launch_order="shuffled"), races=True) as gpu:
        for _ in range(2):
            assert torch.equal(mega_moe(**several), expected)
    assert grids(gpu) == [("mega_moe_slots_kernel", (2, 1, 1))] * 2


def test_a_grid_that_is_not_resident_is_reported(several, expected):
    """Somebody says 8 units where there are 4."""
    with VirtualGPU(schedule=Schedule(sm_count=4)):
        with physical_from(Described(8)):
            with pytest.raises(Deadlock) as caught:
                mega_moe(**several)
            assert (caught.value.resident, caught.value.total) == (4, 6)
        assert torch.equal(mega_moe(**several), expected)
        check_grid_barriers(CPU)
    assert lease_holders() == {}


def test_the_budget_is_the_callers_and_refused_before_the_launch(several):
    with VirtualGPU(schedule=Schedule(sm_count=16)) as gpu:
        with sm_budget(12):
            mega_moe(**several)
        with pytest.raises(ValueError, match="1 of 16 SMs left"):
            mega_moe(**several, reserve=15)
        set_num_sms(1)
        try:
            with pytest.raises(ValueError, match="outer budget 1"):
                mega_moe(**several)
        finally:
            set_num_sms(None)
        assert current_budget() is None
    assert grids(gpu) == [("mega_moe_slots_kernel", (4, 1, 1))]


def test_without_a_device_nothing_is_launched(several):
    with pytest.raises(NoDevice):
        mega_moe(**several)


def test_nothing_is_launched_for_no_slots(several):
    empty = several | {name: several[name][:0] for name in ("hidden_states", "topk_ids", "topk_weights")}
    with VirtualGPU() as gpu:
        assert mega_moe(**empty).shape == (0, several["hidden_states"].shape[1])
    assert gpu.launches == []


@pytest.mark.parametrize(("topk", "choices"), [(1, 1), (8, 8), (9, 16), (65, 128)])
def test_the_slot_path_takes_any_number_of_choices_a_token(several, topk, choices):
    slots = {"topk_ids": torch.zeros(2, topk, dtype=torch.int32), "topk_weights": torch.ones(2, topk)}
    [launch] = record(partial(mega_moe, path="slot"), several | slots, TARGETS["sm120"])
    assert "tiles_ptr" not in launch.constants
    assert launch.constants["CHOICES"] == choices


def test_65_choices_a_token_give_what_the_grouped_path_gives():
    mega = contract("mega_moe")
    rows = tuple(tuple((token + slot) % 5 - 1 for slot in range(65)) for token in range(2))
    routing = Routing(num_tokens=2, num_experts=4, rows=rows)
    inputs, _ = build(mega, dataclasses.replace(mega.pinned[1], routing=routing, hidden_size=32, intermediate_size=32))
    with VirtualGPU():
        assert torch.equal(mega_moe(**inputs, path="slot"), mega_moe(**inputs, path="grouped"))
