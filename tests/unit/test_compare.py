"""What is compared bit for bit, and how the message reads."""

import math

import pytest
import torch

from harness.compare import bit_error, breaking, differing, first_bit_error, is_nan, kind_error, number

EIGHT_BIT = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu]


def test_message_says_what_where_how_far_and_what_was_allowed():
    actual, expected = torch.zeros(2, 3), torch.full((2, 3), -0.000231041)
    message = breaking("out", actual != expected, actual, expected, "row budget", torch.full((2, 3), 6.8e-6))
    assert message == (
        "out: 6 of 6 elements break 'row budget'; first at (0, 0): got 0, expected -0.000231041 within 6.8e-06"
    )


def test_scalar_has_no_place():
    assert "first" not in breaking("out", torch.tensor(True), torch.tensor(1), torch.tensor(2), "exact")


def test_nothing_is_said_where_nothing_breaks():
    assert breaking("out", torch.zeros(0, dtype=torch.bool), torch.zeros(0), torch.zeros(0), "exact") is None


def test_zero_and_negative_zero_are_different_bits():
    assert bool(differing(torch.tensor([0.0]), torch.tensor([-0.0])))


def test_nan_payloads_do_not_matter():
    one, other = torch.tensor([0x7FC1, 0xFFC0 - 0x10000], dtype=torch.int16).view(torch.bfloat16).split(1)
    assert not bool(differing(one, other))


@pytest.mark.parametrize("dtype", EIGHT_BIT, ids=str)
def test_every_8_bit_code_equals_itself_and_only_itself_or_nan(dtype):
    codes = torch.arange(256, dtype=torch.uint8).view(dtype)
    rolled = codes.view(torch.uint8).roll(1).view(dtype)
    assert not differing(codes, codes).any()
    assert torch.equal(differing(codes, rolled), ~(is_nan(codes) & is_nan(rolled)))


def test_strided_views_compare_by_element():
    base = torch.arange(12.0).reshape(3, 4)
    assert bit_error("x", base.T, base.T.contiguous(), "exact") is None


@pytest.mark.parametrize(
    ("actual", "said"),
    [
        (None, "got NoneType"),
        (torch.zeros(2, dtype=torch.float16), "got torch.float16 (2,)"),
        (torch.zeros(3), "got torch.float32 (3,)"),
    ],
)
def test_kind_is_judged_before_values(actual, said):
    assert said in kind_error("out", actual, torch.zeros(2))


def test_first_difference_covers_missing_outputs():
    assert "missing" in first_bit_error({}, {"out": torch.zeros(1)}, "same")
    assert first_bit_error({"out": torch.zeros(1), "extra": torch.ones(1)}, {"out": torch.zeros(1)}, "same") is None


def test_integers_are_shown_in_full():
    assert number(torch.tensor(2**31 - 1)) == "2147483647"


def test_what_differs_is_shown_to_differ():
    x = torch.tensor([-3.2385173])
    assert "got -3.23851728, expected -3.23851752" in bit_error("x", x, x.nextafter(torch.tensor([-9.0])), "exact")
    wide = torch.tensor([0.1], dtype=torch.float64)
    said = bit_error("x", wide, wide.nextafter(torch.ones(1, dtype=torch.float64)), "exact")
    assert "got 0.10000000000000001, expected 0.10000000000000002" in said


def test_nan_that_differ_in_their_bits_only_are_shown_by_them():
    x = torch.tensor([math.nan])
    y = (x.view(torch.int32) + 1).view(torch.float32)
    said = breaking("x", torch.tensor([True]), x, y, "inputs untouched")
    assert said.endswith("got nan (0x7fc00000), expected nan (0x7fc00001)")
