"""Offsets into outputs of more than 2^31 elements: what wraps is killed by a few programs, what is right is not."""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from harness.lanes import VirtualLane
from harness.run import check_case
from harness.vast import check_vast
from harness.vgpu import VirtualGPU
from tests.teeth.planting import Planted, implementation_with
from tests.teeth.swapping import swapped
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


def reaches(monkeypatch, name):
    """How many cases past 2^31 elements a short search gives the implementation ``name``."""
    import harness.hunt
    from harness import registry
    from harness.contract import Implementation
    from harness.outcome import CaseResult
    from harness.search import search
    from reference.merge_attn_states import merge_attn_states as oracle

    asked = Mock(return_value=CaseResult())
    monkeypatch.setattr(harness.hunt, "check_vast", asked)
    registry.load(("kernels",), installed=False)
    of = contract(MERGE)
    known = [*registry.implementations(MERGE), Implementation(contract=MERGE, name="torch", launch=oracle)]
    search(
        replace(of, pinned=of.pinned[:1], rejects=tuple),
        next(one for one in known if one.name == name),
        examples=1,
        rare=False,
    )
    return asked.call_count


@pytest.mark.parametrize(("name", "cases"), [("triton", 1), ("torch", 0)])
def test_only_who_launches_kernels_is_given_more_than_a_machine_holds(monkeypatch, name, cases):
    assert reaches(monkeypatch, name) == cases
    with swapped("harness.hunt", 'kernels = self.reached["compiles"] > 0', "kernels = True"):
        assert reaches(monkeypatch, name) == 1
