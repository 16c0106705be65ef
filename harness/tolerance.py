"""How far an output may be from its oracle: nothing for moved data, a derived budget for arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch

from harness.compare import bits, breaking, differing

#: A row of fewer elements is too short a sample: with 16 independent roundings the largest is below a quarter of
#: its bound with probability 4**-16, so the oracle's own error cannot be small by luck in a longer row.
SHORT_ROW = 16
#: Distinct rows below which the gain of a tensor says nothing: their mean rounding error is as large as one ulp.
GAIN_ROWS = 8.0
#: Standard errors allowed to a gain; one in 1e9 normal variables is further out.
GAIN_SIGMA = 6.0


class Tolerance(Protocol):
    """Judges one output.  All tensors have one shape; ``high`` and ``magnitude`` are float64."""

    def compare(
        self,
        name: str,
        actual: torch.Tensor,
        low: torch.Tensor,
        high: torch.Tensor,
        magnitude: torch.Tensor | None = None,
    ) -> str | None:
        """Return what is wrong with ``actual``, or None.

        ``low`` is the oracle on the kernel's own inputs, with the dtype that the output must have; ``high`` the
        oracle on the same bits widened to float64; ``magnitude`` the sum of absolute terms behind each element,
        broadcastable to it, |high| if None.
        """


@dataclass(frozen=True)
class Exact:
    """Every bit as in the oracle, NaN payloads aside: for data movement and integers."""

    def compare(
        self,
        name: str,
        actual: torch.Tensor,
        low: torch.Tensor,
        high: torch.Tensor,
        magnitude: torch.Tensor | None = None,
    ) -> str | None:
        """Return the first element whose bits differ from ``low``, or None."""
        if actual.dtype == low.dtype and torch.equal(bits(actual), bits(low)):
            return None
        return breaking(name, differing(actual, low), actual, low, "exact")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A multiple of the error that rounding alone explains, judged row by row against float64.

    With ``own = |low - high|``, S the magnitude, u = eps / 2 of a dtype, half_ulp the spacing of the output dtype
    at ``high``, halved, and rows along ``axis`` (``axis=None``: each element is a row, for a scalar per row such as
    an lse), three rules must hold:

    *row budget*, each element: ``|error| <= factor * (max_row(own) + a S) + half_ulp``.  ``a = sqrt(steps / 2) u_acc``
    covers an accumulation in ``accumulate`` in another order: n additions one after the other to a growing sum have a
    standard deviation of 0.24 sqrt(n) u S, of which ``factor * a`` is six; tensor cores that truncate stay below too.
    With the defaults it is 4 u S.  In rows shorter than 16 ``own`` may be small by luck, so u_out S, the worst case of
    operands rounded to the output dtype, is added inside the brackets.

    *row norm*, each row of 16 and more: the same in the 2-norm, ``|error|_2 <= factor * (|own|_2 + a |S|_2) +
    |half_ulp|_2`` (the triangle inequality over the terms above): a diffuse error cannot hide below the row's maximum.

    *gain*, the tensor: the least-squares slope g of ``error`` on ``high``, each row scaled by 1 / |S|_2 so that a
    loud row counts no more than a quiet one.  ``|g| <= factor * (|g_own| + a <|high|, S> / <high, high>) +
    max(6 u_out / sqrt(3 n), t se)``, where n is the effective number of distinct rows, u / sqrt(3) bounds the standard
    deviation of one rounding shared by a whole row, se is the standard error of g from the scatter between distinct
    rows and t the quantile of Student's distribution with n - 1 degrees of freedom that 6 is of the normal one.
    Applied where n >= 8.  This sees a 0.4 % scaling, which every single bf16 element may excuse as its half ulp.

    NaN and infinities must be where ``high`` has them and have its sign.  Where ``low`` is not finite (the kernel's
    own range overflows) its value is right too, and so is an infinity within the budget of the largest finite number.

    ``steps`` is the number of tiles or splits that are summed one after the other; more need no excuse, they are a
    fact of the shape.  A different ``factor`` needs ``because``: ValueError without.  Nothing here depends on the
    environment.
    """

    factor: float = 2.0
    because: str = ""
    axis: int | None = -1
    accumulate: torch.dtype = torch.float32
    steps: int = 8

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ValueError(f"factor must be positive, got {self.factor}")
        if self.factor != type(self).factor and not self.because.strip():
            raise ValueError(f"factor={self.factor} instead of {type(self).factor} needs because='...'")
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")
        if not self.accumulate.is_floating_point:
            raise ValueError(f"accumulate must be a floating dtype, got {self.accumulate}")

    def compare(
        self,
        name: str,
        actual: torch.Tensor,
        low: torch.Tensor,
        high: torch.Tensor,
        magnitude: torch.Tensor | None = None,
    ) -> str | None:
        """Return the first broken rule with its first element or row, or None; TypeError for integers."""
        if not low.is_floating_point():
            raise TypeError(f"{name} is {low.dtype}, a Budget is for floating outputs: give it Exact()")
        if actual.numel() == 0:
            return None
        sample = _Sample.of(self, actual, low, high, magnitude)
        if error := breaking(name, sample.misplaced(), actual, high, "non-finite positions"):
            return error
        bad = sample.both & (sample.error.abs() > sample.allowed)
        if error := breaking(name, sample.shaped(bad), actual, high, "row budget", sample.shaped(sample.allowed)):
            return error
        return sample.norm_error(name) or sample.gain_error(name)


@dataclass(frozen=True)
class _Sample:
    """One output as rows ``[num_rows, length]`` of float64, with what its budget allows."""

    budget: Budget
    shape: torch.Size
    axis: int | None
    actual: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor
    magnitude: torch.Tensor
    own: torch.Tensor
    half_ulp: torch.Tensor
    largest: float
    u_out: float

    @classmethod
    def of(
        cls,
        budget: Budget,
        actual: torch.Tensor,
        low: torch.Tensor,
        high: torch.Tensor,
        magnitude: torch.Tensor | None,
    ) -> _Sample:
        axis = budget.axis if actual.ndim else None
        info = torch.finfo(actual.dtype)
        wide = high.double()
        size = wide.abs() if magnitude is None else magnitude.double().broadcast_to(wide.shape)

        def rows(tensor: torch.Tensor) -> torch.Tensor:
            flat = tensor.double()
            return flat.reshape(-1, 1) if axis is None else flat.movedim(axis, -1).reshape(-1, flat.shape[axis])

        high_rows, low_rows = rows(wide), rows(low)
        finite = high_rows.isfinite() & low_rows.isfinite()
        exponent = torch.frexp(high_rows.nan_to_num(0, 0, 0).abs()).exponent - 1
        smallest = round(math.log2(info.smallest_normal))
        half_ulp = torch.exp2(exponent.clamp(min=smallest).double()) * (info.eps / 2)
        return cls(
            budget=budget,
            shape=actual.shape,
            axis=axis,
            actual=rows(actual),
            low=low_rows,
            high=high_rows,
            magnitude=torch.fmax(rows(size), high_rows.abs()).nan_to_num(0),
            own=(low_rows - high_rows).where(finite, 0),
            half_ulp=half_ulp,
            largest=info.max,
            u_out=info.eps / 2,
        )

    def shaped(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows in the shape of the output."""
        if self.axis is None:
            return rows.reshape(self.shape)
        moved = [size for i, size in enumerate(self.shape) if i != self.axis % len(self.shape)]
        return rows.reshape(*moved, self.shape[self.axis]).movedim(-1, self.axis)

    @property
    def unit(self) -> float:
        """Relative error that accumulation may add to the magnitude."""
        return math.sqrt(self.budget.steps / 2) * torch.finfo(self.budget.accumulate).eps / 2

    @cached_property
    def both(self) -> torch.Tensor:
        return self.actual.isfinite() & self.high.isfinite()

    @cached_property
    def error(self) -> torch.Tensor:
        return (self.actual - self.high).where(self.both, 0)

    @cached_property
    def allowed(self) -> torch.Tensor:
        relative = self.unit + (self.u_out if self.high.shape[1] < SHORT_ROW else 0)
        own = self.own.abs().amax(dim=1, keepdim=True)
        return self.budget.factor * (own + relative * self.magnitude) + self.half_ulp

    def misplaced(self) -> torch.Tensor:
        """Return, in the output's shape, where ``actual`` is not finite and should be, or the other way round."""
        if self.both.all():
            return self.shaped(~self.both)
        right = _same_class(self.actual, self.high) | (~self.low.isfinite() & _same_class(self.actual, self.low))
        overflowed = self.actual.isinf() & (self.actual.sign() * self.high + self.allowed >= self.largest)
        return self.shaped(~right & ~(self.high.isfinite() & overflowed))

    def norm_error(self, name: str) -> str | None:
        if self.high.shape[1] < SHORT_ROW:
            return None
        magnitude = self.magnitude.where(self.high.isfinite(), 0)
        allowed = self.budget.factor * (_norm(self.own) + self.unit * _norm(magnitude)) + _norm(self.half_ulp)
        error = _norm(self.error)
        bad = error > allowed
        if not bad.any():
            return None
        row = int(bad.nonzero()[0])
        place = tuple(int(i) for i in self.shaped(self._row_index()).select(self.axis or 0, 0).eq(row).nonzero()[0])
        return (
            f"{name}: {int(bad.sum())} of {len(bad)} rows break 'row norm'; first at {place}: "
            f"error {error[row].item():.3g}, allowed {allowed[row].item():.3g}"
        )

    def _row_index(self) -> torch.Tensor:
        return torch.arange(len(self.high))[:, None].expand(self.high.shape)

    def gain_error(self, name: str) -> str | None:
        if self.axis is None:
            return None
        scale = _norm(self.magnitude.where(self.both, 0))[:, None]
        use = (scale[:, 0] > 0) & scale[:, 0].isfinite()
        scale = scale[use]
        high = self.high.where(self.both, 0)[use] / scale
        weight = (high * high).sum(dim=1)
        total = weight.sum()
        if not total > 0:
            return None
        slope = ((self.error[use] / scale) * high).sum(dim=1)
        own = ((self.own.where(self.both, 0)[use] / scale) * high).sum() / total
        spread = (high.abs() * self.magnitude.where(self.both, 0)[use] / scale).sum() / total
        gain = slope.sum() / total
        cluster = torch.unique(high.float(), dim=0, return_inverse=True)[1]
        weights = torch.bincount(cluster, weights=weight)
        residuals = torch.bincount(cluster, weights=slope - gain * weight)
        effective = float(total**2 / (weights**2).sum())
        if effective < GAIN_ROWS:
            return None
        deviation = float((residuals**2).sum().sqrt() / total) * math.sqrt(effective / (effective - 1))
        scatter = max(GAIN_SIGMA * self.u_out / math.sqrt(3 * effective), _student(effective - 1) * deviation)
        allowed = self.budget.factor * float(own.abs() + self.unit * spread) + scatter
        if float(gain.abs()) <= allowed:
            return None
        return (
            f"{name}: {int(use.sum())} rows together break 'gain'; got {1 + float(gain):.6g} times the expected "
            f"values, allowed 1 within {allowed:.2g}"
        )


def _same_class(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return where both are finite, both NaN, or both the same infinity."""
    same_infinity = actual.isinf() & (actual == expected)
    return (actual.isfinite() & expected.isfinite()) | (actual.isnan() & expected.isnan()) | same_infinity


def _norm(rows: torch.Tensor) -> torch.Tensor:
    return (rows * rows).sum(dim=1).sqrt()


def _student(freedom: float) -> float:
    """Return the Student quantile that GAIN_SIGMA is of the normal one (Wallace's approximation, 1959)."""
    corrected = GAIN_SIGMA * (8 * freedom + 1) / (8 * freedom + 3)
    return math.sqrt(freedom * math.expm1(corrected**2 / freedom))
