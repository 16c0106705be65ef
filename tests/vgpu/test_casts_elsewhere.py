"""What other targets, torch and ml_dtypes convert otherwise; and that the checks notice a wrong conversion."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
import torch

from harness.vgpu import numerics, profiles
from tests.vgpu.rounding_reference import FLOATS, FNUZ, H200, LARGEST, TARGETS, boundaries, differing, reference, widen


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
