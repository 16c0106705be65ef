"""The sparse MLA contract against faults that upstream's tests let through."""

import dataclasses
import math

import pytest
import torch

from tests.unit.contract_cases import (
    complaints_about_rounded,
    contract,
    known,
    shows,
    with_changed,
    with_output,
    without,
)

NAME = "sparse_mla_decode"
EXTRA = ("extra_k_cache", "extra_indices", "extra_topk_length")


def with_bytes(change):
    """Return the fault of reading each cache as ``change(codes, scales)`` leaves dense copies of its fields.

    ``codes`` is ``[pages, page_size, 448]`` and ``scales`` ``[pages, page_size, 7]``, both uint8.
    """

    def reread(cache):
        num_pages, page_size = cache.shape[:2]
        raw = cache.view(torch.uint8).reshape(num_pages, -1).clone()
        data = raw[:, : page_size * 576].view(num_pages, page_size, 576)
        change(data[..., :448], raw[:, page_size * 576 :].view(num_pages, page_size, 8)[..., :7])
        return raw.view(cache.shape)

    return with_changed("k_cache", "extra_k_cache", change=reread)


def _flush_codes(codes, scales):
    codes[codes & 0x78 == 0] = 0


def _nan_as_480(codes, scales):
    codes[codes & 0x7F == 0x7F] -= 1


def _flush_lowest_scale(codes, scales):
    codes.unflatten(-1, (7, 64))[scales == 0] = 0


def _next_group(codes, scales):
    scales.copy_(scales.roll(1, -1))


def _first_page(codes, scales):
    scales.copy_(scales[:1].clone().expand_as(scales))


def _without_last_lane(indices):
    return indices.index_fill(2, torch.tensor([indices.shape[2] - 1]), -1)


def _once(indices):
    earlier = (indices[..., None] == indices[..., None, :]).tril(-1).any(dim=-1)
    return indices.where(~earlier, -1)


def _with_sink(lse, inputs):
    return lse if inputs["attn_sink"] is None else torch.logaddexp(lse, inputs["attn_sink"])


def _one_wrong(out, inputs):
    out.view(-1)[out.abs().argmax()] *= 1.03
    return out


FAULTS = {
    "sign lost": with_bytes(lambda codes, scales: codes.bitwise_and_(0x7F)),
    "subnormal codes flushed": with_bytes(_flush_codes),
    "nan codes as 480": with_bytes(_nan_as_480),
    "scale of the next group": with_bytes(_next_group),
    "lowest scale flushed": with_bytes(_flush_lowest_scale),
    "scales of page 0": with_bytes(_first_page),
    "sink ignored": without("attn_sink"),
    "length ignored": without("topk_length"),
    "one lane too few": with_changed("topk_length", change=lambda t: t - 1),
    "extra cache ignored": without(*EXTRA),
    "extra length ignored": without("extra_topk_length"),
    "index 0 invalid": with_changed("indices", change=lambda t: t.where(t != 0, -1)),
    "last lane dropped": with_changed("indices", change=_without_last_lane),
    "duplicates once": with_changed("indices", change=_once),
    "indices of sequence 0": with_changed("indices", change=lambda t: t[:1].expand_as(t)),
    "negative index as token 0": with_changed("indices", change=lambda t: t.where(t != -1, 0)),
    "default scale always": without("softmax_scale"),
    "head 0 for all": with_changed("q", change=lambda t: t[:, :, :1].expand_as(t)),
    "sink of head 0": with_changed("attn_sink", change=lambda t: t[:1].expand_as(t)),
    "lse in base 2": with_output("lse", lambda lse, inputs: lse * math.log2(math.e)),
    "lse with the sink": with_output("lse", _with_sink),
    "lse off by 1e-5": with_output("lse", lambda lse, inputs: lse * 1.00001),
    "lse below -1e30 vanishes": with_output("lse", lambda lse, inputs: lse.where(~(lse < -1e30), -math.inf)),
    "out all zero": with_output("out", lambda out, inputs: torch.zeros_like(out)),
    "one element 3 % off": with_output("out", _one_wrong),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_out_of_tolerance_in_several_drawn_cases(fault):
    assert shows(NAME, FAULTS[fault])


@pytest.mark.parametrize("seed", range(3))
def test_a_scaling_by_0_4_percent_shows_on_33_heads(seed):
    case = dataclasses.replace(contract(NAME).pinned[1], num_heads=33, seed=seed)
    assert complaints_about_rounded(NAME, case, 1.004)
    assert not complaints_about_rounded(NAME, case, 1.0)


def test_one_rounding_of_the_exact_result_is_within_tolerance():
    for case, _, _ in known(NAME):
        assert complaints_about_rounded(NAME, case, 1.0) == [], case


def test_a_pool_whose_tokens_int32_cannot_count_is_refused():
    from kernels._sparse_mla_arguments import _check_pages

    pages = torch.empty(64 * 584, dtype=torch.uint8).as_strided((2**25, 64, 1, 584), (0, 584, 584, 1))
    with pytest.raises(ValueError, match=r"k_cache: wanted fewer than 2\^31 tokens, got 2147483648"):
        _check_pages("k_cache", pages)
