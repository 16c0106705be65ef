"""What every drawn spec promises: its repr is short and evaluates to it, it is frozen."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.vendor.pretty import pretty

import harness.strategies as strategies
from harness.strategies import (
    Layout,
    PagedCache,
    Spec,
    block_tables,
    derived_seed,
    index_lists,
    layouts,
    paged_caches,
    routings,
)

SPECS = {
    "layouts": layouts(rank=3),
    "paged_caches": paged_caches(),
    "index_lists": paged_caches().flatmap(lambda cache: index_lists(cache=cache, num_rows=4, topk=130)),
    "routings": routings(num_tokens=129, num_experts=256, top_k=6),
    "block_tables": block_tables(seq_lens=(33, 0, 17), page_size=16),
}
CONTIGUOUS = Layout()


@pytest.mark.parametrize("name", SPECS)
@given(data=st.data())
def test_the_repr_of_a_spec_evaluates_to_it(name, data):
    spec = data.draw(SPECS[name])
    assert eval(repr(spec), {"torch": torch} | vars(strategies)) == spec
    assert hash(spec) == hash(eval(repr(spec), {"torch": torch} | vars(strategies)))


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_is_frozen_and_takes_keywords_only(name, examples):
    spec = examples(SPECS[name], 1)[0]
    field = dataclasses.fields(spec)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(spec, field, None)
    with pytest.raises(TypeError, match="positional"):
        type(spec)(getattr(spec, field))


def test_hypothesis_prints_a_spec_as_its_repr():
    cache = PagedCache(page_size=1, num_tokens=1, page_order=(1, 0))
    assert pretty(cache) == repr(cache) == "PagedCache(page_size=1, num_tokens=1, page_order=(1, 0))"
    assert repr(Layout()) == "Layout()"


def test_a_spec_leaves_out_fields_at_their_default_whatever_they_default_to():
    @dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
    class Case(Spec):
        size: int
        layout: Layout = CONTIGUOUS
        seeds: tuple[int, ...] = dataclasses.field(default_factory=tuple)

    assert repr(Case(size=1)) == "Case(size=1)"
    assert repr(Case(size=1, layout=Layout(kind="transposed"), seeds=(1,))) == (
        "Case(size=1, layout=Layout(kind='transposed'), seeds=(1,))"
    )


def test_derived_seeds_are_the_same_in_every_run_and_fit_a_generator():
    assert derived_seed(0, "q") == 13_918_708_975_567_133
    assert all(0 <= derived_seed(seed, "q") < 2**63 for seed in range(100))
    assert len({derived_seed(seed, name) for seed in range(50) for name in ("q", "k_cache")}) == 100
