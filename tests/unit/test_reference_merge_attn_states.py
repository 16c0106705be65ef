"""The merge oracle on rows small enough to work out by hand, and against attention over the whole."""

import math

import pytest
import torch

from reference.merge_attn_states import merge_attn_states, merge_attn_states_magnitude

INF = math.inf


def merged(rows, lses, dtype=torch.float64):
    """Merge parts of one row; ``rows[part]`` is a list of head_dim values."""
    outs = torch.tensor(rows, dtype=dtype)[:, None]
    result = merge_attn_states(outs, torch.tensor(lses, dtype=torch.float64)[:, None])
    return result["out"][0].tolist(), result["lse"][0].item()


def test_two_equal_parts_average_and_gain_log_2():
    out, lse = merged([[2.0, 0.0], [4.0, 8.0]], [1.0, 1.0])
    assert out == pytest.approx([3, 4])
    assert lse == pytest.approx(1 + math.log(2))


def test_weights_are_the_exponentials_of_the_lses():
    out, lse = merged([[0.0], [4.0]], [0.0, math.log(3)])
    assert out == pytest.approx([3])
    assert lse == pytest.approx(math.log(4))


def test_two_empty_parts_stay_empty():
    assert merged([[math.nan], [INF]], [-INF, -INF]) == ([0.0], -INF)


def test_an_empty_part_adds_nothing_even_if_it_holds_nan():
    assert merged([[5.0], [math.nan]], [300.0, -INF]) == ([5.0], 300.0)


def test_a_single_part_is_returned_as_it_is():
    assert merged([[-7.0, 0.5]], [-3.0e31]) == ([-7.0, 0.5], -3.0e31)


def test_lses_below_any_finite_sentinel_still_count():
    out, lse = merged([[2.0], [4.0]], [-3.0e31, -3.0e31])
    assert (out, lse) == ([3.0], -3.0e31)


def test_nan_propagates_from_a_part_that_is_not_empty():
    out, lse = merged([[math.nan, 1.0], [1.0, 1.0]], [0.0, 0.0])
    assert math.isnan(out[0])
    assert out[1] == 1
    assert lse == pytest.approx(math.log(2))


def test_a_nan_lse_makes_its_row_nan():
    out, lse = merged([[1.0], [1.0]], [math.nan, 0.0])
    assert math.isnan(out[0])
    assert math.isnan(lse)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_outputs_have_the_dtypes_of_the_inputs(dtype):
    result = merge_attn_states(torch.ones(2, 3, 4, dtype=dtype), torch.zeros(2, 3))
    assert (result["out"].dtype, result["out"].shape) == (dtype, (3, 4))
    assert (result["lse"].dtype, result["lse"].shape) == (torch.float32, (3,))


def test_merging_parts_of_a_softmax_gives_the_whole():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(6, 40, dtype=torch.float64, generator=generator) * 5
    values = torch.randn(40, 16, dtype=torch.float64, generator=generator)
    parts = [(scores[:, part], values[part]) for part in (slice(0, 1), slice(1, 17), slice(17, 40))]
    outs = torch.stack([torch.softmax(part, dim=1) @ v for part, v in parts])
    lses = torch.stack([torch.logsumexp(part, dim=1) for part, _ in parts])
    result = merge_attn_states(outs, lses)
    torch.testing.assert_close(result["out"], torch.softmax(scores, dim=1) @ values)
    torch.testing.assert_close(result["lse"], torch.logsumexp(scores, dim=1))


def test_an_lse_is_as_uncertain_as_its_largest_input():
    outs, lses = torch.ones(2, 1, 1, dtype=torch.float64), torch.tensor([[-300.0], [2.0]], dtype=torch.float64)
    assert merge_attn_states_magnitude(outs, lses)["lse"].item() == pytest.approx(300)
    assert merge_attn_states_magnitude(outs[:1], lses[1:])["lse"].item() == pytest.approx(2)


def test_an_empty_part_adds_no_uncertainty():
    outs = torch.full((2, 1, 1), math.nan, dtype=torch.float64)
    outs[0] = 3
    magnitude = merge_attn_states_magnitude(outs, torch.tensor([[0.5], [-INF]], dtype=torch.float64))
    assert magnitude["out"].item() == pytest.approx(3 * (1 + 0.5 + 0.5))
    assert magnitude["lse"].item() == 1
