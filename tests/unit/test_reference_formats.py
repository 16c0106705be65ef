"""The decoders of the oracles against the formats' own tables."""

import math

import pytest
import torch

from reference._formats import apply_scale, decode_e2m1_pairs, decode_e4m3, decode_e8m0, decode_scale

BYTES = torch.arange(256, dtype=torch.uint8)


def test_e2m1_has_the_eight_magnitudes_with_both_signs():
    values = decode_e2m1_pairs(torch.arange(16, dtype=torch.uint8))[0::2].tolist()
    assert values == [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]
    assert math.copysign(1, values[8]) == -1


def test_the_low_nibble_is_the_even_element():
    assert decode_e2m1_pairs(torch.tensor([[0x21, 0xF7]], dtype=torch.uint8)).tolist() == [[0.5, 1, 6, -6]]


def test_every_e4m3_code_is_what_torch_says():
    expected = BYTES.view(torch.float8_e4m3fn).double()
    torch.testing.assert_close(decode_e4m3(BYTES), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("code", "value"), [(0x01, 2**-9), (0x07, 7 * 2**-9), (0x08, 2**-6), (0x7E, 448), (0xFE, -448)]
)
def test_e4m3_limits(code, value):
    assert decode_e4m3(torch.tensor([code], dtype=torch.uint8)).item() == value


@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_e4m3_has_two_nan_codes_and_no_infinity(code):
    assert decode_e4m3(torch.tensor([code], dtype=torch.uint8)).isnan().all()
    assert int((~decode_e4m3(BYTES).isfinite()).sum()) == 2


@pytest.mark.parametrize(("code", "value"), [(0, 2.0**-127), (1, 2.0**-126), (127, 1), (128, 2), (254, 2.0**127)])
def test_e8m0_is_a_power_of_two_down_to_the_subnormal(code, value):
    assert decode_e8m0(torch.tensor([code], dtype=torch.uint8)).item() == value


def test_e8m0_255_is_nan_and_nothing_else_is():
    assert decode_e8m0(BYTES).isnan().nonzero().tolist() == [[255]]


@pytest.mark.parametrize("view", [torch.uint8, torch.float8_e8m0fnu])
def test_scales_of_one_byte_are_codes_and_wider_ones_values(view):
    assert decode_scale(torch.tensor([130], dtype=torch.uint8).view(view)).item() == 8
    assert decode_scale(torch.tensor([130.0])).item() == 130


def test_a_scale_covers_its_group_only():
    scaled = apply_scale(torch.ones(1, 4, dtype=torch.float64), torch.tensor([[2.0, 8.0]], dtype=torch.float64), 2)
    assert scaled.tolist() == [[2, 2, 8, 8]]


@pytest.mark.parametrize(
    ("value", "expected"), [(6.0, math.inf), (-2.0, -math.inf), (1.5, 1.5 * 2.0**127), (2.0**-9, 2.0**118)]
)
def test_dequantisation_overflows_where_float32_does(value, expected):
    scaled = apply_scale(torch.tensor([value], dtype=torch.float64), torch.tensor([2.0**127], dtype=torch.float64), 1)
    assert scaled.item() == expected


def test_dequantisation_keeps_what_float32_would_round():
    exact = 1.5 * (1 + 2.0**-23)
    scale = torch.tensor([1 + 2.0**-23], dtype=torch.float64)
    assert apply_scale(torch.tensor([1.5], dtype=torch.float64), scale, 1).item() == exact
