"""Junk of every kind lands in every dtype, and is traced region by region."""

import pytest
import torch

from harness.poison import HUGE, INT32_MAX, NAN, PATTERNS, QUIET, Poison

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
EIGHT_BIT = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu]


def filled(pattern, dtype):
    return Poison(pattern).fill_(torch.empty(3, dtype=dtype), "region")


@pytest.mark.parametrize("dtype", FLOATS + EIGHT_BIT[:2], ids=str)
def test_quiet_is_zero_nan_is_nan_and_huge_is_finite_and_large(dtype):
    assert (filled(QUIET, dtype).double() == 0).all()
    assert filled(NAN, dtype).double().isnan().all()
    huge = filled(HUGE, dtype).double()
    assert huge.isfinite().all()
    assert (huge > min(torch.finfo(dtype).max / 8, 1e37)).all()


def test_a_scale_byte_is_nan_under_the_nan_pattern_only():
    assert [bool(filled(pattern, torch.float8_e8m0fnu).float().isnan().all()) for pattern in PATTERNS] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_ids_point_far_outside_or_nowhere(dtype):
    assert filled(NAN, dtype).tolist() == [INT32_MAX] * 3
    assert filled(HUGE, dtype).tolist() == [-1] * 3


def test_packed_bytes_get_the_byte_of_the_pattern():
    assert [filled(pattern, torch.uint8)[0].item() for pattern in PATTERNS] == [0x00, 0xFF, 0x7B]


def test_only_one_region_is_loud_and_every_region_is_remembered():
    poison = Poison(NAN, only="b")
    a, b = poison.fill_(torch.ones(1), "a"), poison.fill_(torch.ones(1), "b")
    assert (a.item(), bool(b.isnan())) == (0, True)
    assert poison.regions == {"a", "b"}


def test_fill_writes_through_a_strided_view_and_nothing_else():
    base = torch.ones(4, 4, dtype=torch.bfloat16)
    Poison(NAN).fill_(base[:, 2:], "padding")
    assert base.isnan().sum() == 8
    assert (base[:, :2] == 1).all()
