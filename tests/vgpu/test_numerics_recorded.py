"""The profile of sm_90 against what an H200 gave, recorded by ``recordings/record.py`` and kept in this tree."""

from pathlib import Path

import numpy as np
import pytest

from harness.vgpu import numerics, profiles

RECORDED = np.load(Path(__file__).parent / "recordings" / "h200.npz")
H200 = profiles.profile("sm_90")
LOWER_HALVES = np.array([0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
# how far the device's approximations were from ours, in units in the last place
ULP = {"exp2": 2, "exp": 2, "log": 2, "log2": 1, "sqrt": 1, "rsqrt": 1, "sin": 1, "cos": 2, "erf": 1}


def names(kind):
    operands = ("x", "y", "a", "b")
    return sorted(k for k in RECORDED.files if k.startswith(f"{kind}/") and k.split("/")[-1] not in operands)


def floats(bits):
    return bits.view(np.uint32).view(np.float32)


def sources(name):
    if name == "fp32":
        upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
        return (LOWER_HALVES[:, None] | upper).view(np.float32)
    width = 8 if name.startswith("fp8") else 16
    return numerics.decode(np.arange(1 << width).astype(f"u{width // 8}"), name)


def ordered(x):
    """Integers that count float32 values in order, so that a difference is a distance in ulp."""
    bits = x.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def assert_same_numbers(actual, expected):
    """Equal bits, any NaN for any NaN."""
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(actual), ~number)
    np.testing.assert_array_equal(actual[number].view(np.uint32), expected[number].view(np.uint32))


def test_the_recording_says_what_it_was_made_on():
    assert str(RECORDED["about"]) == "NVIDIA H200, Triton 3.6.0"
    assert len(names("cast")) == 19


@pytest.mark.parametrize("key", names("cast"))
def test_every_recorded_cast_gives_the_same_bits(key):
    _, source, target, *rounding = key.split("/")
    x, recorded = sources(source), RECORDED[key]
    if target == "fp32":
        actual = numerics.cast(x, source, target, H200).view(np.uint32)
        np.testing.assert_array_equal(actual, recorded.view(np.uint32))
        return
    if (source, target) == ("fp32", "bf16"):
        # stored as the distance from truncation
        recorded = recorded + np.tile(np.arange(1 << 16), len(LOWER_HALVES)).astype(np.int16)
    if (source, target) == ("fp32", "fp16"):
        x = x[3:6]
    held = numerics.cast(x.ravel(), source, target, H200, *rounding)
    np.testing.assert_array_equal(numerics.pack(held, target), recorded.view(numerics.format_of(target).storage))


@pytest.mark.parametrize("key", names("integer"))
def test_every_recorded_integer_cast_gives_the_same_integer(key):
    dtype = np.dtype(key.split("/")[1])
    actual = numerics.float_to_int(floats(RECORDED["integer/x"]), dtype, H200)
    np.testing.assert_array_equal(actual, RECORDED[key].view(dtype))


@pytest.mark.parametrize("key", names("function"))
def test_functions_have_the_recorded_special_values_and_are_as_close_as_stated(key):
    name = key.split("/")[1]
    x, recorded = floats(RECORDED["function/x"]), floats(RECORDED[key])
    actual = getattr(numerics, name)(x, H200)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(recorded))
    number = ~np.isnan(recorded)
    actual, recorded = actual[number], recorded[number]
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(recorded))
    np.testing.assert_array_equal(actual == 0, recorded == 0)
    np.testing.assert_array_equal(np.isinf(actual), np.isinf(recorded))
    assert np.abs(ordered(actual) - ordered(recorded)).max() <= ULP.get(name, 0)


@pytest.mark.parametrize("key", names("pair"))
def test_two_operand_results_are_the_recorded_ones(key):
    _, source, name = key.split("/")
    x, y = RECORDED[f"pair/{source}/x"], RECORDED[f"pair/{source}/y"]
    x, y = (floats(v) if source == "fp32" else numerics.decode(v, source) for v in (x, y))
    with np.errstate(all="ignore"):
        if name.startswith(("max", "min")):
            function = numerics.maximum if name.startswith("max") else numerics.minimum
            result = function(x, y, propagate_nan=name.endswith("nan"))
        else:
            result = {"add": np.add, "mul": np.multiply, "div": lambda a, b: numerics.div(a, b, H200)}[name](x, y)
    recorded = RECORDED[key]
    if source == "fp32":
        recorded = floats(recorded)
        if name == "div":
            # div.full.f32 is an approximation
            number = np.isfinite(recorded)
            assert np.abs(ordered(result[number]) - ordered(recorded[number])).max() <= 2
            result = np.where(number, recorded, result)
        assert_same_numbers(result, recorded)
    else:
        assert_same_numbers(numerics.round_to(result, source, H200), numerics.decode(recorded, source))


@pytest.mark.parametrize("key", names("dot"))
def test_products_of_float32_round_their_operands_as_recorded(key):
    _, precision, which = key.split("/")
    identity = np.eye(32, dtype=np.float32)
    a = identity if which[0] == "1" else RECORDED["dot/a"]
    b = identity if which[1] == "1" else RECORDED["dot/b"]
    actual, recorded = numerics.dot(a, b, input_precision=precision, profile=H200), RECORDED[key]
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(recorded))
    if "1" in which:
        # one term a sum: only the rounding of the operand shows
        assert_same_numbers(actual, recorded)
        return
    number = np.isfinite(recorded)
    np.testing.assert_array_equal(actual[~number & ~np.isnan(recorded)], recorded[~number & ~np.isnan(recorded)])
    # the order of a sum of 32 terms, and the device's truncating adder, are all that differs
    assert np.abs(actual[number] - recorded[number]).max() < 1e-5
