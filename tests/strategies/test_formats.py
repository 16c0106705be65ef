"""Formats: exact values, every code, planted non-finites, and what each kind of float tensor promises."""

import math

import ml_dtypes
import numpy as np
import pytest
import torch

from harness.strategies import (
    FORMATS,
    codes,
    derived_seed,
    float_kinds,
    float_tensor,
    formats,
    sample_codes,
    value_kinds,
)

ML_DTYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e8m0": ml_dtypes.float8_e8m0fnu,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


def unpacked(fmt, packed):
    """Return the codes of ``packed`` bytes as a flat list."""
    if FORMATS[fmt].codes_per_byte == 1:
        return packed.flatten().tolist()
    return [code for byte in packed.flatten().tolist() for code in (byte & 15, byte >> 4)]


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_code_has_the_value_that_ml_dtypes_gives_it(fmt):
    values = np.array(FORMATS[fmt].values)
    expected = np.arange(len(values), dtype=np.uint8).view(ML_DTYPES[fmt]).astype(np.float64)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(np.signbit(values[~np.isnan(values)]), np.signbit(expected[~np.isnan(values)]))


@pytest.mark.parametrize(
    ("fmt", "limits"),
    [
        ("e4m3", {0.0, 2.0**-9, 7 * 2.0**-9, 2.0**-6, 1.0, 448.0}),
        ("e5m2", {0.0, 2.0**-16, 3 * 2.0**-16, 2.0**-14, 1.0, 57344.0}),
        ("e2m1", {0.0, 0.5, 1.0, 6.0}),
        ("e8m0", {2.0**-127, 2.0**-126, 1.0, 2.0**127}),
    ],
)
def test_extremes_are_the_limits_with_every_sign(fmt, limits):
    spec = FORMATS[fmt]
    values = [spec.values[code] for code in spec.extremes]
    signs = {1.0} if fmt == "e8m0" else {1.0, -1.0}
    assert {(math.copysign(1, v), abs(v)) for v in values} == {(s, limit) for s in signs for limit in limits}
    assert len(values) == len(signs) * len(limits)


@pytest.mark.parametrize("fmt", FORMATS)
def test_all_codes_holds_each_finite_code_and_no_other(fmt):
    drawn = unpacked(fmt, sample_codes(fmt, (2, 150), seed=3, kind="all_codes"))
    assert set(drawn) == set(FORMATS[fmt].finite)


@pytest.mark.parametrize("fmt", FORMATS)
def test_extremes_holds_each_extreme_and_no_other(fmt):
    assert set(unpacked(fmt, sample_codes(fmt, (16,), seed=0, kind="extremes"))) == set(FORMATS[fmt].extremes)


@pytest.mark.parametrize("fmt", FORMATS)
def test_plain_is_moderate_and_has_both_signs_where_there_are_two(fmt):
    values = [FORMATS[fmt].values[code] for code in unpacked(fmt, sample_codes(fmt, (64,), seed=0))]
    assert all(abs(value) <= 6.0 for value in values)
    assert (min(values) < 0) == (fmt != "e8m0")
    assert len(set(values)) >= 5


@pytest.mark.parametrize(("fmt", "kind"), [("e4m3", "nan"), ("e5m2", "nan"), ("e8m0", "nan"), ("e5m2", "inf")])
def test_exactly_one_code_is_not_finite_and_it_lies_at_the_position_asked_for(fmt, kind):
    drawn = unpacked(fmt, sample_codes(fmt, (4, 5), seed=1, kind=f"with_{kind}", position=7))
    values = [FORMATS[fmt].values[code] for code in drawn]
    assert [i for i, value in enumerate(values) if not math.isfinite(value)] == [7]
    assert getattr(math, f"is{kind}")(values[7])


def test_every_nan_code_is_planted_by_some_seed():
    planted = {int(sample_codes("e5m2", (1,), seed=seed, kind="with_nan", position=0)) for seed in range(60)}
    assert planted == set(FORMATS["e5m2"].nan)


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_code_is_drawn_one_by_one(examples, fmt):
    drawn = examples(codes(fmt=fmt, nonfinite=True), 300)
    assert set(drawn) == set(range(len(FORMATS[fmt].values)))
    assert set(examples(codes(fmt=fmt), 300)) == set(FORMATS[fmt].finite)


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_kind_is_reached(reach, fmt):
    reach(value_kinds(fmt=fmt), {kind: (lambda drawn, kind=kind: drawn == kind) for kind in FORMATS[fmt].kinds})


def test_every_float_kind_is_reached(reach):
    kinds = ("plain", "mixed_rows", "tiny", "huge", "with_nan", "with_inf")
    reach(float_kinds(), {kind: (lambda drawn, kind=kind: drawn == kind) for kind in kinds})


@pytest.mark.parametrize(
    ("fmt", "fault", "code"),
    [
        pytest.param("e4m3", lambda v: v < 0, 0xB8, id="e4m3 sign bit lost"),
        pytest.param("e2m1", lambda v: v < 0, 0xA, id="e2m1 sign bit lost"),
        pytest.param("e4m3", lambda v: 0 < abs(v) < 2**-6, 0x01, id="e4m3 subnormals flushed"),
        pytest.param("e2m1", lambda v: abs(v) == 0.5, 0x1, id="e2m1 half taken for zero"),
        pytest.param("e8m0", lambda v: v < 2.0**-126, 0x00, id="e8m0 byte 0 flushed"),
        pytest.param("e5m2", lambda v: math.isnan(v), 0x7D, id="e5m2 NaN hidden"),
    ],
)
def test_a_decoding_fault_shrinks_to_the_simplest_code_that_shows_it(minimal, fmt, fault, code):
    assert minimal(codes(fmt=fmt, nonfinite=True), lambda drawn: fault(FORMATS[fmt].values[drawn])) == code


def test_a_fault_of_any_kind_shrinks_to_plain(minimal):
    assert minimal(value_kinds(fmt="e4m3"), lambda kind: True) == "plain"
    assert minimal(float_kinds(), lambda kind: True) == "plain"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
class TestFloatTensor:
    def test_plain_is_of_moderate_size_and_both_signs(self, dtype):
        values = float_tensor((16, 16), dtype, seed=0).double()
        assert values.abs().min() >= 0.125
        assert values.abs().max() <= 2.0
        assert values.min() < 0 < values.max()

    def test_tiny_reaches_the_subnormals(self, dtype):
        values = float_tensor((16, 16), dtype, seed=0, kind="tiny").double().abs()
        limit = torch.finfo(dtype).smallest_normal
        assert values.max() <= 16 * limit
        assert (values < limit).any()
        assert (values >= limit).any()

    def test_huge_is_finite_and_holds_the_greatest_value(self, dtype):
        values = float_tensor((16, 16), dtype, seed=0, kind="huge")
        assert values.isfinite().all()
        assert values.max() == torch.finfo(dtype).max
        assert values.double().abs().min() >= torch.finfo(dtype).max / 16.1

    @pytest.mark.parametrize("shape", [(4, 32), (6,), (2, 3, 8)])
    def test_mixed_rows_alternate_between_loud_and_quiet(self, dtype, shape):
        values = float_tensor(shape, dtype, seed=0, kind="mixed_rows").double().abs()
        peaks = (values.amax(-1) if len(shape) > 1 else values).flatten()
        gap = 2**10 / 16 if dtype == torch.float16 else 2**36 / 16
        halves = peaks[0::2], peaks[1::2]
        loud, quiet = sorted(halves, key=lambda half: half.min().item(), reverse=True)
        assert loud.min() >= gap * quiet.max()
        assert quiet.min() > 0

    @pytest.mark.parametrize("kind", ["nan", "inf"])
    def test_one_element_is_not_finite(self, dtype, kind):
        values = float_tensor((4, 4), dtype, seed=0, kind=f"with_{kind}", position=9).flatten()
        assert (~values.isfinite()).nonzero().flatten().tolist() == [9]
        assert getattr(torch, f"is{kind}")(values[9])


def test_both_infinities_are_planted():
    planted = {float_tensor((1,), torch.float32, seed=seed, kind="with_inf").item() for seed in range(2)}
    assert planted == {math.inf, -math.inf}


def test_one_seed_gives_one_tensor_and_two_names_give_two():
    q, k = (float_tensor((8,), torch.float32, seed=derived_seed(0, name)) for name in "qk")
    assert torch.equal(q, float_tensor((8,), torch.float32, seed=derived_seed(0, "q")))
    assert not torch.equal(q, k)


@pytest.mark.parametrize("kind", ["plain", "all_codes", "extremes"])
def test_empty_shapes_are_legal(kind):
    assert sample_codes("e4m3", (0, 4), seed=0, kind=kind).shape == (0, 4)
    assert float_tensor((0, 4), torch.float32, seed=0, kind="mixed_rows").shape == (0, 4)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: codes(fmt="e3m4"), "fmt"),
        (lambda: value_kinds(fmt="e3m4"), "fmt"),
        (lambda: value_kinds(fmt="e4m3", without=("loud",)), "without"),
        (lambda: value_kinds(fmt="e2m1", without=("plain", "all_codes", "extremes")), "without"),
        (lambda: float_kinds(without=("loud",)), "without"),
        (lambda: sample_codes("e2m1", (4,), seed=0, kind="with_nan"), "kind"),
        (lambda: sample_codes("e4m3", (4,), seed=0, kind="with_inf"), "kind"),
        (lambda: sample_codes("e4m3", (4,), seed=0, kind="with_nan", position=4), "position"),
        (lambda: sample_codes("e4m3", (0,), seed=0, kind="with_nan"), "position"),
        (lambda: float_tensor((4,), torch.int32, seed=0), "dtype"),
        (lambda: float_tensor((4,), torch.float8_e4m3fn, seed=0), "dtype"),
        (lambda: float_tensor((4,), torch.float32, seed=0, kind="loud"), "kind"),
        (lambda: float_tensor((0,), torch.float32, seed=0, kind="with_nan"), "position"),
    ],
)
def test_impossible_arguments_are_refused_by_name(call, named):
    with pytest.raises(ValueError, match=f"^{named}: wanted"):
        call()


def test_large_tensors_repeat_what_was_drawn(monkeypatch):
    monkeypatch.setattr(formats, "MOST_DRAWN", 13)
    for drawn in (
        sample_codes("e4m3", (5, 8), seed=1).flatten(),
        sample_codes("e2m1", (5, 8), seed=1).flatten(),
        float_tensor((5, 8), torch.bfloat16, seed=1).flatten(),
    ):
        assert torch.equal(drawn[:27], drawn[13:])
        assert len(set(drawn[:13].tolist())) > 3
    rows = float_tensor((2, 20), torch.float32, seed=1, kind="mixed_rows")
    loud, quiet = sorted(rows.abs().amax(dim=1).tolist(), reverse=True)
    assert loud > 2**17 * quiet
