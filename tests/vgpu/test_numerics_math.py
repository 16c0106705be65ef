"""Functions, extremes, integer casts and dot: flushes, special values, rounding of operands."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest

from harness.vgpu import numerics, profiles

SM120 = profiles.profile("sm_120")
NO_FLUSH = dataclasses.replace(SM120, ftz_exp2=False, ftz_sqrt=False, ftz_libdevice=False)
INF, NAN = np.inf, np.nan
TINY = np.float32(2.0**-127)


def f32(*values):
    return np.array(values, dtype=np.float32)


def bits(x):
    return np.asarray(x, dtype=np.float32).view(np.uint32)


def same(actual, expected):
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))


def test_exp2_is_exact_at_every_integer_and_flushes_below_the_normal_range():
    n = np.arange(-152, 131).astype(np.float32)
    exact = np.ldexp(np.ones(n.shape), n.astype(np.int32))
    with np.errstate(over="ignore"):
        same(numerics.exp2(n, NO_FLUSH), exact.astype(np.float32))
        same(numerics.exp2(n, SM120), np.where(n < -126, 0, exact).astype(np.float32))
    assert numerics.exp2(f32(-126), SM120)[0] == 2.0**-126
    assert numerics.exp2(np.nextafter(f32(-126), f32(-200)), SM120)[0] == 0
    assert numerics.exp2(np.array([-127.0]), SM120)[0] == 2.0**-127


def test_exp_is_exp2_of_the_rounded_product_and_is_not_flushed():
    x = np.linspace(-100, 88.5, 4001, dtype=np.float32)
    product = x * np.float32(1.4426950408889634)
    same(numerics.exp(x, SM120), np.exp2(product))
    assert 0 < numerics.exp(f32(-88), SM120)[0] < 2.0**-126
    error = np.abs(numerics.exp(x, SM120).astype(np.float64) / np.exp(x.astype(np.float64)) - 1)
    assert 1e-6 < error[x > -87].max() < 6e-6
    assert numerics.exp(f32(INF, -INF), SM120).tolist() == [INF, 0]


def test_special_values_of_the_other_functions():
    same(numerics.log2(f32(0, 1, 8, INF, TINY), SM120), f32(-INF, 0, 3, INF, -127))
    same(numerics.log(f32(0, 1, INF), SM120), f32(-INF, 0, INF))
    assert np.isnan(numerics.log2(f32(-1, NAN), SM120)).all()
    same(numerics.sqrt(f32(4, -0.0, TINY, -TINY, INF), SM120), f32(2, -0.0, 0, -0.0, INF))
    assert numerics.sqrt(f32(TINY), NO_FLUSH)[0] > 0
    same(numerics.rsqrt(f32(4, 0, -0.0, TINY, -TINY, INF), SM120), f32(0.5, INF, -INF, INF, -INF, 0))
    assert np.isnan(numerics.rsqrt(f32(-1, NAN), SM120)).all()
    same(numerics.div(f32(1, -1, 3), f32(0, 0, 2), SM120), f32(INF, -INF, 1.5))
    assert np.isnan(numerics.div(f32(0, INF), f32(0, INF), SM120)).all()
    for function in (numerics.sin, numerics.erf, numerics.tanh):
        same(function(f32(TINY, -TINY, 0, -0.0), SM120), f32(0, -0.0, 0, -0.0))
        assert function(f32(TINY), NO_FLUSH)[0] != 0
    assert numerics.cos(f32(0), SM120)[0] == 1
    same(numerics.floor(f32(-TINY, -0.5, 1.5), SM120), f32(-0.0, -1, 1))
    same(numerics.ceil(f32(TINY, 0.5, -1.5), SM120), f32(0, 1, -1))


@pytest.mark.parametrize(
    "function",
    [getattr(numerics, n) for n in ("exp2", "exp", "log2", "log", "sqrt", "rsqrt", "sin", "cos", "erf", "tanh")],
)
def test_a_result_does_not_depend_on_the_place_of_its_element(function):
    x = np.abs(np.random.default_rng(0).standard_normal(1003)).astype(np.float32) * 20
    one_by_one = np.concatenate([function(x[i : i + 1], SM120) for i in range(x.size)])
    np.testing.assert_array_equal(bits(function(x, SM120)), bits(one_by_one))
    np.testing.assert_array_equal(bits(function(x[::-1], SM120)), bits(one_by_one)[::-1])


def test_every_processor_takes_the_same_loops_of_numpy():
    """Where AVX-512 was taken, 2^127 was an ulp too large, and a result depended on its place."""
    code = """
from harness._numpy_loops import leave_out_avx512
leave_out_avx512()
import numpy
print(float(numpy.exp2(numpy.full(40, 127, numpy.float32)).max()) == 2.0**127)
"""
    environment = {name: value for name, value in os.environ.items() if name != "NPY_DISABLE_CPU_FEATURES"}
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True)
    assert (ran.stdout.strip(), ran.stderr) == ("True", "")


def test_functions_take_float64_unflushed_and_leave_their_input_alone():
    x = np.array([2.0**-1060, 4.0])
    for name in ("exp2", "exp", "log2", "log", "sqrt", "rsqrt", "sin", "cos", "erf", "tanh", "floor", "ceil"):
        assert getattr(numerics, name)(x, SM120).dtype == np.float64, name
    assert numerics.sqrt(x, SM120).tolist() == [2.0**-530, 2]
    assert x.tolist() == [2.0**-1060, 4.0]


def test_extremes_with_and_without_nan():
    signalling = np.array([0x7F800001], np.uint32).view(np.float32)
    for nan in (f32(NAN), signalling):
        for one, other in ((nan, f32(1)), (f32(1), nan)):
            assert numerics.maximum(one, other, propagate_nan=False)[0] == 1
            assert numerics.minimum(one, other, propagate_nan=False)[0] == 1
            assert np.isnan(numerics.maximum(one, other, propagate_nan=True)[0])
            assert np.isnan(numerics.minimum(one, other, propagate_nan=True)[0])
        assert np.isnan(numerics.maximum(nan, nan, propagate_nan=False)[0])
    assert numerics.maximum(f32(1, -INF), f32(2, INF), propagate_nan=False).tolist() == [2, INF]


def test_positive_zero_is_larger_than_negative_zero():
    for propagate in (False, True):
        for one, other in ((0.0, -0.0), (-0.0, 0.0)):
            same(numerics.maximum(f32(one), f32(other), propagate_nan=propagate), f32(0.0))
            same(numerics.minimum(f32(one), f32(other), propagate_nan=propagate), f32(-0.0))
        same(numerics.maximum(f32(-0.0), f32(-0.0), propagate_nan=propagate), f32(-0.0))


def test_extremes_broadcast_and_work_on_integers():
    a, b = np.arange(6, dtype=np.int32).reshape(2, 1, 3), np.int32(3)
    assert numerics.maximum(a, b, propagate_nan=False).tolist() == [[[3, 3, 3]], [[3, 4, 5]]]
    assert numerics.maximum(f32(), f32(), propagate_nan=False).shape == (0,)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.int32, [0, 1, -1, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0]),
        (np.uint32, [0, 1, 0, 2**32 - 1, 0, 2**32 - 1, 0, 0]),
        (np.int16, [0, 1, -1, 32767, -32768, 32767, -32768, 0]),
        # sixteen bits converted, eight kept
        (np.int8, [0, 1, -1, -1, 0, -1, 0, 0]),
        (np.uint8, [0, 1, 0, 255, 0, 255, 0, 0]),
        (np.int64, [0, 1, -1, 10**10, -(10**10), 2**63 - 1, -(2**63), -(2**63)]),
        (np.uint64, [0, 1, 0, 10**10, 0, 2**64 - 1, 0, 2**63]),
    ],
)
def test_floats_truncate_to_integers_and_saturate(dtype, expected):
    actual = numerics.float_to_int(f32(0.99, 1.99, -1.99, 1e10, -1e10, INF, -INF, NAN), dtype)
    assert actual.dtype == dtype
    assert actual.tolist() == expected


def test_every_float_turns_into_a_bool_by_comparison_with_zero():
    assert numerics.float_to_int(f32(0, -0.0, 0.5, NAN), np.bool_).tolist() == [False, False, True, True]


def test_integers_turn_into_the_nearest_float():
    assert numerics.int_to_float(np.array([2**24 + 1, -(2**31)], np.int32), np.float32).tolist() == [2**24, -(2.0**31)]


def test_tf32_ignores_thirteen_bits_of_float32_operands_and_of_no_others():
    x = f32(1 + 2.0**-10 + 2.0**-11).reshape(1, 1)
    one = f32(1).reshape(1, 1)
    assert numerics.dot(x, one, input_precision="tf32", profile=SM120)[0, 0] == 1 + 2.0**-10
    assert numerics.dot(one, x, input_precision="tf32", profile=SM120)[0, 0] == 1 + 2.0**-10
    assert numerics.dot(x, one, input_precision="ieee", profile=SM120)[0, 0] == x[0, 0]
    assert numerics.dot(x, one, input_precision="tf32", profile=SM120, operand="bf16")[0, 0] == x[0, 0]
    assert numerics.dot(x, one, input_precision="tf32", profile=profiles.profile("gfx950"))[0, 0] == x[0, 0]


def test_tf32_keeps_nan_whose_payload_it_ignores():
    assert np.isnan(numerics.to_tf32(np.array([0x7F800001], np.uint32).view(np.float32)))[0]


def test_nearest_tf32_rounds_ties_away_from_zero():
    x = f32(1 + 2.0**-11, -(1 + 2.0**-11), 1 + 2.0**-11 - 2.0**-23, INF)
    same(numerics.nearest_tf32(x), f32(1 + 2.0**-10, -(1 + 2.0**-10), 1, INF))


@pytest.mark.parametrize(
    ("precision", "low", "high"),
    [("ieee", 0, 3e-7), ("tf32", 1e-4, 1e-3), ("tf32x3", 0, 1e-6), ("bf16x3", 1e-6, 3e-5), ("bf16x6", 0, 1e-6)],
)
def test_each_input_precision_has_its_error(precision, low, high):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 64, 64)).astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    terms = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    error = np.max(np.abs(numerics.dot(a, b, input_precision=precision, profile=SM120) - exact) / terms)
    assert low <= error <= high


@pytest.mark.parametrize("precision", ["ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"])
def test_zero_times_infinity_is_nan_and_infinity_survives_splitting(precision):
    a = np.ones((4, 4), np.float32)
    a[0, 0], a[1, 1], a[2, 2] = INF, NAN, -INF
    b = np.ones((4, 2), np.float32)
    b[0, 0] = b[2, 0] = 0
    actual = numerics.dot(a, b, input_precision=precision, profile=SM120)
    np.testing.assert_array_equal(actual, [[NAN, INF], [NAN, NAN], [NAN, -INF], [2, 4]])


def test_dot_adds_the_accumulator_and_rounds_a_half_one():
    a, b = np.full((2, 3), 1.5, np.float32), np.full((3, 2), 1.25, np.float32)
    acc = np.full((2, 2), 1000, np.float32)
    assert numerics.dot(a, b, acc, profile=SM120, operand="bf16").tolist() == [[1005.625] * 2] * 2
    assert numerics.dot(a, b, acc, profile=SM120, operand="fp16", out="fp16").tolist() == [[1005.5] * 2] * 2
    big = np.full((2, 3), 6e4, np.float32)
    assert np.isinf(numerics.dot(big, b, profile=SM120, operand="fp16", out="fp16")).all()
    np.testing.assert_array_equal(acc, 1000)


def test_integer_dot_is_exact_and_wraps():
    a = np.full((1, 512), -128, np.int8)
    assert numerics.dot(a, a.T, profile=SM120, operand="int8", out="int32")[0, 0] == 512 * 16384
    acc = np.array([[2**31 - 1]], np.int32)
    assert numerics.dot(a[:, :1], a.T[:1], acc, profile=SM120, operand="int8", out="int32")[0, 0] == -(2**31) + 16383


@pytest.mark.parametrize(
    ("left", "right"), [((1,), (1,)), ((5,), (1,)), ((1,), (5,)), ((5,), (5,)), ((2, 1, 3), (1, 1, 1))]
)
def test_dot_broadcasts_its_leading_axes(left, right):
    rng = np.random.default_rng(2)
    a = rng.integers(-4, 5, (*left, 3, 4)).astype(np.float32)
    b = rng.integers(-4, 5, (*right, 4, 2)).astype(np.float32)
    actual = numerics.dot(a, b, profile=SM120, operand="bf16")
    np.testing.assert_array_equal(actual, np.einsum("...ij,...jk->...ik", a, b))


def test_an_unknown_input_precision_is_refused_by_name():
    with pytest.raises(ValueError, match="no input_precision 'fp8'; there are: ieee, tf32"):
        numerics.dot(np.ones((1, 1)), np.ones((1, 1)), input_precision="fp8", profile=SM120)
