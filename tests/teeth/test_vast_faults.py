"""Offsets into outputs of more than 2^31 elements: what wraps is killed by a few programs, what is right is not."""

from dataclasses import replace

import pytest

from harness.lanes import VirtualLane
from harness.run import check_case
from harness.vast import check_vast
from harness.vgpu import VirtualGPU
from tests.teeth.planting import Planted, implementation_with
from tests.unit.contract_cases import contract

MERGE = "merge_attn_states"
ROW = "tl.program_id(0).to(tl.int64) * BLOCK_R"
FAULT = Planted("rows in 32 bits", MERGE, ROW, ROW.replace(".to(tl.int64)", ""), "memory", MERGE, "triton")


@pytest.fixture
def faulty(tmp_path):
    contract(MERGE)
    with implementation_with(FAULT, tmp_path) as implementation:
        yield implementation


def test_rows_that_wrap_are_out_of_bounds(faulty):
    (case,) = contract(MERGE).vast
    (violation,) = check_vast(contract(MERGE), faulty, case, VirtualLane()).violations
    assert violation.check == FAULT.check
    assert violation.message.startswith("[32 programs of each launch] out of bounds store")


def test_a_case_of_few_rows_does_not_show_it(faulty):
    case = replace(contract(MERGE).vast[0], copies=1)
    assert check_case(contract(MERGE), faulty, case).violations == []


def test_the_first_and_the_last_program_are_among_those_that_run():
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def mark(x_ptr):
        tl.store(x_ptr + tl.program_id(0), 1)

    x = torch.zeros(100, dtype=torch.int32)
    with VirtualGPU(sample=5):
        mark[(100,)](x)
    assert x.nonzero().flatten().tolist() == [0, 24, 49, 74, 99]
