"""The logits oracle on pages small enough to work out by hand."""

import math

import pytest
import torch

from reference.paged_mqa_logits import paged_mqa_logits, paged_mqa_logits_magnitude

INF = math.inf
#: E4M3 codes of 1, -1, 2 and NaN.
ONE, MINUS_ONE, TWO, NAN = 0x38, 0xB8, 0x40, 0x7F


def query(*heads):
    """``[1, 1, H, 128]``: head h has the given codes in its first elements and zeros after."""
    q = torch.zeros(1, 1, len(heads), 128, dtype=torch.uint8)
    for number, codes in enumerate(heads):
        q[0, 0, number, : len(codes)] = torch.tensor(codes, dtype=torch.uint8)
    return q.view(torch.float8_e4m3fn)


def cache(*pages, gap=0):
    """A pool whose page p has ``pages[p]``: {token: (codes, scale)}; other tokens are 0 with scale 1."""
    pool = torch.zeros(len(pages), 64 * 132 + gap, dtype=torch.uint8)
    for page, tokens in zip(pool, pages, strict=True):
        page[8192:8448].view(torch.float32)[:] = 1
        for token, (codes, scale) in tokens.items():
            page[token * 128 : token * 128 + len(codes)] = torch.tensor(codes, dtype=torch.uint8)
            page[8192:8448].view(torch.float32)[token] = scale
    return pool.as_strided((len(pages), 64, 1, 132), (64 * 132 + gap, 132, 132, 1))


def logits(q, kv_cache, weights, length, table, room):
    found = paged_mqa_logits(
        q,
        kv_cache,
        torch.tensor([weights]),
        torch.tensor([length]),
        torch.tensor([table], dtype=torch.int64).reshape(1, -1),
        max_seq_len=room,
    )
    return found["logits"][0].tolist()


def test_a_logit_is_the_scaled_weighted_sum_of_rectified_scores():
    q = query([ONE, TWO], [TWO])
    pool = cache({0: ([ONE, ONE], 0.5), 1: ([MINUS_ONE, TWO], 2.0)})
    # scores of the two heads: token 0: 3 and 2; token 1: 3 and -2, of which relu leaves 0
    assert logits(q, pool, [1.0, 10.0], 2, [0], 2) == [0.5 * 23, 2.0 * 3]


def test_the_sign_of_a_weight_comes_after_relu():
    assert logits(query([ONE]), cache({0: ([TWO], 1.0)}), [-3.0], 1, [0], 1) == [-6.0]


def test_there_is_nothing_past_the_sequence_the_table_and_the_room():
    pool = cache({0: ([ONE], 1.0), 1: ([TWO], 1.0)})
    assert logits(query([ONE]), pool, [1.0], 1, [0], 3) == [1.0, -INF, -INF]
    assert logits(query([ONE]), pool, [1.0], 0, [0], 2) == [-INF, -INF]
    assert logits(query([ONE]), pool, [1.0], 2, [0], 1) == [1.0]
    assert logits(query([ONE]), pool, [1.0], 66, [0], 66)[62:] == [0.0, 0.0, -INF, -INF]


@pytest.mark.parametrize("page", [-1, 2, 2**31 - 1, -(2**31), 2**32])
def test_a_page_outside_the_pool_has_no_logits_and_its_neighbours_have(page):
    pool = cache({}, {0: ([ONE], 4.0)})
    found = logits(query([ONE]), pool, [1.0], 66, [page, 1], 66)
    assert found[:64] == [-INF] * 64
    assert found[64:] == [4.0, 0.0]


def test_pages_follow_the_table_and_may_lie_apart():
    pool = cache({0: ([ONE], 1.0)}, {0: ([TWO], 1.0)}, gap=64)
    found = logits(query([ONE]), pool, [1.0], 65, [1, 0], 65)
    assert (found[0], found[64]) == (2.0, 1.0)


def test_nan_of_a_key_or_a_query_passes_relu():
    assert math.isnan(logits(query([ONE]), cache({0: ([NAN], 1.0)}), [1.0], 1, [0], 1)[0])
    assert math.isnan(logits(query([NAN]), cache({0: ([ONE], 1.0)}), [1.0], 1, [0], 1)[0])


def test_lengths_may_have_two_dimensions():
    arguments = (query([ONE]), cache({0: ([ONE], 1.0)}), torch.ones(1, 1))
    flat = paged_mqa_logits(*arguments, torch.tensor([1]), torch.tensor([[0]]), max_seq_len=2)
    deep = paged_mqa_logits(*arguments, torch.tensor([[1]]), torch.tensor([[0]]), max_seq_len=2)
    assert flat["logits"].tolist() == deep["logits"].tolist() == [[1.0, -INF]]


def test_the_magnitude_adds_up_what_relu_and_signs_take_away():
    found = paged_mqa_logits_magnitude(
        query([ONE, MINUS_ONE]),
        cache({0: ([ONE, TWO], -2.0)}),
        torch.tensor([[-3.0]]),
        torch.tensor([1]),
        torch.tensor([[0]]),
        max_seq_len=2,
    )
    assert found["logits"].tolist() == [[2 * 3 * (1 + 2), 0.0]]
    assert found["logits"].dtype == torch.float64
