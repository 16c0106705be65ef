"""Float conversions of the default targets against a search of the grid of exact values."""

import numpy as np
import pytest

from harness.vgpu import numerics, profiles
from tests.vgpu.rounding_reference import (
    CUDA,
    DIRECT,
    FLOATS,
    H200,
    TARGETS,
    boundaries,
    differing,
    grid,
    reference,
    widen,
)


@pytest.mark.parametrize("fmt", TARGETS)
@pytest.mark.parametrize("source", ["bf16", "fp16"])
def test_every_16_bit_value_rounds_to_the_nearest_code(source, fmt):
    x = numerics.decode(np.arange(1 << 16).astype(np.uint16), source)
    assert differing(numerics.encode(x, fmt, H200), reference(widen(x), fmt), x) == []


@pytest.mark.parametrize("source", ["fp8e4nv", "fp8e5"])
@pytest.mark.parametrize("fmt", ["bf16", "fp16"])
def test_widening_a_byte_is_exact(source, fmt):
    x = numerics.decode(np.arange(256).astype(np.uint8), source)
    number = ~np.isnan(x)
    np.testing.assert_array_equal(numerics.round_to(x, fmt, H200)[number], x[number])


@pytest.mark.parametrize("rounding", ["rtne", "rtz"])
@pytest.mark.parametrize("fmt", TARGETS)
def test_float32_converts_as_defined_at_every_rounding_boundary(fmt, rounding):
    x = boundaries(fmt)
    actual = numerics.encode(x, fmt, H200, rounding)
    assert differing(actual, reference(widen(x), fmt, rounding=rounding), x) == []


@pytest.mark.parametrize("fmt", TARGETS)
def test_float32_converts_as_defined_for_every_upper_half(fmt):
    assert differing(numerics.encode(FLOATS, fmt, H200), reference(widen(FLOATS), fmt), FLOATS) == []


@pytest.mark.parametrize("fmt", TARGETS)
def test_rounding_a_value_is_decoding_its_code(fmt):
    for size in (1, 100, FLOATS.size):
        x = FLOATS[:: FLOATS.size // size]
        expected = numerics.decode(numerics.encode(x, fmt, H200), fmt)
        np.testing.assert_array_equal(numerics.round_to(x, fmt, H200).view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("fmt", TARGETS)
def test_float64_is_rounded_once(fmt):
    values = grid(fmt)
    middle = (values[:-1] + values[1:]) / 2
    x = np.concatenate([np.nextafter(middle, 0), middle, np.nextafter(middle, np.inf), [1e300, 1e-300, 5e-324]])
    x = np.concatenate([x, -x])
    assert differing(numerics.encode(x, fmt, H200), reference(x, fmt), x) == []


@pytest.mark.parametrize("name", CUDA)
def test_a_nan_of_any_payload_and_sign_becomes_the_canonical_one(name):
    payloads = np.array([0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC00000, 0xFFFFFFFF], np.uint32)
    for fmt, code in {"bf16": 0x7FFF, "fp16": 0x7FFF, "fp8e4nv": 0x7F, "fp8e5": 0x7F}.items():
        for rounding in ("rtne", "rtz"):
            codes = numerics.encode(payloads.view(np.float32), fmt, profiles.profile(name), rounding)
            assert set(codes.tolist()) == {code}, (fmt, rounding)


@pytest.mark.parametrize("name", DIRECT)
def test_eight_bit_overflow_saturates_and_16_bit_overflow_is_infinite(name):
    target = profiles.profile(name)
    big = np.array([np.inf, -np.inf, 3.4e38, 1e5, 449.0], np.float32)
    assert numerics.round_to(big, "fp8e4nv", target).tolist() == [448, -448, 448, 448, 448]
    assert numerics.round_to(big, "fp8e5", target).tolist() == [57344, -57344, 57344, 57344, 448]
    assert numerics.round_to(big, "fp16", target).tolist() == [np.inf, -np.inf, np.inf, np.inf, 449]
    assert numerics.round_to(big[:3], "bf16", target).tolist() == [np.inf, -np.inf, np.inf]


def test_truncation_keeps_infinity_and_never_makes_one():
    x = np.array([np.inf, 3.4028235e38, 65535.0, 61440.0], np.float32)
    assert numerics.round_to(x, "fp8e5", H200, "rtz").tolist() == [np.inf, 57344, 57344, 57344]
    assert numerics.round_to(x, "fp16", H200, "rtz").tolist() == [np.inf, 65504, 65504, 61440]


@pytest.mark.parametrize("function", [numerics.encode, numerics.round_to])
def test_unknown_formats_and_roundings_are_refused_by_name(function):
    with pytest.raises(ValueError, match="no storage format 'fp9'"):
        function(np.zeros(1, np.float32), "fp9", H200)
    with pytest.raises(ValueError, match="no rounding 'up'; there are: rtne, rtz"):
        function(np.zeros(1, np.float32), "bf16", H200, "up")


@pytest.mark.parametrize("fmt", TARGETS)
def test_conversion_leaves_its_input_alone_and_takes_any_layout(fmt):
    x = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)
    x[0, 0] = np.nan
    kept = x.copy()
    expected = numerics.encode(x, fmt, H200)
    frozen = np.broadcast_to(x, (2, 4, 6))
    for view in (x[:, ::-1], x.T, frozen, x.astype(np.float64), x[0, 1]):
        actual = numerics.encode(view, fmt, H200)
        assert actual.shape == view.shape
        assert numerics.round_to(view, fmt, H200).shape == view.shape
    np.testing.assert_array_equal(numerics.encode(frozen, fmt, H200)[1], expected)
    np.testing.assert_array_equal(numerics.encode(x.T, fmt, H200), expected.T)
    np.testing.assert_array_equal(x, kept)


def test_an_unknown_target_is_refused_by_name():
    with pytest.raises(ValueError, match=r"no target profile 'sm_12'; there are: sm_80, .*sm_120, .*gfx950"):
        profiles.profile("sm_12")
    assert profiles.profile().name == "sm_120"
