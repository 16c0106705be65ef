"""Weights of a sparse MLA decode that are small beside the row's largest, and values near the end of float32."""

import math

import pytest
import torch

from harness.vgpu import VirtualGPU
from kernels.sparse_mla_decode import sparse_mla_decode
from reference.sparse_mla_decode import SMALLEST_SHARE
from tests.unit.mla_pages import Pages

#: Eight bits, all of bfloat16's: a value that is rounded shows it.
VALUE = 1.4296875
LANES = 70


def attend(scores, values, **options):
    """Return out float64 ``[2]`` and lse of a row whose tokens have these scores and the (two) values.

    The list has ``LANES`` lanes, of which those that name no token are scattered between the tokens.
    """
    pages = Pages(1, len(scores))
    for number, (score, value) in enumerate(zip(scores, values, strict=True)):
        pages.put(number, codes=(0,) * 448, rope=(score, *value, *[0.0] * 61))
    indices = torch.full((1, 1, LANES), -1, dtype=torch.int32)
    indices[0, 0, torch.linspace(0, LANES - 1, len(scores)).long()] = torch.arange(len(scores), dtype=torch.int32)
    q = torch.zeros(1, 1, 1, 512, dtype=torch.bfloat16)
    q[..., 448] = 1
    with VirtualGPU():
        out, lse = sparse_mla_decode(q, pages.view, indices, softmax_scale=1.0, **options)
    return out[0, 0, 0, 449:451].double(), lse.item()


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("score", [-72.0, -79.5, -86.5])
def test_a_weight_far_below_the_largest_keeps_its_bits(score, splits):
    share = math.exp(score)
    assert share >= SMALLEST_SHARE
    out, lse = attend((0.0, score), ((0.0, 1.0), (VALUE, 0.0)), num_splits=splits)
    assert out[0].item() == pytest.approx(share * VALUE, rel=2**-8)
    assert out[1].item() == 1
    assert lse == 0


def test_a_sum_of_tokens_keeps_the_bits_of_a_small_one():
    scores = (0.0,) * 63 + (-80.0,)
    out, lse = attend(scores, ((0.0, 1.0),) * 63 + ((VALUE, 0.0),))
    assert out[0].item() == pytest.approx(math.exp(-80) / 63 * VALUE, rel=2**-8)
    assert out[1].item() == 1
    assert lse == pytest.approx(math.log(63))


@pytest.mark.parametrize("splits", [1, 3])
def test_a_mean_of_the_largest_values_is_finite_where_their_sum_is_not(splits):
    largest = torch.finfo(torch.bfloat16).max
    out, _ = attend((0.0,) * LANES, ((largest, -largest),) * LANES, num_splits=splits)
    assert out.tolist() == [largest, -largest]


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("values", [(VALUE * 2.0**-40, 1.0), (VALUE * 2.0**-126, 2.0**-100)])
def test_values_that_are_far_apart_keep_their_bits(splits, values):
    out, _ = attend((0.0,) * LANES, (values,) * LANES, num_splits=splits)
    assert out.tolist() == list(values)
