"""Routings: corners reached, weights of invalid slots poisoned, masking faults shrunk to one slot."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.poison import HUGE, INT32_MAX, NAN, PATTERNS, Poison
from harness.strategies import Routing, routing_tensors, routings, unrouted_experts

INVALID = (-1, 4, INT32_MAX, -(2**31))


@st.composite
def small_routings(draw, **arguments):
    """Routings with all sizes drawn, as a contract draws them."""
    sizes = {name: draw(st.integers(1, most)) for name, most in (("num_tokens", 4), ("num_experts", 4), ("top_k", 2))}
    return draw(routings(**sizes, **arguments))


def slots(spec):
    return [expert for token in range(spec.num_tokens) for expert in spec.ids(token)]


def routed(spec):
    return [expert for expert in slots(spec) if 0 <= expert < spec.num_experts]


def test_every_corner_of_a_routing_is_reached(reach):
    corners = {f"id {invalid}": (lambda spec, invalid=invalid: invalid in slots(spec)) for invalid in INVALID}
    corners |= {
        "id 2^32, which wraps to expert 0": lambda spec: 2**32 in slots(spec),
        "last expert": lambda spec: 3 in slots(spec),
        "no invalid id": lambda spec: len(routed(spec)) == len(slots(spec)),
        "nothing routed at all": lambda spec: not routed(spec),
        "padded token among others": lambda spec: (-1, -1) in spec.used_rows and len(routed(spec)) > 0,
        "an expert twice in one token": lambda spec: any(a == b >= 0 for a, b in spec.used_rows),
        "an expert without tokens": lambda spec: 0 < len(set(routed(spec))) < 4,
        "every expert has tokens": lambda spec: len(set(routed(spec))) == 4,
        "all to one expert": lambda spec: len(set(routed(spec))) == 1 and len(routed(spec)) > 8,
        "int32": lambda spec: spec.dtype == torch.int32,
        "int64": lambda spec: spec.dtype == torch.int64,
    }
    reach(routings(num_tokens=7, num_experts=4, top_k=2), corners)


@given(small_routings(invalid=False))
def test_without_invalid_every_id_names_an_expert(spec):
    assert len(routed(spec)) == spec.num_tokens * spec.top_k


def test_a_case_of_many_tokens_stays_readable(examples):
    longest = max(len(repr(spec)) for spec in examples(routings(num_tokens=129, num_experts=8, top_k=2)))
    assert longest < 400


@given(small_routings(), st.sampled_from(PATTERNS), st.integers(0, 99))
def test_exactly_the_weights_of_invalid_slots_are_poison(spec, pattern, seed):
    topk_ids, topk_weights = routing_tensors(spec, Poison(pattern), seed)
    assert topk_ids.dtype == spec.dtype
    assert topk_weights.dtype == torch.float32
    assert topk_ids.shape == topk_weights.shape == (spec.num_tokens, spec.top_k)
    for token in range(spec.num_tokens):
        for slot, expert in enumerate(spec.rows[token % len(spec.rows)]):
            weight = topk_weights[token, slot].item()
            assert topk_ids[token, slot] == expert
            if 0 <= expert < spec.num_experts:
                assert 0.125 <= weight < 1
            else:
                assert weight == pytest.approx(pattern.value, rel=1e-6, nan_ok=True)


def test_poisoning_another_region_leaves_the_weights_quiet():
    spec = Routing(num_tokens=1, num_experts=1, rows=((-1, 0),))
    _, weights = routing_tensors(spec, Poison(NAN, only="elsewhere"), 0)
    assert weights[0, 0] == 0
    _, weights = routing_tensors(spec, Poison(HUGE, only="invalid slot weights"), 0)
    assert weights[0, 0] > 1e38


def test_valid_weights_do_not_depend_on_the_poison():
    spec = Routing(num_tokens=3, num_experts=2, rows=((0, -1), (1, 1)))
    runs = [routing_tensors(spec, Poison(pattern), 5)[1].nan_to_num() for pattern in PATTERNS]
    valid = torch.tensor([[True, False], [True, True], [True, False]])
    assert all(torch.equal(run[valid], runs[0][valid]) for run in runs)


@given(small_routings())
def test_unrouted_experts_are_those_that_no_slot_names(spec):
    assert sorted([*unrouted_experts(spec), *set(routed(spec))]) == list(range(spec.num_experts))


def test_rows_past_the_last_token_route_nothing():
    assert unrouted_experts(Routing(num_tokens=1, num_experts=2, rows=((0,), (1,)))) == (1,)
    assert unrouted_experts(Routing(num_tokens=0, num_experts=2, rows=((0,),))) == (0, 1)


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        pytest.param(
            lambda spec: spec.num_experts in slots(spec),
            Routing(num_tokens=1, num_experts=1, rows=((1,),)),
            id="id == num_experts not masked",
        ),
        pytest.param(
            lambda spec: min(slots(spec)) < 0,
            Routing(num_tokens=1, num_experts=1, rows=((-1,),)),
            id="negative id not masked",
        ),
        pytest.param(
            lambda spec: [e & 0xFFFFFFFF for e in slots(spec) if e >= 0] != [e for e in slots(spec) if e >= 0],
            Routing(num_tokens=1, num_experts=1, rows=((2**32,),), dtype=torch.int64),
            id="id narrowed to 32 bits",
        ),
        pytest.param(
            lambda spec: any(row.count(e) > 1 for row in spec.used_rows for e in row if e in range(spec.num_experts)),
            Routing(num_tokens=1, num_experts=1, rows=((0, 0),)),
            id="an expert named twice counted once",
        ),
        pytest.param(
            lambda spec: bool(unrouted_experts(spec)),
            Routing(num_tokens=1, num_experts=2, rows=((0,),)),
            id="an expert without tokens breaks the grouping",
        ),
        pytest.param(
            lambda spec: [spec.ids(0)] * spec.num_tokens != [spec.ids(t) for t in range(spec.num_tokens)],
            Routing(num_tokens=2, num_experts=2, rows=((0,), (1,))),
            id="ids of token 0 used for all",
        ),
        pytest.param(
            lambda spec: any(e == spec.num_experts - 1 > 0 for e in slots(spec)),
            Routing(num_tokens=1, num_experts=2, rows=((1,),)),
            id="last expert masked",
        ),
    ],
)
def test_a_routing_fault_shrinks_to_the_slots_that_show_it(minimal, fault, found):
    assert minimal(small_routings(), fault) == found


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: routings(num_tokens=-1, num_experts=1, top_k=1), "num_tokens"),
        (lambda: routings(num_tokens=1, num_experts=0, top_k=1), "num_experts"),
        (lambda: routings(num_tokens=1, num_experts=1, top_k=0), "top_k"),
        (lambda: routings(num_tokens=1, num_experts=1, top_k=1, dtypes=()), "dtypes"),
        (lambda: routings(num_tokens=1, num_experts=1, top_k=1, dtypes=(torch.int16,)), "dtypes"),
        (lambda: Routing(num_tokens=1, num_experts=1, rows=()), "rows"),
        (lambda: Routing(num_tokens=1, num_experts=1, rows=((0,), (0, 0))), "rows"),
        (lambda: Routing(num_tokens=1, num_experts=1, rows=((2**32,),)), "rows"),
        (lambda: Routing(num_tokens=1, num_experts=1, rows=((0,),), dtype=torch.float32), "dtype"),
    ],
)
def test_impossible_arguments_are_refused_by_name(call, named):
    with pytest.raises(ValueError, match=f"^{named}: wanted"):
        call()
