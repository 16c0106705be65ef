"""The sparse MLA oracle on caches written byte by byte, and against torch's own softmax and conversions."""

import math

import pytest
import torch

from reference.sparse_mla_decode import sparse_mla_decode, sparse_mla_decode_magnitude
from tests.unit.contract_cases import build, contract, drawn
from tests.unit.mla_pages import Pages

INF = math.inf
ONE_CODE, MINUS_TWO_CODE = 0x38, 0xC0


def decode(pages, indices, *, q=0.0, heads=1, **options):
    """Run the oracle in float64 for one sequence; ``q`` fills the query."""
    query = torch.full((1, 1, heads, 512), q, dtype=torch.float64)
    result = sparse_mla_decode(query, pages.view, torch.tensor(indices)[None, None], **options)
    return result["out"][0, 0], result["lse"][0]


def test_one_token_is_returned_dequantised_at_the_end_of_its_page():
    pages = Pages(2, 3)
    pages.put(5, codes=(ONE_CODE, MINUS_TWO_CODE), scales=(127, 128, 126, 127, 127, 127, 130), rope=(0.5, -3.0))
    out, lse = decode(pages, [5])
    assert out[0, :2].tolist() == [1, -2]
    assert out[0, 64:66].tolist() == [2, -4]
    assert out[0, 128:130].tolist() == [0.5, -1]
    assert out[0, 446:450].tolist() == [8, -16, 0.5, -3]
    assert lse.item() == 0


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float8_e4m3fn])
def test_both_views_of_the_bytes_are_the_same_cache(dtype):
    pages = Pages(1, 1)
    pages.put(0, codes=(MINUS_TWO_CODE,))
    pages.view = pages.view.view(dtype)
    assert decode(pages, [0])[0][0, 0].item() == -2


def test_the_score_is_the_scaled_product_and_the_lse_is_natural():
    pages = Pages(1, 2)
    pages.put(0, codes=(ONE_CODE,), rope=(1.0,))
    pages.put(1)
    _, lse = decode(pages, [0], q=0.25)
    assert lse.item() == pytest.approx(0.25 * 512 * 512**-0.5)
    out, lse = decode(pages, [0, 1], q=0.25, softmax_scale=math.log(3) / 128)
    assert lse.item() == pytest.approx(math.log(4))
    assert out[0].tolist() == pytest.approx([0.75] * 512)


def test_the_sink_joins_the_denominator_and_not_the_lse():
    pages = Pages(1, 2)
    pages.put(0, codes=(ONE_CODE,))
    sink = torch.tensor([0.0, math.log(3), -INF, INF])
    out, lse = decode(pages, [0], heads=4, attn_sink=sink)
    assert lse.tolist() == [0, 0, 0, 0]
    assert out[:, 0].tolist() == pytest.approx([0.5, 0.25, 1, 0])


def test_a_row_without_tokens_is_zero_and_minus_infinity_whatever_the_sink():
    out, lse = decode(Pages(1, 2), [-1, 2, 2**31 - 1], heads=2, attn_sink=torch.tensor([1.0, -INF]))
    assert torch.equal(out, torch.zeros(2, 512, dtype=torch.float64))
    assert lse.tolist() == [-INF, -INF]


@pytest.mark.parametrize(("length", "tokens"), [(-1, 0), (0, 0), (1, 1), (2, 2), (9, 2)])
def test_only_lanes_before_the_length_count(length, tokens):
    pages = Pages(1, 4)
    pages.put(0)
    pages.put(3)
    _, lse = decode(pages, [3, 0], topk_length=torch.tensor([length]))
    assert lse.item() == pytest.approx(math.log(tokens) if tokens else -INF)


def test_a_token_listed_twice_counts_twice():
    pages = Pages(1, 1)
    pages.put(0)
    assert decode(pages, [0, 0, 0])[1].item() == pytest.approx(math.log(3))


def test_one_softmax_runs_over_both_caches_each_with_its_page_size():
    main, extra = Pages(1, 4), Pages(3, 2)
    main.put(3, codes=(ONE_CODE,))
    extra.put(4, codes=(MINUS_TWO_CODE,))
    arguments = {"extra_k_cache": extra.view, "extra_indices": torch.tensor([[[4, -1, 4]]])}
    out, lse = decode(main, [3], **arguments)
    assert out[0, 0].item() == pytest.approx((1 - 2 - 2) / 3)
    assert lse.item() == pytest.approx(math.log(3))
    out, lse = decode(main, [3], **arguments, extra_topk_length=torch.tensor([1]))
    assert out[0, 0].item() == pytest.approx((1 - 2) / 2)


@pytest.mark.parametrize("head_dim_v", [1, 37, 448, 512])
def test_head_dim_v_cuts_the_output(head_dim_v):
    pages = Pages(1, 1)
    pages.put(0, codes=(ONE_CODE,), rope=(3.0,))
    out, _ = decode(pages, [0], head_dim_v=head_dim_v)
    assert out[0].tolist() == ([1.0] * 448 + [3.0] * 64)[:head_dim_v]


def test_nan_in_a_token_that_counts_reaches_its_rows():
    pages = Pages(1, 3)
    pages.put(0, codes=(ONE_CODE,))
    pages.put(1, codes=(0x7F,) + (0,) * 447)
    pages.put(2, scales=(127, 127, 255, 127, 127, 127, 127))
    for index in (1, 2):
        out, lse = decode(pages, [0, index], q=1.0)
        assert out.isnan().all()
        assert lse.isnan().all()


def test_a_score_below_any_finite_sentinel_is_a_score():
    pages = Pages(1, 1)
    pages.put(0, codes=(ONE_CODE,), rope=(1.0,))
    out, lse = decode(pages, [0], q=-1.0, softmax_scale=2.0**104)
    assert lse.item() == -512 * 2.0**104
    assert out[0, 0].item() == 1


def test_the_lowest_scale_is_a_subnormal_and_not_zero():
    pages = Pages(1, 1)
    pages.put(0, codes=(ONE_CODE,), scales=(0,))
    assert decode(pages, [0])[0][0, 0].item() == 2.0**-127


def test_dequantisation_overflows_as_float32_does():
    pages = Pages(1, 1)
    pages.put(0, codes=(MINUS_TWO_CODE,) + (0,) * 447, scales=(254,))
    assert decode(pages, [0], q=0.0)[1].isnan().all()


def test_agrees_with_torch_softmax_over_torch_conversions():
    def dequantised(cache, index):
        page, offset = divmod(index, cache.shape[1])
        raw = cache[page].contiguous().view(torch.uint8).flatten()
        data, scales = (
            raw[: cache.shape[1] * 576].view(-1, 576)[offset],
            raw[cache.shape[1] * 576 :].view(-1, 8)[offset],
        )
        nope = data[:448].view(torch.float8_e4m3fn).float().view(7, 64)
        factors = scales[:7].view(torch.float8_e8m0fnu).float()
        return torch.cat(((nope * factors[:, None]).flatten(), data[448:].view(torch.bfloat16).float())).double()

    compared = 0
    for case in drawn("sparse_mla_decode", 80):
        if case.special != "nothing" or case.softmax_scale == 2.0**104:
            continue
        given, _ = build(contract("sparse_mla_decode"), case)
        q = given["q"].double()
        actual = contract("sparse_mla_decode").oracle(**{**given, "q": q})
        for row in range(case.batch):
            values = []
            for part, prefix in zip(case.parts, ("", "extra_"), strict=False):
                for lane, index in enumerate(given[f"{prefix}indices"][row, 0].tolist()):
                    past = part.lengths is not None and lane >= part.lengths[row]
                    if not past and 0 <= index < part.cache.pool:
                        values.append(dequantised(given[f"{prefix}k_cache"], index))
            if not values:
                assert actual["out"][row].count_nonzero() == 0
                continue
            kv = torch.stack(values)
            scores = q[row, 0] @ kv.T * (512**-0.5 if case.softmax_scale is None else case.softmax_scale)
            sink = given["attn_sink"]
            column = torch.full((case.num_heads, 1), -INF) if sink is None else sink[:, None]
            weights = torch.softmax(torch.cat((scores, column.double()), dim=1), dim=1)[:, :-1]
            expected = torch.where(weights.isnan(), 0, weights) @ kv[:, : case.head_dim_v]
            small = float(kv.abs().max()) * 1e-12
            torch.testing.assert_close(actual["out"][row, 0], expected, rtol=1e-9, atol=small)
            torch.testing.assert_close(actual["lse"][row], torch.logsumexp(scores, dim=1), rtol=1e-9, atol=1e-12)
            compared += 1
    assert compared > 50


def test_a_leading_token_is_certain_however_large_the_scores():
    pages = Pages(1, 2)
    pages.put(0, codes=(ONE_CODE,), rope=(1.0,))
    pages.put(1, codes=(MINUS_TWO_CODE,), rope=(-2.0,))
    q = torch.ones(1, 1, 1, 512, dtype=torch.bfloat16)
    indices = torch.tensor([[[0, 1]]])
    large = sparse_mla_decode_magnitude(q, pages.view, indices, softmax_scale=2.0**104)
    assert large["out"].unique().tolist() == [1.0]
    assert large["lse"].item() >= 512 * 2.0**104


def test_tied_tokens_of_huge_uncertain_scores_may_weigh_anything():
    pages = Pages(1, 1)
    pages.put(0, codes=(ONE_CODE, MINUS_TWO_CODE), rope=(1.0,))
    q = torch.ones(1, 1, 1, 512, dtype=torch.bfloat16)
    magnitude = sparse_mla_decode_magnitude(q, pages.view, torch.tensor([[[0, 0]]]), softmax_scale=2.0**104)
    assert magnitude["out"].min() >= 2.0**23
