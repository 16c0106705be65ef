"""What every shipped contract must give: reachable corners, blind oracles, budgets that oracles keep."""

import pytest
import torch
from hypothesis import Phase, find, settings

from harness.cases import parse
from harness.compare import bits, differing
from harness.poison import HUGE, NAN
from tests.unit.contract_cases import NAMES, build, complaints, contract, drawn, known, oracles, same

TAGS = {
    "ep_dispatch_combine": {
        "several ranks", "no rows", "rank without tokens", "fewer tokens than rows", "num_tokens past the rows",
        "several tiles", "invalid id -1", "rank past the last", "id INT32_MIN", "id past 32 bits", "token sent nowhere",
        "token sent to several", "token sent to three", "one rank twice", "all to one rank", "int64 ids", "fp8 rows",
        "mxfp8 rows", "fp4 rows",
        "block scales", "e8m0 scales", "full", "room for all", "expert_out fp16", "expert_out float32",
        "expert_out mixed_rows", "expert_out huge", "expert_out tiny", "expert_out with_nan", "expert_out with_inf",
        "x padded_rows", "x offset", "topk_ids non-contiguous", "expert_out padded_rows", "expert_out offset",
        "blocks asked for", "warps asked for",
    },
    "merge_attn_states": {
        "several parts", "empty part", "empty row", "fp16", "float32", "NaN in outs", "NaN in lses",
        "outs non-contiguous", "lses non-contiguous", "lse one wins", "lse high", "lse low",
    },
    "moe_scatter": {
        "no tokens", "invalid id -1", "id >= num_experts", "id INT32_MIN", "id past 32 bits", "padded token",
        "one expert twice", "unrouted expert", "int64 ids", "e4m3 weights", "e2m1 weights", "e2m1-uint8 weights",
        "lowest scales", "highest scales", "quiet rows", "hidden rows padded_rows", "hidden rows transposed",
        "hidden rows offset", "hidden rows step", "weight rows padded_rows", "weight rows offset",
        "subnormal codes", "NaN in hidden_states", "NaN in w", "NaN in w_scale", "scales non-contiguous",
    },
    "mxfp4_moe": {
        "no tokens", "invalid id -1", "id >= num_experts", "id INT32_MIN", "id past 32 bits", "padded token",
        "one expert twice", "unrouted expert", "int64 ids", "fp16", "uint8 scales", "float32 scales",
        "lowest scales", "highest scales", "quiet rows", "hidden rows padded_rows", "hidden rows transposed",
        "hidden rows offset", "hidden rows step", "clamp", "routed scaling", "NaN in hidden_states",
        "NaN in w13_scale", "NaN in w2_scale", "NaN in topk_weights", "weights padded_rows", "weights no words",
    },
    "paged_mqa_logits": {
        "several heads", "several sequences", "several pages", "partial last page", "empty sequence",
        "sequence past the table", "shared pages", "pages out of order", "far pages", "page padding",
        "max_seq_len below a length", "max_seq_len past a length", "invalid page -1", "invalid page < -1",
        "invalid page >= pool", "every code", "nan query", "nan key", "nan scale", "inf scale", "nan weight",
        "float8 cache", "int64 table", "seq_lens of rank 2", "seq_lens apart", "q non-contiguous",
        "weights non-contiguous", "table non-contiguous",
    },
    "sparse_mla_decode": {
        "sink", "sink=-inf", "sink=+inf", "head_dim_v<512", "softmax_scale given", "huge scores", "extra cache",
        "extra page size", "row without tokens", "all codes", "subnormal codes", "lowest scales", "highest scales",
        "nan code", "nan scale", "nan rope", "nan query", "overflow", "q non-contiguous", "invalid index -1",
        "index >= pool", "index INT32_MIN", "index past 32 bits", "int64 indices", "duplicates", "topk_length",
        "length < topk", "length <= 0", "length > topk", "uint8 cache", "page padding", "far pages",
        "pages out of order",
    },
}  # fmt: skip
REGIONS = {
    "ep_dispatch_combine": {
        "rows that are no tokens", "ids of rows that are no tokens", "rows sent nowhere", "spare rows", "x padding",
        "x_scale padding", "topk_ids padding", "expert_out padding",
    },
    "merge_attn_states": {"empty part", "outs padding", "lses padding"},
    "moe_scatter": {
        "unrouted experts", "rows of padded tokens", "hidden row padding", "weight row padding", "scale padding",
    },
    "mxfp4_moe": {
        "invalid slot weights", "unrouted experts", "rows of padded tokens", "hidden row padding", "weight padding",
    },
    "paged_mqa_logits": {
        "unowned table entries", "unused pages", "unreferenced tokens", "page padding", "q padding", "weights padding",
        "seq_lens padding", "page table padding",
    },
    "sparse_mla_decode": {
        "index lanes past the length", "page padding", "unused pages", "unreferenced tokens", "token pad bytes",
        "q padding",
    },
}  # fmt: skip

each_contract = pytest.mark.parametrize("name", NAMES)


@each_contract
def test_every_feature_is_reached_in_300_cases(name):
    found = frozenset().union(*(contract(name).features(case) for case in drawn(name, 300)))
    assert found == TAGS[name]


@each_contract
def test_the_simplest_case_has_no_features(name):
    # the first that Hypothesis draws; to shrink it is to draw it hundreds of times
    first = settings(database=None, derandomize=True, phases=[Phase.generate], max_examples=1)
    simplest = find(contract(name).cases(), lambda case: True, settings=first)
    assert contract(name).features(simplest) == frozenset()


@each_contract
def test_every_region_of_don_t_care_content_is_built(name):
    found = set().union(*(build(contract(name), case)[1] for case in drawn(name, 300)))
    assert found == REGIONS[name]


@each_contract
def test_the_oracle_in_the_kernel_s_dtypes_is_within_its_own_budget(name):
    of = contract(name)
    pinned = [(case, oracles(of, build(of, case)[0])) for case in of.pinned]
    for case, expected in [*((case, expected) for case, _, expected in known(name)), *pinned]:
        assert complaints(of, expected.low, expected) == [], case


@each_contract
@pytest.mark.parametrize("pattern", [NAN, HUGE], ids=lambda pattern: pattern.name)
def test_the_oracle_does_not_see_content_that_may_be_anything(name, pattern):
    of = contract(name)
    for case, _, expected in known(name):
        assert same(expected.low, of.oracle(**build(of, case, pattern)[0])), case


@each_contract
def test_magnitudes_cover_every_finite_value(name):
    for case, _, expected in known(name):
        assert not expected.magnitude or expected.magnitude.keys() == expected.high.keys()
        for output, magnitude in expected.magnitude.items():
            high = expected.high[output]
            magnitude = magnitude.broadcast_to(high.shape)
            assert ((magnitude >= high.abs() * (1 - 1e-12)) | ~high.isfinite()).all(), case


@each_contract
def test_relations_hold_for_the_oracle(name):
    of = contract(name)
    applied = set()
    for case, _, expected in known(name)[:60]:
        for relation in of.relations:
            changed = relation.transform(case, build(of, case)[0])
            if changed is not None:
                applied.add(relation.name)
                moved = oracles(of, changed)
                for output, high in relation.expect(case, expected.high).items():
                    if high.element_size() == 1:
                        assert not differing(moved.high[output], high).any(), (case, output)
                    else:
                        torch.testing.assert_close(moved.high[output], high, rtol=1e-9, atol=0, equal_nan=True)
    assert applied == {relation.name for relation in of.relations}


@each_contract
def test_a_printed_case_is_read_back(name):
    of = contract(name)
    for case in (*drawn(name, 50), *of.pinned):
        assert parse(of, repr(case)) == case


@each_contract
def test_a_case_has_the_same_bits_every_time(name):
    of = contract(name)
    for case in drawn(name, 30):
        first, second = build(of, case)[0], build(of, case)[0]
        assert first.keys() == second.keys()
        for argument, value in first.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(bits(value), bits(second[argument])), argument


@each_contract
def test_rejections_change_the_argument_they_name(name):
    of = contract(name)
    rejections = of.rejects()
    assert len({rejection.label for rejection in rejections}) == len(rejections)
    for rejection in rejections:
        assert rejection.argument in rejection.inputs()


@each_contract
def test_workloads_are_cases_of_the_contract(name):
    of = contract(name)
    assert of.workloads
    assert {type(case) for case in of.workloads} == {type(of.pinned[0])}
