"""A derived budget excuses honest rounding, every time, and nothing else."""

import math
import random

import pytest
import torch

from harness.tolerance import Budget, Exact
from tests.unit.attention import BF16, Rows


def judge(rows, out, lse=None):
    """Return what both outputs are accused of."""
    low, high, size = rows.oracle(BF16), rows.oracle(torch.float64), rows.magnitude()
    errors = [Budget().compare("out", out, low["out"], high["out"], size["out"])]
    if lse is not None:
        errors.append(Budget(axis=None).compare("lse", lse, low["lse"], high["lse"], size["lse"]))
    return [error for error in errors if error]


@pytest.mark.parametrize("seed", range(60))
def test_correct_bf16_attention_never_alarms(seed):
    draw = random.Random(seed)
    rows = Rows.random(
        seed,
        rows=draw.choice([1, 2, 8, 16, 33]),
        tokens=draw.choice([1, 2, 3, 17, 64, 130]),
        width=draw.choice([1, 2, 7, 16, 64, 256]),
        spread=draw.choice([0.0, 0.1, 1.0, 5.0, 30.0]),
        bias=draw.choice([0.0, 0.0, 0.5, 3.0]),
    )
    result = rows.kernel(tile=draw.choice([1, 16, 64]), splits=min(draw.choice([1, 2, 4]), rows.scores.shape[1]))
    assert judge(rows, **result) == []


@pytest.mark.parametrize("terms", [64, 512, 4096])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_correct_float32_sums_in_another_order_never_alarm(terms, bias):
    generator = torch.Generator().manual_seed(terms)
    x = torch.randn(200, terms, generator=generator) + bias
    tiled = torch.zeros(200)
    for tile in x.split(16, dim=1):
        tiled = tiled + tile.sum(dim=1)
    high = x.double().sum(dim=1)
    budget = Budget(axis=None, steps=max(8, terms // 16))
    assert budget.compare("sum", tiled, x.sum(dim=1), high, x.double().abs().sum(dim=1)) is None


ROWS = Rows.random(7, rows=16, tokens=24, width=64)


def spoiled(kind):
    out = ROWS.kernel()["out"].clone()
    if kind == "all zero":
        out.zero_()
    elif kind == "one row zero":
        out[5].zero_()
    elif kind == "scaled by 0.4 %":
        out = (out.float() * 1.004).to(BF16)
    elif kind == "scaled by -0.4 %":
        out = (out.float() * 0.996).to(BF16)
    elif kind == "one element off by 5 %":
        column = int(out[3].abs().argmax())
        out[3, column] *= 1.05
    elif kind == "sign flipped":
        out = -out
    elif kind == "rows swapped":
        out[[2, 3]] = out[[3, 2]]
    elif kind == "last token left out":
        out = Rows(scores=ROWS.scores[:, :-1], values=ROWS.values[:, :-1]).kernel()["out"]
    return out


@pytest.mark.parametrize(
    "kind",
    [
        "all zero",
        "one row zero",
        "scaled by 0.4 %",
        "scaled by -0.4 %",
        "one element off by 5 %",
        "sign flipped",
        "rows swapped",
        "last token left out",
    ],
)
def test_wrong_output_breaks_the_budget(kind):
    assert judge(ROWS, spoiled(kind))


def test_output_that_was_spoiled_is_right_before():
    assert judge(ROWS, spoiled("nothing")) == []


def test_truncation_in_place_of_rounding_shows_over_many_rows():
    rows = Rows.random(9, rows=64, tokens=24, width=64)
    truncated = rows.oracle(torch.float64)["out"].float().view(torch.int32) & -65536
    (error,) = judge(rows, truncated.view(torch.float32).to(BF16))
    assert "gain" in error


def test_quiet_row_gets_a_quiet_budget():
    loud = Rows.random(3, rows=8)
    scale = torch.ones(8, 1, 1)
    scale[4] = 1e-4
    rows = Rows(scores=loud.scores, values=(loud.values.float() * scale).to(BF16))
    out = rows.kernel()["out"]
    assert judge(rows, out) == []
    out[4] = 0
    (error,) = judge(rows, out)
    assert "first at (4, 0)" in error


def test_diffuse_error_below_the_row_maximum_breaks_the_norm():
    generator = torch.Generator().manual_seed(0)
    noise = torch.where(torch.rand(ROWS.values.shape[0], 64, generator=generator) < 0.5, -1.0, 1.0)
    high = ROWS.oracle(torch.float64)["out"]
    typical = high.pow(2).mean(dim=1, keepdim=True).sqrt()
    (error,) = judge(ROWS, (high + noise * typical * 0.008).to(BF16))
    assert "row norm" in error


def test_scaling_of_an_lse_by_a_millionth_shows():
    lse = ROWS.kernel()["lse"]
    assert judge(ROWS, ROWS.kernel()["out"], lse) == []
    assert judge(ROWS, ROWS.kernel()["out"], lse * (1 + 1e-6) + 1e-6)


def test_correct_output_of_equal_rows_is_no_gain():
    one = Rows.random(11, rows=1, tokens=2, width=64)
    rows = Rows(scores=one.scores.expand(32, -1), values=one.values.expand(32, -1, -1))
    assert judge(rows, **rows.kernel()) == []


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("actual", "low", "high", "right"),
    [
        (NAN, NAN, NAN, True),
        (0.0, NAN, NAN, False),
        (NAN, 1.0, 1.0, False),
        (-INF, -INF, -INF, True),
        (INF, -INF, -INF, False),
        (-1e30, -INF, -INF, False),
        (INF, INF, 1e39, True),
        (-INF, INF, 1e39, False),
        (NAN, INF, 1e39, False),
        (INF, 1.0, 1.0, False),
        (INF, 3.4028234e38, 3.4028235e38, True),
        (1.0, INF, 1.0, True),
        (2.0, INF, 1.0, False),
    ],
)
def test_non_finite_values_belong_where_the_float64_oracle_or_its_overflow_has_them(actual, low, high, right):
    error = Budget(axis=None).compare(
        "lse", torch.tensor([actual]), torch.tensor([low]), torch.tensor([high], dtype=torch.float64)
    )
    assert (error is None) == right


def test_nan_in_one_element_hides_nothing_in_the_others():
    high = torch.tensor([[NAN, 1.0]], dtype=torch.float64)
    assert "got 2, expected 1" in Budget().compare("out", torch.tensor([[NAN, 2.0]]), high.float(), high)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), ()])
@pytest.mark.parametrize("axis", [-1, None])
def test_every_shape_is_judged(shape, axis):
    high = torch.ones(shape, dtype=torch.float64)
    assert Budget(axis=axis).compare("out", high.float(), high.float(), high) is None
    if high.numel():
        assert Budget(axis=axis).compare("out", high.float() * 2, high.float(), high)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_rows_run_along_the_axis(axis):
    high = torch.ones(4, 4, dtype=torch.float64)
    low, actual = high.float(), high.float()
    low[0, 0], actual[0, 2] = 1.1, 1.1
    error = Budget(axis=axis).compare("out", actual, low, high)
    assert (error is None) == (axis != 0)


def test_another_factor_needs_a_reason():
    with pytest.raises(ValueError, match="because"):
        Budget(factor=4)
    assert Budget(factor=4, because="two roundings").factor == 4


def test_budget_refuses_nonsense():
    with pytest.raises(ValueError, match="factor must be positive"):
        Budget(factor=0, because="none")
    with pytest.raises(ValueError, match="steps must be"):
        Budget(steps=0)
    with pytest.raises(ValueError, match="floating dtype"):
        Budget(accumulate=torch.int32)


def test_exact_takes_no_last_bit():
    x = torch.tensor([1.0, NAN, -0.0])
    assert Exact().compare("out", x, x, x.double()) is None
    assert "expected -0" in Exact().compare("out", torch.tensor([1.0, NAN, 0.0]), x, x.double())
