"""Float conversions against a search of the grid of exact values, and against torch and ml_dtypes.

The reference shares nothing with the code under test: it sorts the values of all codes, takes the midpoints of
neighbours (exact in float64) and looks up where each input falls; a tie goes to the even code.
"""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
import torch

from harness.vgpu import numerics, profiles

TARGETS = ("bf16", "fp16", "fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16")
LARGEST = {
    "bf16": float.fromhex("0x1.fep127"),
    "fp16": 65504.0,
    "fp8e4nv": 448.0,
    "fp8e5": 57344.0,
    "fp8e4b8": 240.0,
    "fp8e5b16": 57344.0,
}
MANTISSA = {"bf16": 7, "fp16": 10, "fp8e4nv": 3, "fp8e5": 2, "fp8e4b8": 3, "fp8e5b16": 2}
WIDTH = {fmt: 16 if fmt in ("bf16", "fp16") else 8 for fmt in TARGETS}
FNUZ = ("fp8e4b8", "fp8e5b16")
CUDA = [name for name in profiles.names() if name.startswith("sm_")]
DIRECT = [name for name in CUDA if name not in ("sm_80", "sm_89")]
H200 = profiles.profile("sm_90")


def storage(fmt):
    return np.uint8 if WIDTH[fmt] == 8 else np.uint16


def widen(x):
    """float64; converting a signalling NaN would warn."""
    with np.errstate(invalid="ignore"):
        return x.astype(np.float64)


def grid(fmt):
    """Positive finite values of ``fmt`` in ascending order: index is code."""
    values = widen(numerics.decode(np.arange(1 << (WIDTH[fmt] - 1)).astype(storage(fmt)), fmt))
    return values[np.isfinite(values) & (values <= LARGEST[fmt])]


def reference(x, fmt, *, rounding="rtne", saturate=None, nan=None):
    """Codes of float64 ``x``, by search.  ``saturate``: overflow and infinity give the largest finite value."""
    saturate = WIDTH[fmt] == 8 if saturate is None else saturate
    nan = (0x80 if fmt in FNUZ else (1 << (WIDTH[fmt] - 1)) - 1) if nan is None else nan
    values = grid(fmt)
    magnitude = np.abs(np.where(np.isnan(x), 0.0, x))
    below = np.searchsorted(values, magnitude, side="right") - 1
    if rounding == "rtne":
        middle = np.append((values[:-1] + values[1:]) / 2, np.inf)
        # one more step beyond the largest value decides what overflows
        middle[-1] = values[-1] + (values[-1] - values[-2]) / 2
        up = (magnitude > middle[below]) | ((magnitude == middle[below]) & (below % 2 == 1))
        code = below + up
    else:
        code = below
    last = len(values) - 1
    infinity = {"fp8e4nv": 0x7F, "fp8e4b8": 0x80, "fp8e5b16": 0x80}.get(fmt, last + 1)
    if rounding == "rtne":
        code = np.where(code > last, last if saturate else infinity, code)
        code = np.where(np.isinf(x), last if saturate and fmt not in FNUZ else infinity, code)
    else:
        code = np.where(np.isinf(x), infinity, code)
    negative = np.signbit(x) & ~((fmt in FNUZ) & ((code == 0) | (code == 0x80)))
    code = code | negative.astype(np.int64) << (WIDTH[fmt] - 1)
    return np.where(np.isnan(x), nan, code).astype(storage(fmt))


def differing(actual, expected, x):
    """(input, got, wanted) of the first few differences."""
    bad = np.flatnonzero(actual != expected)
    return [(float(x[i]).hex(), hex(actual[i]), hex(expected[i])) for i in bad[:5]]


def boundaries(fmt):
    """float32 values at, and one ulp beside, every code and every midpoint; both signs; the ends of float32."""
    values = grid(fmt)
    step = values[-1] - values[-2]
    points = np.concatenate(
        [values, (values[:-1] + values[1:]) / 2, values[-1] + step * np.array([0.5, 1.0, 1.5, 2.0])]
    )
    with np.errstate(over="ignore"):
        points = points.astype(np.float32)
    bits = points[np.isfinite(points)].view(np.uint32).astype(np.int64)
    ends = np.array([0x00000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000])
    near = np.unique(np.concatenate([bits - 1, bits, bits + 1, ends]).clip(0, 0x7F800000)).astype(np.uint32)
    return np.concatenate([near, near | np.uint32(0x80000000)]).view(np.float32)


ALL_UPPER_HALVES = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
LOWER_HALVES = np.array([0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
FLOATS = (ALL_UPPER_HALVES[:, None] | LOWER_HALVES).ravel().view(np.float32)


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


@pytest.mark.parametrize("fmt", ["fp8e4nv", "fp8e5"])
def test_a_target_that_goes_through_float16_loses_what_float16_cuts_off(fmt):
    older = dataclasses.replace(H200, fp8_path="through_fp16")
    x = boundaries(fmt)
    cut = numerics.decode(reference(widen(x), "fp16", rounding="rtz"), "fp16")
    expected = reference(widen(np.where(np.isnan(x), x, cut)), fmt)
    assert differing(numerics.encode(x, fmt, older), expected, x) == []
    just_above_a_tie = np.nextafter(np.float32(1.0625 if fmt == "fp8e4nv" else 1.125), np.float32(2))
    assert numerics.round_to(just_above_a_tie, fmt, older) == 1
    assert numerics.round_to(just_above_a_tie, fmt, H200) > 1


def test_a_target_that_adds_half_a_unit_rounds_ties_away_and_overflows_to_infinity():
    # sm_80 before Triton 3.9: and 0xfffe, add 0x0080, keep the upper byte of the truncated float16
    older = dataclasses.replace(H200, fp8_path="bits", fp8_overflow="special")
    halves = np.arange(0x7C00, dtype=np.uint16)
    expected = ((halves & 0xFFFE) + 0x80 >> 8).astype(np.uint8)
    x = numerics.decode(halves, "fp16")
    assert differing(numerics.encode(x, "fp8e5", older), expected, x) == []


@pytest.mark.parametrize("fmt", TARGETS[2:])
def test_amd_saturates_keeps_the_sign_of_nan_and_knows_one_fnuz_nan(fmt):
    target = profiles.profile("gfx942")
    x = np.concatenate([boundaries(fmt), np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32)])
    nan = np.where(np.signbit(x) & (fmt not in FNUZ), 0xFF, 0x80 if fmt in FNUZ else 0x7F)
    assert differing(numerics.encode(x, fmt, target), reference(widen(x), fmt, nan=nan), x) == []


def test_amd_keeps_the_payload_of_a_16_bit_nan():
    x = np.array([0x7F810000, 0xFFC10000, 0x7F800001], np.uint32).view(np.float32)
    target = profiles.profile("gfx950")
    assert numerics.encode(x, "bf16", target).tolist() == [0x7FC1, 0xFFC1, 0x7FC0]
    assert numerics.encode(x, "fp16", target).tolist() == [0x7E08, 0xFE08, 0x7E00]


def test_fp8e4b15_is_clamped_to_1_75_and_rounds_ties_away():
    x = np.array([1.0, -1.0, 1.0625, 1.7, 1.8125, 2.0, -100.0, np.inf, np.nan, 0.0, -0.0], np.float32)
    expected = [1.0, -1.0, 1.125, 1.75, 1.75, 1.75, -1.75, 1.75, 1.75, 0.0, -0.0]
    assert numerics.round_to(x, "fp8e4b15", H200).tolist() == expected


def test_casting_fp8e5_to_bf16_turns_infinity_and_nan_into_numbers_on_nvidia_only():
    # the compiled cast shifts the code and multiplies by 2**112; recorded on an H200 as well
    codes = np.array([0x7B, 0x7C, 0x7D, 0x7E, 0x7F, 0xFC, 0xFF, 0x01, 0x80], np.uint8)
    x = numerics.decode(codes, "fp8e5")
    nvidia = numerics.cast(x, "fp8e5", "bf16", profiles.profile("sm_120"))
    assert nvidia.tolist() == [57344, 65536, 81920, 98304, 114688, -65536, -114688, 2.0**-16, 0]
    for source, target, name in (("fp8e5", "bf16", "gfx950"), ("fp8e5", "fp32", "sm_120"), ("fp8e5", "fp16", "sm_120")):
        wide = numerics.cast(x, source, target, profiles.profile(name))
        assert np.isinf(wide[[1, 5]]).all(), (target, name)
        assert np.isnan(wide[[2, 3, 4, 6]]).all(), (target, name)


def test_widening_to_float32_makes_nan_canonical_except_from_bf16():
    for source, code, bits in (
        ("fp8e4nv", 0xFF, 0x7FFFFFFF),
        ("fp16", 0xFC01, 0x7FFFFFFF),
        ("bf16", 0xFF81, 0xFF810000),
    ):
        x = numerics.decode(np.array([code], numerics.format_of(source).storage), source)
        assert numerics.cast(x, source, "fp32", H200).view(np.uint32)[0] == bits, source


def test_a_cast_to_the_same_format_and_through_float64_changes_nothing():
    x = FLOATS[:: 1 << 8]
    assert numerics.cast(x, "fp32", "fp32", H200) is x
    back = numerics.cast(numerics.cast(x, "fp32", "fp64", H200), "fp64", "fp32", H200)
    np.testing.assert_array_equal(back, x)


# Where torch and ml_dtypes convert otherwise than the hardware does, and why.
DISAGREEMENTS = {
    ("ml_dtypes", "fp8e4nv"): "overflow and infinity become NaN; the device saturates",
    ("ml_dtypes", "fp8e5"): "overflow and infinity become infinity; the device saturates",
    ("ml_dtypes", "fp8e4b8"): "overflow becomes NaN; the device saturates",
    ("ml_dtypes", "fp8e5b16"): "overflow becomes NaN; the device saturates",
    ("torch", "fp8e5"): "overflow and infinity become infinity; the device saturates",
    ("torch", "fp8e4b8"): "overflow becomes NaN; the device saturates",
    ("torch", "fp8e5b16"): "overflow becomes NaN; the device saturates",
}
TORCH = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz,
}
ML = {
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp8e4nv": ml_dtypes.float8_e4m3fn,
    "fp8e5": ml_dtypes.float8_e5m2,
    "fp8e4b8": ml_dtypes.float8_e4m3fnuz,
    "fp8e5b16": ml_dtypes.float8_e5m2fnuz,
}


def elsewhere(library, fmt, x):
    if library == "torch":
        return torch.from_numpy(x).to(TORCH[fmt]).to(torch.float32).numpy()
    with np.errstate(all="ignore"):
        return x.astype(ML[fmt]).astype(np.float32)


@pytest.mark.parametrize("fmt", TARGETS)
@pytest.mark.parametrize("library", ["torch", "ml_dtypes"])
def test_other_libraries_agree_but_for_the_listed_overflows(library, fmt):
    other = elsewhere(library, fmt, FLOATS.copy())
    ours = numerics.round_to(FLOATS, fmt, H200)
    differ = ~((other.view(np.uint32) == ours.view(np.uint32)) | (np.isnan(other) & np.isnan(ours)))
    assert differ.any() == ((library, fmt) in DISAGREEMENTS)
    # a code too large by one step, or infinity: nothing below differs
    assert np.all(np.abs(FLOATS[differ]) > LARGEST[fmt])


def truncate(x):
    return (x.view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def half_up(x):
    return (x.view(np.uint32) + np.uint32(0x8000) >> np.uint32(16)).astype(np.uint16)


def carry_lost(x):
    """The exponent stays what it was when the mantissa rounds up to the next power of two."""
    right = numerics.encode(x, "fp8e4nv", H200)
    low = numerics.encode(x, "fp8e4nv", H200, "rtz")
    return np.where((low & 0x78) != (right & 0x78), low & 0x78, right)


def no_saturation(x):
    return numerics.encode(x, "fp8e5", dataclasses.replace(H200, fp8_overflow="special"))


@pytest.mark.parametrize(
    ("fmt", "wrong"), [("bf16", truncate), ("bf16", half_up), ("fp8e4nv", carry_lost), ("fp8e5", no_saturation)]
)
def test_the_table_checks_reject_a_wrong_conversion(fmt, wrong):
    for x in (boundaries(fmt), FLOATS):
        number = x[~np.isnan(x)]
        assert differing(wrong(number), reference(widen(number), fmt), number) != []


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
