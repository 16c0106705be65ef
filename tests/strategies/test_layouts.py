"""Layouts: the view has the values, the gaps have the poison, and faults shrink to the layout that shows them."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.poison import NAN, Poison
from harness.strategies import Layout, layouts, materialise

ALL = ("contiguous", "padded_rows", "transposed", "offset", "step", "far", "expanded")


def values_of(shape):
    return torch.arange(1, 1 + torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


def positions(view):
    """Return the storage positions of the view's elements, by the definition of strides."""
    ranges = itertools.product(*map(range, view.shape))
    return [view.storage_offset() + sum(i * s for i, s in zip(index, view.stride(), strict=True)) for index in ranges]


def test_every_kind_is_reached(reach):
    corners = {kind: (lambda layout, kind=kind: layout.kind == kind) for kind in ALL}
    corners["pointer not 16-byte aligned in bf16"] = lambda layout: layout.kind == "offset" and layout.amount % 8
    corners["row stride not 16-byte aligned in bf16"] = lambda layout: (
        layout.kind == "padded_rows" and layout.amount % 8
    )
    reach(layouts(rank=3, allow=ALL), corners)


@given(
    shape=st.lists(st.integers(0, 4), min_size=2, max_size=3), layout=layouts(rank=2, allow=[*ALL[:-2]]), data=st.data()
)
def test_the_view_equals_the_values_and_every_other_element_is_poison(shape, layout, data):
    dtype = data.draw(st.sampled_from([torch.float32, torch.bfloat16, torch.int32, torch.uint8, torch.float8_e4m3fn]))
    values, poison = values_of(shape).to(dtype), Poison(NAN)
    view = materialise(values, layout, poison, "gaps")
    assert view.dtype == dtype
    assert torch.equal(view.float(), values.float())
    stored = torch.empty(0, dtype=dtype).set_(view.untyped_storage())
    used = set(positions(view))
    gaps = [position for position in range(stored.numel()) if position not in used]
    junk = poison.fill_(torch.empty(1, dtype=dtype), "gaps")
    assert len(used) == values.numel()
    for position in gaps:
        assert torch.equal(stored[position : position + 1].view(torch.uint8), junk.view(torch.uint8))
    assert poison.regions == {"gaps"}


@pytest.mark.parametrize(
    ("layout", "stride", "offset", "gaps"),
    [
        (Layout(), (20, 5, 1), 0, 0),
        (Layout(kind="padded_rows", amount=3), (32, 8, 1), 0, 24),
        (Layout(kind="transposed"), (20, 1, 4), 0, 0),
        (Layout(kind="offset", amount=7), (20, 5, 1), 7, 7),
        (Layout(kind="step", amount=2), (40, 10, 2), 0, 40),
        (Layout(kind="expanded"), (0, 5, 1), 0, 0),
    ],
)
def test_each_kind_has_the_strides_that_it_names(layout, stride, offset, gaps):
    view = materialise(values_of((2, 4, 5)), layout, Poison(NAN), "gaps")
    assert (view.stride(), view.storage_offset()) == (stride, offset)
    stored = torch.empty(0).set_(view.untyped_storage())
    assert stored.isnan().sum() == gaps


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float8_e4m3fn])
def test_a_far_axis_ends_where_an_offset_in_32_bits_wraps_and_its_stride_still_fits(axis, dtype):
    values = values_of((3, 4, 5)).to(dtype)
    view = materialise(values, Layout(kind="far", amount=axis), Poison(NAN), "gaps")
    assert torch.equal(view.float(), values.float())
    assert view.stride(-axis) < 2**31 <= view.stride(-axis) * (view.shape[-axis] - 1)
    assert min(view.stride()) == 1


def test_expanded_repeats_the_first_row():
    values = values_of((3, 2))
    assert torch.equal(materialise(values, Layout(kind="expanded"), Poison(), "gaps"), values[:1].expand(3, 2))


def test_a_layout_without_gaps_declares_no_region():
    poison = Poison(NAN)
    for kind in ("contiguous", "transposed", "expanded"):
        materialise(values_of((2, 2)), Layout(kind=kind), poison, "gaps")
    assert poison.regions == set()


@pytest.mark.parametrize(
    ("read", "found"),
    [
        pytest.param(
            lambda t: t.as_strided(t.shape, (t.shape[1], t.stride(1)), t.storage_offset()),
            Layout(kind="padded_rows", amount=1),
            id="row stride taken for the width",
        ),
        pytest.param(
            lambda t: t.as_strided(t.shape, (t.stride(0), 1), t.storage_offset()),
            Layout(kind="transposed"),
            id="last stride taken for 1",
        ),
        pytest.param(
            lambda t: t.as_strided(t.shape, t.stride(), 0), Layout(kind="offset", amount=1), id="offset ignored"
        ),
    ],
)
def test_a_stride_fault_shrinks_to_the_layout_that_shows_it(minimal, read, found):
    def fails(layout):
        values = values_of((3, 4))
        return not torch.equal(read(materialise(values, layout, Poison(NAN), "gaps")), values)

    assert minimal(layouts(rank=2), fails) == found


def test_a_fault_of_unit_stride_alone_shrinks_to_the_least_step(minimal):
    assert minimal(layouts(rank=1), lambda layout: layout.kind == "step") == Layout(kind="step", amount=2)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: layouts(rank=-1), "rank"),
        (lambda: layouts(rank=1, allow=["transposed"]), "allow"),
        (lambda: layouts(rank=2, allow=["diagonal"]), "allow"),
        (lambda: layouts(rank=2, allow=[]), "allow"),
        (lambda: Layout(kind="diagonal"), "kind"),
        (lambda: Layout(kind="step", amount=1), "amount"),
        (lambda: Layout(kind="padded_rows"), "amount"),
        (lambda: Layout(kind="transposed", amount=2), "amount"),
        (lambda: materialise(torch.ones(3), Layout(kind="transposed"), Poison(), "gaps"), "values"),
        (lambda: materialise(torch.ones(3), Layout(kind="far", amount=2), Poison(), "gaps"), "values"),
    ],
)
def test_impossible_arguments_are_refused_by_name(call, named):
    with pytest.raises(ValueError, match=f"^{named}: wanted"):
        call()
