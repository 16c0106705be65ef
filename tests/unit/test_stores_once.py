"""A contract that promises that no two programs store to one element is held to it, whatever they store."""

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import strategies as st

from harness.contract import Contract, Implementation
from harness.run import check_case
from harness.tolerance import Exact


@triton.jit
def _ones(out_ptr, STEP: tl.constexpr):
    tl.store(out_ptr + tl.program_id(0) * STEP + tl.arange(0, 16), 1.0)


def _launch(step):
    def launch(x):
        out = torch.empty_like(x)
        _ones[(2,)](out, STEP=step)
        return out

    return launch


def found(step, *, stores_once):
    """Return the checks that fail where program ``n`` stores 16 ones from ``n * step`` on."""
    contract = Contract(
        name="ones", cases=lambda: st.just(16 + step), stores_once=stores_once,
        inputs=lambda case, device, poison: {"x": torch.zeros(case, device=device)},
        oracle=lambda x: {"out": torch.ones_like(x)}, tolerance={"out": Exact()},
    )  # fmt: skip
    implementation = Implementation(contract="ones", name="twice", launch=_launch(step))
    return [violation.check for violation in check_case(contract, implementation, 16 + step).violations]


@pytest.mark.parametrize("step", [0, 8, 15])
def test_an_element_that_two_programs_store_alike_breaks_the_promise(step):
    assert found(step, stores_once=True) == ["race"]


def test_elements_of_one_program_each_keep_the_promise():
    assert found(16, stores_once=True) == []


def test_without_the_promise_two_stores_of_one_value_are_no_race():
    assert found(8, stores_once=False) == []
