"""Codes of the 8-bit and 4-bit formats, float tensors, and what kind of values to put in them.

Strategies draw a kind and a seed; the tensors are derived from them on the CPU, so that one case has
the same bits on every device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import torch
from hypothesis import strategies as st

from harness.strategies.spec import require

FormatName = Literal["e4m3", "e5m2", "e8m0", "e2m1"]
#: "all_codes" is every finite code; "extremes" the zeros, the subnormal and normal limits and the one, with both signs.
ValueKind = Literal["plain", "all_codes", "extremes", "with_nan", "with_inf"]
#: "mixed_rows" has loud and quiet rows: an error in a quiet one disappears in a tensor-wide tolerance.
FloatKind = Literal["plain", "mixed_rows", "tiny", "huge", "with_nan", "with_inf"]


@dataclass(frozen=True, kw_only=True)
class Format:
    """One storage format.  ``values[code]`` is the exact value of a code; ``codes_per_byte`` is 2 for packed FP4.

    Sources: OCP 8-bit floating point (E4M3, E5M2) and OCP Microscaling v1.0 (E8M0, E2M1).
    """

    name: FormatName
    dtype: torch.dtype
    values: tuple[float, ...] = field(repr=False)
    plain: tuple[float, float]
    codes_per_byte: int = 1

    @cached_property
    def finite(self) -> tuple[int, ...]:
        """Codes of finite values, in numeric order of the code."""
        return tuple(code for code, value in enumerate(self.values) if math.isfinite(value))

    @cached_property
    def nan(self) -> tuple[int, ...]:
        """Codes of NaN; empty for a format without one."""
        return tuple(code for code, value in enumerate(self.values) if math.isnan(value))

    @cached_property
    def inf(self) -> tuple[int, ...]:
        """Codes of the infinities; empty for a format without them."""
        return tuple(code for code, value in enumerate(self.values) if math.isinf(value))

    @cached_property
    def moderate(self) -> tuple[int, ...]:
        """Codes whose magnitude lies in the range ``plain``, both signs."""
        low, high = self.plain
        return tuple(code for code in self.finite if low <= abs(self.values[code]) <= high)

    @cached_property
    def extremes(self) -> tuple[int, ...]:
        """Codes of 0, one, and the least and greatest subnormal and normal magnitudes, each with every sign it has."""
        magnitudes = sorted({abs(self.values[code]) for code in self.finite})
        chosen = {magnitudes[0], magnitudes[1], 1.0, magnitudes[-1]}
        if magnitudes[0] == 0.0:
            # a scale format has no zero and no subnormals
            subnormals = [m for m in magnitudes[1:] if m < self.smallest_normal]
            chosen |= {subnormals[-1], self.smallest_normal}
        return tuple(code for code in self.finite if abs(self.values[code]) in chosen)

    @property
    def smallest_normal(self) -> float:
        """The smallest normal magnitude; the smallest one at all for a format without subnormals."""
        return {"e4m3": 2.0**-6, "e5m2": 2.0**-14, "e8m0": 2.0**-127, "e2m1": 1.0}[self.name]

    @cached_property
    def signed(self) -> bool:
        """Whether the highest bit of a code is its sign."""
        return any(value < 0 for value in self.values)

    @cached_property
    def kinds(self) -> tuple[ValueKind, ...]:
        """The kinds that this format can hold, simplest first."""
        without = ({"with_nan"} if not self.nan else set()) | ({"with_inf"} if not self.inf else set())
        return tuple(kind for kind in get_args(ValueKind) if kind not in without)


def _minifloat(code: int, *, exponent_bits: int, mantissa_bits: int, bias: int, nonfinite: dict[int, float]) -> float:
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    magnitude = code & ((1 << (exponent_bits + mantissa_bits)) - 1)
    if magnitude in nonfinite:
        return sign * nonfinite[magnitude]
    exponent, mantissa = magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1)
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits)


def _e4m3(code: int) -> float:
    return _minifloat(code, exponent_bits=4, mantissa_bits=3, bias=7, nonfinite={0x7F: math.nan})


def _e5m2(code: int) -> float:
    nonfinite = {0x7C: math.inf, 0x7D: math.nan, 0x7E: math.nan, 0x7F: math.nan}
    return _minifloat(code, exponent_bits=5, mantissa_bits=2, bias=15, nonfinite=nonfinite)


def _e2m1(code: int) -> float:
    return _minifloat(code, exponent_bits=2, mantissa_bits=1, bias=1, nonfinite={})


def _e8m0(code: int) -> float:
    return math.nan if code == 0xFF else math.ldexp(1.0, code - 127)


#: e2m1 has no torch dtype that computes; its bytes hold two codes, the one with the lower index in the low nibble.
FORMATS: dict[FormatName, Format] = {
    "e4m3": Format(name="e4m3", dtype=torch.float8_e4m3fn, values=tuple(map(_e4m3, range(256))), plain=(0.125, 2.0)),
    "e5m2": Format(name="e5m2", dtype=torch.float8_e5m2, values=tuple(map(_e5m2, range(256))), plain=(0.125, 2.0)),
    "e8m0": Format(name="e8m0", dtype=torch.float8_e8m0fnu, values=tuple(map(_e8m0, range(256))), plain=(0.125, 2.0)),
    "e2m1": Format(
        name="e2m1", dtype=torch.uint8, values=tuple(map(_e2m1, range(16))), plain=(0.0, 6.0), codes_per_byte=2
    ),
}


def format_of(name: FormatName) -> Format:
    """Return the format called ``name``; raises ValueError listing the known ones."""
    require(name in FORMATS, "fmt", "one of " + ", ".join(FORMATS), name)
    return FORMATS[name]


def codes(*, fmt: FormatName, nonfinite: bool = False) -> st.SearchStrategy[int]:
    """Single codes of ``fmt``, NaN and infinities only on request; shrinks to plus, then to 0, 1, the lowest code."""
    spec = format_of(fmt)
    legal = [*spec.finite, *(spec.inf + spec.nan if nonfinite else ())]
    simple = {0.0: 0, 1.0: 1}
    if not spec.signed:
        return st.sampled_from(sorted(legal, key=lambda code: (simple.get(spec.values[code], 2), code)))
    # sign and magnitude apart: a fault of the sign alone then shrinks to the simplest magnitude
    sign_bit = len(spec.values) // 2
    magnitudes = sorted(
        (code for code in legal if code < sign_bit), key=lambda code: (simple.get(spec.values[code], 2), code)
    )
    return st.builds(int.__or__, st.sampled_from(magnitudes), st.sampled_from((0, sign_bit)))


def value_kinds(*, fmt: FormatName, without: Sequence[ValueKind] = ()) -> st.SearchStrategy[ValueKind]:
    """Kinds of values that ``fmt`` can hold, except those in ``without``; shrinks to "plain"."""
    kinds = format_of(fmt).kinds
    left = [kind for kind in kinds if kind not in without]
    require(set(without) <= set(get_args(ValueKind)), "without", f"kinds among {get_args(ValueKind)}", without)
    require(bool(left), "without", f"at least one of {kinds} left over", without)
    return st.sampled_from(left)


def float_kinds(*, without: Sequence[FloatKind] = ()) -> st.SearchStrategy[FloatKind]:
    """Kinds of values of a float tensor, except those in ``without``; shrinks to "plain"."""
    left: list[FloatKind] = [kind for kind in get_args(FloatKind) if kind not in without]
    require(set(without) <= set(get_args(FloatKind)), "without", f"kinds among {get_args(FloatKind)}", without)
    require(bool(left), "without", "at least one kind left over", without)
    return st.sampled_from(left)


def sample_codes(
    fmt: FormatName,
    shape: Sequence[int],
    *,
    seed: int,
    kind: ValueKind = "plain",
    position: int | None = None,
    device: torch.device | str | None = None,
) -> torch.Tensor:
    """Return uint8 ``shape`` (bytes; two codes a byte for e2m1) holding codes of ``fmt``.

    A kind that lists codes ("all_codes", "extremes") contains every one of them where there is room.
    "with_nan" and "with_inf" are plain but for one code, at flat byte ``position`` (by default drawn
    from ``seed``).  Raises ValueError for a kind that the format cannot hold.
    """
    spec = format_of(fmt)
    require(kind in spec.kinds, "kind", f"one of {spec.kinds} for {fmt}", kind)
    generator = torch.Generator().manual_seed(seed)
    size = math.prod(shape)
    pool = {"all_codes": spec.finite, "extremes": spec.extremes}.get(kind, spec.moderate)
    drawn = _shuffled(pool, size * spec.codes_per_byte, generator, every=kind in ("all_codes", "extremes"))
    if spec.codes_per_byte == 2:
        drawn = drawn[0::2] | drawn[1::2] << 4
    if kind in ("with_nan", "with_inf"):
        special = spec.nan if kind == "with_nan" else spec.inf
        drawn[_place(size, position, generator)] = special[int(torch.randint(len(special), (), generator=generator))]
    drawn = drawn.reshape(tuple(shape))
    return drawn if device is None else drawn.to(device)


def float_tensor(
    shape: Sequence[int],
    dtype: torch.dtype,
    *,
    seed: int,
    kind: FloatKind = "plain",
    position: int | None = None,
    device: torch.device | str | None = None,
) -> torch.Tensor:
    """Return ``shape`` of a float ``dtype`` of 16 bits or more.

    "plain": magnitudes in [2^-3, 2), both signs.  "mixed_rows": rows (the last axis; the elements of a
    vector) alternately louder and quieter by 2^18 or more (2^5 in float16).  "tiny": from the least subnormal to 16
    times the least normal.  "huge": the top four binades, the largest finite value included.
    "with_nan" and "with_inf": plain but for one element at flat ``position`` (by default drawn from ``seed``).
    Past ``MOST_DRAWN`` elements what was drawn comes again.  Raises ValueError for another dtype or an unknown kind.
    """
    require(dtype.is_floating_point and dtype.itemsize >= 2, "dtype", "a float of at least 16 bits", dtype)
    require(kind in get_args(FloatKind), "kind", f"one of {get_args(FloatKind)}", kind)
    generator = torch.Generator().manual_seed(seed)
    size, limits = math.prod(shape), torch.finfo(dtype)
    top, bottom = math.frexp(limits.max)[1], math.frexp(limits.smallest_normal)[1] - 1
    mantissa_bits = round(-math.log2(limits.eps))
    lowest, highest = {"tiny": (bottom - mantissa_bits, bottom + 4), "huge": (top - 4, top)}.get(kind, (-3, 1))
    drawn = min(size, MOST_DRAWN)
    exponents = torch.rand(drawn, generator=generator, dtype=torch.float64) * (highest - lowest) + lowest
    magnitudes = torch.exp2(exponents).clamp(max=limits.max)
    signs = torch.randint(2, (drawn,), generator=generator) * 2 - 1
    values = magnitudes * signs
    if drawn < size:
        values = _repeated(values.to(dtype) if kind != "mixed_rows" else values, size)
    values = values.reshape(tuple(shape))
    if kind == "mixed_rows" and size:
        rows = values.unsqueeze(-1) if values.dim() < 2 else values
        swing = min(20, (top - 2) // 2)
        loudness = torch.randint(swing - 2, swing, rows.shape[:-1], generator=generator)
        quiet = (torch.arange(loudness.numel()) + int(torch.randint(2, (), generator=generator))) % 2
        loudness = loudness * (1 - 2 * quiet.reshape(loudness.shape))
        values = (rows * torch.exp2(loudness.double()).unsqueeze(-1)).reshape(values.shape)
    result = values.to(dtype)
    if size and kind == "huge":
        result.view(-1)[_place(size, position, generator)] = limits.max
    if kind in ("with_nan", "with_inf"):
        special = math.nan if kind == "with_nan" else math.inf * (1 - 2 * (seed % 2))
        result.view(-1)[_place(size, position, generator)] = special
    return result if device is None else result.to(device)


#: Different orders of all codes in one tensor; after so many they come again.
_ORDERS = 1024
#: Elements drawn for one tensor; odd, so that rows and experts of a real model's size differ where they come again.
MOST_DRAWN = 2**24 - 3


def _repeated(drawn: torch.Tensor, size: int) -> torch.Tensor:
    """Return ``[size]`` elements: ``drawn`` as often as it takes."""
    return drawn.repeat(-(-size // max(1, drawn.numel())))[:size]


def _shuffled(pool: Sequence[int], size: int, generator: torch.Generator, *, every: bool) -> torch.Tensor:
    """Return uint8 ``[size]`` drawn from ``pool``; with ``every``, each code equally often, up to one."""
    if every:
        rounds = -(-size // len(pool))
        orders = [torch.randperm(len(pool), generator=generator) for _ in range(min(rounds, _ORDERS))]
        # the weights of a real model have millions of rounds: codes are repeated, which are eight times as small
        picks = torch.cat(orders or [torch.empty(0)])[:size].long()
    else:
        picks = torch.randint(len(pool), (min(size, MOST_DRAWN),), generator=generator)
    drawn = torch.tensor(pool, dtype=torch.uint8)[picks]
    return drawn if drawn.numel() == size else _repeated(drawn, size)


def _place(size: int, position: int | None, generator: torch.Generator) -> int:
    """Return ``position``, or a random one; raises ValueError where it lies outside the tensor."""
    chosen = int(torch.randint(max(1, size), (), generator=generator)) if position is None else position
    require(0 <= chosen < size, "position", f"an element of {size}", chosen)
    return chosen
