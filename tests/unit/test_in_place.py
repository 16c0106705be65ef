"""A launch that writes to its arguments is under every check, and the arguments are its outputs."""

from dataclasses import dataclass, replace

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import strategies as st

from harness import Contract, Exact
from harness.contract import Implementation, Rejection
from harness.in_place import InPlace, on_copies
from harness.lanes import VirtualLane
from harness.poison import Poison
from harness.run import check_case, check_rejections
from harness.strategies.layouts import Layout, materialise
from harness.vgpu import VirtualGPU


@dataclass(frozen=True, kw_only=True)
class Case:
    rows: int = 3
    gap: int = 4


def inputs(case, device, poison):
    x = torch.arange(case.rows * 8, dtype=torch.float32, device=device).view(case.rows, 8)
    residual = torch.ones(case.rows, 8, device=device)
    return {"x": x, "residual": materialise(residual, Layout(kind="padded_rows", amount=case.gap), poison, "gaps")}


def oracle(x, residual):
    return {"residual": x + residual, "out": 2 * (x + residual)}


CONTRACT = Contract(
    name="add_in_place",
    cases=lambda: st.builds(Case, rows=st.integers(1, 4)),
    inputs=inputs,
    oracle=oracle,
    tolerance={"out": Exact(), "residual": Exact()},
    rejects=lambda: (
        Rejection(label="no tensor", argument="residual", inputs=lambda: {"x": torch.ones(1, 8), "residual": None}),
    ),
)


@triton.jit
def _add_kernel(x_ptr, residual_ptr, out_ptr, stride, past, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    place = residual_ptr + row * stride + column
    total = tl.load(x_ptr + row * 8 + column, mask=column < 8, other=0.0) + tl.load(place, mask=column < 8, other=0.0)
    tl.store(place, total, mask=column < 8 + past)
    tl.store(out_ptr + row * 8 + column, 2 * total, mask=column < 8)


def add(x, residual, past=0):
    if not isinstance(residual, torch.Tensor):
        raise TypeError("residual: wanted a tensor")
    out = torch.empty_like(x)
    _add_kernel[(len(x),)](x, residual, out, residual.stride(0), past, BLOCK=16)
    return out


def only_out(x, residual):
    return add(x, residual.clone())


def returns_all(x, residual):
    return add(x, residual), residual


def by_name(x, residual):
    return {"out": add(x, residual)}


def result(launch, *names, case=Case()):
    subject = Implementation(contract="add_in_place", name="a", launch=on_copies(launch, names) if names else launch)
    return check_case(CONTRACT, subject, case, lane=VirtualLane())


@pytest.mark.parametrize("launch", [add, returns_all, by_name])
def test_an_argument_that_is_an_output_need_not_be_returned_but_may(launch):
    done = result(launch, "residual")
    assert done.violations == []
    assert {"oracle:residual", "oracle:out", "repeat", "poison:gaps", "inputs", "memory"} <= done.checks_run


def test_without_the_promise_a_write_is_a_fault():
    assert {violation.check for violation in result(add).violations} == {"memory"}


def test_an_argument_that_is_left_alone_is_a_wrong_output():
    (violation,) = result(only_out, "residual").violations
    assert violation.check == "oracle:residual"
    assert "first at (0, 1): got 1, expected 2" in violation.message


def test_a_write_between_the_rows_of_a_view_is_a_fault():
    def spills(x, residual):
        out = add(x, residual)
        residual.as_strided((1,), (1,), 8).fill_(7)
        return out

    (violation,) = result(spills, "residual").violations
    assert violation.check == "inputs"
    said = "residual: 1 of 36 elements break 'elements outside the view untouched'; first at (8,): got 7, expected 0"
    assert violation.message == said
    kernel = result(lambda x, residual: add(x, residual, past=1), "residual").violations
    assert [violation.check for violation in kernel] == ["memory"]


def test_another_argument_is_still_not_to_be_written():
    def swapped(x, residual):
        return add(residual, x)

    assert "memory" in {violation.check for violation in result(swapped, "residual").violations}


def test_an_argument_that_is_no_output_may_hold_anything_afterwards():
    def scratches(x, residual):
        out = 2 * (x + residual)
        residual.zero_()
        return out

    alone = replace(CONTRACT, tolerance={"out": Exact()}, oracle=lambda **given: {"out": oracle(**given)["out"]})
    subject = Implementation(contract="add_in_place", name="a", launch=on_copies(scratches, ["residual"]))
    assert check_case(alone, subject, Case(), lane=VirtualLane()).violations == []


def test_an_illegal_argument_reaches_the_launch():
    subject = Implementation(contract="add_in_place", name="a", launch=on_copies(add, ["residual"]))
    assert check_rejections(CONTRACT, subject, lane=VirtualLane()).violations == []


def test_too_many_outputs_say_which_came_from_arguments():
    (violation,) = result(lambda x, residual: (add(x, residual), x, x), "residual").of("shape")
    said = "returned 3 outputs beside its arguments ['residual'], the contract declares ['out', 'residual']"
    assert violation.message == said


def test_registration_wraps_the_launch_and_returns_the_function(own_registry):
    own_registry.register(CONTRACT)
    assert own_registry.implements("add_in_place", name="a", mutates=("residual",))(add) is add
    (subject,) = own_registry.implementations("add_in_place")
    given = inputs(Case(), torch.device("cpu"), Poison())
    before = given["residual"].clone()
    with VirtualGPU():
        done = subject.launch(**given)
    assert isinstance(done, InPlace)
    assert torch.equal(given["residual"], before)
    assert torch.equal(done.written["residual"], before + given["x"])
    assert done.written["residual"].stride() == given["residual"].stride()
    assert subject.launch.__module__ == add.__module__


def test_a_view_of_a_storage_too_large_to_copy_is_copied_alone(monkeypatch):
    monkeypatch.setattr("harness.in_place.WHOLE_STORAGE_BYTES", 8)
    assert result(add, "residual").violations == []
