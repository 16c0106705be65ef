"""Which numbers of a split travel in float16, and in which unit."""

import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import VirtualGPU
from kernels._sparse_mla_merge import unit_of

COLUMNS = 16
#: What a row is divided by lies in these bounds: weights are rounded to 8 bits, their sum is in [1/2, 1).
FACTORS = (1 - 2.0**-8, 1.0, 4 / 3, 2 + 2.0**-7)
INF, NAN = float("inf"), float("nan")


@triton.jit
def _units(acc_ptr, unit_ptr, loses_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.arange(0, ROWS)
    acc = tl.load(acc_ptr + row[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    unit, loses = unit_of(acc)
    tl.store(unit_ptr + row, unit)
    tl.store(loses_ptr, loses.to(tl.int32))


def units(acc):
    """Return the biased exponents of the units of ``acc`` [2, COLUMNS], and whether float16 loses bits."""
    unit, loses = torch.zeros(2, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with VirtualGPU():
        _units[(1,)](acc, unit, loses, ROWS=2, COLUMNS=COLUMNS)
    return unit, bool(loses.item())


def rows(*numbers):
    """Return float32 [2, COLUMNS]: a row of ones, and one that repeats ``numbers`` with signs in turns."""
    values = (list(numbers) * COLUMNS)[:COLUMNS]
    signed = [-value if place % 3 == 0 else value for place, value in enumerate(values)]
    return torch.tensor([[1.0] * COLUMNS, signed], dtype=torch.float32)


@pytest.mark.parametrize(
    "numbers",
    [
        (1.0,), (1.9999, 2.0**-26 * 1.9999), (0.0,), (3.3e38, 3.3e38 * 2.0**-26), (2.0**-100, 1.99 * 2.0**-100),
        (2.0**-112, 2.0**-138), (2.0**-113, 2.0**-139), (2.0**-126, 2.0**-149), (2.0**-149, 0.0), (INF,), (NAN, 1.0),
    ],
)  # fmt: skip
def test_numbers_that_are_near_each_other_keep_eleven_bits(numbers):
    acc = rows(*numbers)
    unit, loses = units(acc)
    assert not loses
    for factor in FACTORS:
        packed = (acc * (factor * torch.exp2(unit.double() - 127)).float()[:, None]).half()
        back = packed.float() * torch.exp2(127 - unit.double()).float()[:, None]
        wanted = (acc.double() * factor).float().double()
        # half a unit of float32's last place comes from the product, which is subnormal below 2^-126
        torch.testing.assert_close(back.double(), wanted, rtol=2.0**-11 + 2.0**-22, atol=2.0**-149, equal_nan=True)


@pytest.mark.parametrize(
    "numbers", [(1.0, 2.0**-27), (1.0, 0.0), (INF, 1.0), (INF, 0.0), (3.3e38, 1e30), (2.0**-90, 2.0**-120)]
)
def test_a_number_far_below_the_largest_of_its_row_is_kept_in_float32(numbers):
    assert units(rows(*numbers))[1]
