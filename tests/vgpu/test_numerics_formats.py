"""Every code of every storage format against its definition, written here a second time in exact fractions."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from harness.vgpu import numerics

# exponent bits, mantissa bits, bias, kind of special values
LAYOUTS = {
    "bf16": (8, 7, 127, "ieee"),
    "fp16": (5, 10, 15, "ieee"),
    "fp8e4nv": (4, 3, 7, "fn"),
    "fp8e5": (5, 2, 15, "ieee"),
    "fp8e4b8": (4, 3, 8, "fnuz"),
    "fp8e5b16": (5, 2, 16, "fnuz"),
    "fp8e4b15": (4, 3, 15, "none"),
}
ML_DTYPES = {
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp8e4nv": ml_dtypes.float8_e4m3fn,
    "fp8e5": ml_dtypes.float8_e5m2,
    "fp8e4b8": ml_dtypes.float8_e4m3fnuz,
    "fp8e5b16": ml_dtypes.float8_e5m2fnuz,
}
FORMATS = sorted(LAYOUTS)


def codes_of(fmt):
    exponent, mantissa, _, _ = LAYOUTS[fmt]
    return np.arange(1 << (1 + exponent + mantissa)).astype(np.uint8 if exponent + mantissa == 7 else np.uint16)


def defined(fmt, code):
    """The exact value of one code: a Fraction, or "nan", "inf", "-inf"."""
    exponent_bits, mantissa_bits, bias, kind = LAYOUTS[fmt]
    sign = -1 if code >> (exponent_bits + mantissa_bits) else 1
    exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1)
    mantissa = code & ((1 << mantissa_bits) - 1)
    if kind == "ieee" and exponent == (1 << exponent_bits) - 1:
        return "nan" if mantissa else ("inf" if sign > 0 else "-inf")
    if kind == "fn" and code & 0x7F == 0x7F:
        return "nan"
    if kind == "fnuz" and code == 0x80:
        return "nan"
    if exponent == 0:
        return sign * Fraction(mantissa, 1 << mantissa_bits) * Fraction(2) ** (1 - bias)
    return sign * (1 + Fraction(mantissa, 1 << mantissa_bits)) * Fraction(2) ** (exponent - bias)


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_code_decodes_to_its_defined_value(fmt):
    for code, value in zip(codes_of(fmt).tolist(), numerics.decode(codes_of(fmt), fmt).tolist(), strict=True):
        expected = defined(fmt, code)
        if isinstance(expected, str):
            assert str(value) == expected, hex(code)
        else:
            assert Fraction(value) == expected, hex(code)


@pytest.mark.parametrize("fmt", sorted(ML_DTYPES))
def test_decoding_agrees_with_ml_dtypes_down_to_the_sign_of_zero(fmt):
    actual = numerics.decode(codes_of(fmt), fmt)
    expected = codes_of(fmt).view(ML_DTYPES[fmt]).astype(np.float32)
    np.testing.assert_array_equal(actual, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_load_and_a_store_keep_every_code_and_every_nan(fmt):
    np.testing.assert_array_equal(numerics.pack(numerics.decode(codes_of(fmt), fmt), fmt), codes_of(fmt))


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 1, 1, 4), (0,), (1 << 13,), (3, (1 << 12) - 1)])
def test_decode_and_pack_keep_the_shape_whatever_the_size(fmt, shape):
    codes = np.resize(codes_of(fmt), shape)
    values = numerics.decode(codes, fmt)
    assert values.shape == shape
    assert values.dtype == np.float32
    np.testing.assert_array_equal(numerics.pack(values, fmt), codes)
    assert numerics.pack(values, fmt).shape == shape


@pytest.mark.parametrize("fmt", FORMATS)
def test_large_strided_and_small_arrays_decode_alike(fmt):
    codes = np.resize(codes_of(fmt)[::-1], (256, 256))
    one_by_one = np.array([numerics.decode(row, fmt) for row in codes])
    for view in (codes, np.ascontiguousarray(codes.T).T):
        np.testing.assert_array_equal(numerics.decode(view, fmt).view(np.uint32), one_by_one.view(np.uint32))


def test_signed_storage_decodes_as_the_same_bits():
    codes = codes_of("fp8e4nv")
    np.testing.assert_array_equal(numerics.decode(codes.view(np.int8), "fp8e4nv"), numerics.decode(codes, "fp8e4nv"))


def test_every_e8m0_byte_is_a_power_of_two_and_255_is_nan():
    values = numerics.decode_e8m0(np.arange(256, dtype=np.uint8))
    for byte in range(255):
        assert Fraction(float(values[byte])) == Fraction(2) ** (byte - 127), byte
    assert np.isnan(values[255])
    expected = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    np.testing.assert_array_equal(values, expected)


def test_every_e2m1_code_has_its_defined_value():
    values = numerics.decode_e2m1(np.arange(16, dtype=np.uint8))
    for code in range(16):
        exponent, mantissa = code >> 1 & 3, code & 1
        magnitude = (
            Fraction(mantissa, 2) if exponent == 0 else (1 + Fraction(mantissa, 2)) * Fraction(2) ** (exponent - 1)
        )
        assert Fraction(float(values[code])) == (-magnitude if code & 8 else magnitude), code
    assert np.signbit(values[8])


def test_an_unknown_format_is_refused_by_name():
    with pytest.raises(ValueError, match=r"no storage format 'fp7'; there are: bf16, .*fp8e4nv"):
        numerics.decode(np.zeros(1, np.uint8), "fp7")


def test_reading_the_tables_cannot_change_them():
    first = numerics.decode(np.zeros(4, np.uint8), "fp8e5")
    first += 1
    np.testing.assert_array_equal(numerics.decode(np.zeros(4, np.uint8), "fp8e5"), np.zeros(4, np.float32))
