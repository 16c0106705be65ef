"""Contract of merging attention over disjoint sets of tokens: any number of parts, empty ones included."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from harness.contract import Contract, Inputs, Outputs, Rejection, Relation
from harness.contracts import _replays, _work
from harness.contracts._illegal import Illegal, on_another_device, shorter, value
from harness.poison import Poison
from harness.registry import register
from harness.strategies.formats import float_tensor
from harness.strategies.layouts import Layout, far, layouts, materialise, repeated
from harness.strategies.sizes import sizes
from harness.strategies.spec import Spec, derived_seed, require
from harness.tolerance import Budget
from reference.merge_attn_states import merge_attn_states as oracle
from reference.merge_attn_states import merge_attn_states_magnitude

CONTIGUOUS = Layout()
_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
#: Centre and spread of the finite lses of a row: of one size, of which one part takes nearly all, and with an exp
#: that overflows or vanishes unless the largest is taken off first.
_LSE_RANGES = {"plain": (0.0, 2.0), "one wins": (0.0, 40.0), "high": (300.0, 2.0), "low": (-3.0e31, 2.0)}


@dataclass(frozen=True, kw_only=True, repr=False)
class Case(Spec):
    """``empty[row]`` names the parts of a row that hold no token; ``len(empty)`` is the number of rows.

    With ``copies`` the only row stands for so many, which share its memory.
    """

    num_parts: int
    empty: tuple[tuple[int, ...], ...]
    head_dim: int
    dtype: torch.dtype = torch.bfloat16
    lse_ranges: tuple[str, ...] = ("plain",)
    nan_in: str = "nothing"
    outs_layout: Layout = CONTIGUOUS
    lses_layout: Layout = CONTIGUOUS
    copies: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.num_parts >= 1, "num_parts", "at least 1", self.num_parts)
        require(self.head_dim >= 0, "head_dim", "at least 0", self.head_dim)
        require(self.dtype in _DTYPES, "dtype", f"one of {_DTYPES}", self.dtype)
        named = {part for row in self.empty for part in row}
        require(named <= set(range(self.num_parts)), "empty", f"parts below {self.num_parts}", self.empty)
        known = bool(self.lse_ranges) and set(self.lse_ranges) <= set(_LSE_RANGES)
        require(known, "lse_ranges", f"some of {tuple(_LSE_RANGES)}", self.lse_ranges)
        require(self.copies == 1 or len(self.empty) == 1, "copies", "1 of several rows", self.copies)
        require(self.nan_in in ("nothing", "outs", "lses"), "nan_in", "'nothing', 'outs' or 'lses'", self.nan_in)

    @property
    def full(self) -> list[tuple[int, int]]:
        """(part, row) of every part that holds tokens."""
        rows = range(len(self.empty))
        return [(part, row) for row in rows for part in range(self.num_parts) if part not in self.empty[row]]


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    num_parts = draw(st.integers(1, 5))
    num_rows = draw(st.sampled_from([1, 2, 3, 4, 5, 6, 17]))
    some, every = st.sets(st.integers(0, num_parts - 1)).map(lambda s: tuple(sorted(s))), tuple(range(num_parts))
    empty = st.one_of(st.just(()), st.just(()), some, st.just(every))
    return Case(
        num_parts=num_parts,
        empty=tuple(draw(empty) for _ in range(num_rows)),
        head_dim=draw(sizes(tile=32, min_size=1, max_size=80) | st.sampled_from([128, 500, 512, 513, 1030])),
        dtype=draw(st.sampled_from(_DTYPES)),
        lse_ranges=draw(st.lists(st.sampled_from(list(_LSE_RANGES)), min_size=1, max_size=3).map(tuple)),
        nan_in=draw(st.sampled_from(["nothing", "nothing", "nothing", "outs", "lses"])),
        outs_layout=draw(layouts(rank=3)),
        lses_layout=draw(layouts(rank=2)),
        seed=draw(st.integers(0, 2**16 - 1)),
    )


def cases() -> st.SearchStrategy[Case]:
    """Legal cases: 1 to 5 parts of 1 to 17 rows, any of them empty, head_dim 1 to 1030, three dtypes."""
    return _cases()


def inputs(case: Case, device: torch.device, poison: Poison) -> Inputs:
    """Build the launch arguments of ``case``; contents that may not matter are ``poison``."""
    num_rows = len(case.empty)
    outs = float_tensor((case.num_parts, num_rows, case.head_dim), case.dtype, seed=derived_seed(case.seed, "outs"))
    generator = torch.Generator().manual_seed(derived_seed(case.seed, "lses"))
    spread = torch.rand(case.num_parts, num_rows, generator=generator) * 2 - 1
    ranges = [_LSE_RANGES[case.lse_ranges[row % len(case.lse_ranges)]] for row in range(num_rows)]
    centre, width = torch.tensor(ranges, dtype=torch.float32).view(num_rows, 2).unbind(1)
    lses = centre + width * spread
    _put_nan(case, outs, lses)
    for row, parts in enumerate(case.empty):
        for part in parts:
            poison.fill_(outs[part, row], "empty part")
            lses[part, row] = -math.inf
    built = {
        "outs": materialise(outs.to(device), case.outs_layout, poison, "outs padding"),
        "lses": materialise(lses.to(device), case.lses_layout, poison, "lses padding"),
    }
    return built if case.copies == 1 else {name: repeated(built[name], 1, case.copies) for name in built}


def _put_nan(case: Case, outs: torch.Tensor, lses: torch.Tensor) -> None:
    if case.nan_in == "nothing" or not case.full or (case.nan_in == "outs" and case.head_dim == 0):
        return
    generator = torch.Generator().manual_seed(derived_seed(case.seed, "nan"))
    part, row = case.full[int(torch.randint(len(case.full), (), generator=generator))]
    if case.nan_in == "lses":
        lses[part, row] = math.nan
    else:
        outs[part, row, int(torch.randint(case.head_dim, (), generator=generator))] = math.nan


def features(case: Case) -> frozenset[str]:
    """Name what is special about ``case``; one row of one bf16 part has nothing."""
    ranges = {case.lse_ranges[row % len(case.lse_ranges)] for row in range(len(case.empty))}
    tags = {
        "several parts": case.num_parts > 1,
        "no rows": not case.empty,
        "no columns": case.head_dim == 0,
        "empty part": any(case.empty),
        "empty row": any(len(parts) == case.num_parts for parts in case.empty),
        "fp16": case.dtype == torch.float16,
        "float32": case.dtype == torch.float32,
        f"NaN in {case.nan_in}": case.nan_in != "nothing" and bool(case.full),
        "outs non-contiguous": case.outs_layout.kind != "contiguous",
        "lses non-contiguous": case.lses_layout.kind != "contiguous",
        "far": "far" in (case.outs_layout.kind, case.lses_layout.kind),
        **{f"lse {name}": name in ranges for name in _LSE_RANGES if name != "plain"},
    }
    return frozenset(tag for tag, present in tags.items() if present)


def _rows_reversed(case: Case, arguments: Inputs) -> Inputs | None:
    return {name: tensor.flip(1) for name, tensor in arguments.items()} if len(case.empty) > 1 else None


def _flipped(case: Case, outputs: Outputs) -> Outputs:
    return {name: tensor.flip(0) for name, tensor in outputs.items()}


def _with_an_empty_part(case: Case, arguments: Inputs) -> Inputs:
    """Return the same parts and one more in which no row has a token: it changes no sum by any rounding."""
    outs, lses = arguments["outs"], arguments["lses"]
    nothing = torch.full_like(lses[:1], -math.inf)
    return {"outs": torch.cat((outs, torch.full_like(outs[:1], math.nan))), "lses": torch.cat((lses, nothing))}


def rejects() -> tuple[Rejection, ...]:
    """Illegal arguments: dtypes, ranks, shapes that disagree, no part at all."""
    illegal = Illegal(lambda: inputs(_LEGAL, torch.device("cpu"), Poison()))
    return (
        illegal("float64 outs", "outs", outs=torch.Tensor.double),
        illegal("int32 outs", "outs", outs=torch.Tensor.int),
        illegal("outs of rank 2", "outs", outs=lambda t: t[0]),
        illegal("outs of rank 4", "outs", outs=lambda t: t[:, None]),
        illegal("no parts", "outs", outs=lambda t: t[:0], lses=lambda t: t[:0]),
        illegal("bfloat16 lses", "lses", lses=torch.Tensor.bfloat16),
        illegal("float64 lses", "lses", lses=torch.Tensor.double),
        illegal("lses of rank 1", "lses", lses=lambda t: t[0]),
        illegal("lses of fewer parts", "lses", lses=shorter(0)),
        illegal("lses of fewer rows", "lses", lses=shorter(1)),
        illegal("lses on another device", "lses", lses=on_another_device),
        illegal("lses that are no tensor", "lses", lses=value(0.0)),
    )


_LEGAL = Case(num_parts=2, empty=((), (0,), ()), head_dim=8)

#: Corners that must stay right: two empty parts, one of two, every part of many, no row or no column at all, three
#: tiles of columns (the second tile alone hides a wrong step), offsets past 2^31, nine parts.
PINNED = (
    Case(num_parts=1, empty=((),), head_dim=1),
    Case(num_parts=2, empty=((0, 1), (0,), ()), head_dim=3),
    Case(num_parts=5, empty=((), (4,), (0, 1, 2)), head_dim=513, dtype=torch.float32, lse_ranges=("low", "high")),
    Case(num_parts=2, empty=((1,), ()), head_dim=64, nan_in="lses"),
    Case(num_parts=2, empty=(), head_dim=8),
    Case(num_parts=2, empty=((), (0, 1)), head_dim=0),
    Case(num_parts=1, empty=((),), head_dim=1030),
    Case(num_parts=3, empty=((),) * 3, head_dim=3, outs_layout=far(1), lses_layout=far(1)),
    Case(num_parts=3, empty=((),) * 3, head_dim=3, outs_layout=far(2), lses_layout=far(2)),
    Case(num_parts=9, empty=(tuple(range(8)), (8,), ()), head_dim=8),
)

#: Outputs past 2^31 elements.
VAST = (Case(num_parts=2, empty=((),), head_dim=1024, copies=2**21 + 1),)

#: DeepSeek-V4-Flash decode: 64 heads of 512, two caches, or one cache in 8 splits.
WORKLOADS = tuple(
    Case(num_parts=num_parts, empty=((),) * (64 * batch), head_dim=512, dtype=dtype)
    for num_parts, dtype in ((2, torch.bfloat16), (8, torch.float32))
    for batch in (1, 16, 64)
)

register(
    Contract(
        name="merge_attn_states",
        cases=cases,
        inputs=inputs,
        oracle=oracle,
        magnitude=merge_attn_states_magnitude,
        tolerance={"out": Budget(), "lse": Budget(axis=None)},
        features=features,
        relations=(
            Relation(name="rows reversed", transform=_rows_reversed, expect=_flipped),
            Relation(name="one more empty part", transform=_with_an_empty_part),
        ),
        rejects=rejects,
        stores_once=True,
        any_device=True,
        pinned=PINNED,
        workloads=WORKLOADS,
        work=_work.merge_attn_states,
        replays=_replays.merged,
        vast=VAST,
    )
)
