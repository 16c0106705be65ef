"""Cases of expert parallelism within a node: how many ranks and tokens, who goes where, and what a row is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from hypothesis import strategies as st

from harness.contracts._ep_placement import Exchange
from harness.poison import INT32_MAX
from harness.strategies.formats import FloatKind
from harness.strategies.ids import INT32_MIN, WRAPPING
from harness.strategies.layouts import Layout, LayoutKind, layouts
from harness.strategies.moe import Routing, routings
from harness.strategies.spec import Spec, require

CONTIGUOUS = Layout()
DispatchDtype = Literal["bf16", "fp8", "mxfp8", "fp4"]
#: Of fp8 rows: one float32 scale a row, or one for 128 elements.  Of mxfp8 and fp4: the dtype of E8M0 bytes.
ScaleType = Literal["row", "block", "uint8", "e8m0"]
_SCALE_TYPES: dict[DispatchDtype, tuple[ScaleType, ...]] = {
    "bf16": ("row",), "fp8": ("row", "block"), "mxfp8": ("uint8", "e8m0"), "fp4": ("uint8", "e8m0"),
}  # fmt: skip
X_DTYPES = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn, "mxfp8": torch.float8_e4m3fn, "fp4": torch.uint8}
SCALE_DTYPES = {"row": torch.float32, "block": torch.float32, "uint8": torch.uint8, "e8m0": torch.float8_e8m0fnu}
GROUP = {"block": 128, "uint8": 32, "e8m0": 32}
#: Rows must be contiguous inside; ids need not.
_ROW_LAYOUTS: tuple[LayoutKind, ...] = ("contiguous", "padded_rows", "offset")
_OUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
#: A row count that no buffer has: the kernel must not follow it.
_TOO_MANY = 5


@dataclass(frozen=True, kw_only=True, repr=False)
class Case(Spec):
    """One exchange; ``routing`` numbers all tokens through, rank by rank, ``live[rank]`` of ``max_tokens`` are tokens.

    ``spare`` rows of the fullest rank stay free; None is room for whatever is routed.  ``block_num`` and
    ``warp_num_per_block`` are asked for; None leaves them to the operation.
    """

    routing: Routing
    live: tuple[int, ...]
    max_tokens: int
    experts_per_rank: int = 1
    hidden_size: int = 8
    out_size: int = 8
    dispatch_dtype: DispatchDtype = "bf16"
    scale_type: ScaleType = "row"
    out_dtype: torch.dtype = torch.bfloat16
    out_kind: FloatKind = "plain"
    spare: int | None = 1
    block_num: int | None = None
    warp_num_per_block: int | None = None
    x_layout: Layout = CONTIGUOUS
    ids_layout: Layout = CONTIGUOUS
    out_layout: Layout = CONTIGUOUS
    seed: int = 0

    def __post_init__(self) -> None:
        require(1 <= self.world <= 8, "live", "1 to 8 ranks", self.live)
        tokens, experts = self.world * self.max_tokens, self.world * self.experts_per_rank
        require(self.routing.num_tokens == tokens, "routing", f"{tokens} tokens", self.routing.num_tokens)
        require(self.routing.num_experts == experts, "routing", f"{experts} experts", self.routing.num_experts)
        types = _SCALE_TYPES[self.dispatch_dtype]
        require(self.scale_type in types, "scale_type", f"one of {types}", self.scale_type)
        group = GROUP.get(self.scale_type, 1)
        whole = self.hidden_size >= 1 and self.hidden_size % group == 0
        require(whole, "hidden_size", f"a positive multiple of {group}", self.hidden_size)

    @property
    def world(self) -> int:
        """Number of ranks."""
        return len(self.live)

    @cached_property
    def exchange(self) -> Exchange:
        """Where the rows go."""
        ids = [self.routing.ids(token) for token in range(self.world * self.max_tokens)]
        starts = range(0, len(ids), self.max_tokens or 1)
        by_rank = [ids[start : start + self.max_tokens] for start in starts] or [[] for _ in self.live]
        return Exchange(ids=by_rank, live=self.live, experts_per_rank=self.experts_per_rank)

    @property
    def capacity(self) -> int:
        """Rows of each rank's receive buffer."""
        rows = self.world * self.max_tokens if self.spare is None else self.exchange.needed + self.spare
        return max(1, rows)


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    world = draw(st.sampled_from([1, 2, 3, 4, 5, 8]))
    # 32 tokens of a rank are placed together
    max_tokens = draw(st.sampled_from([1, 2, 3, 4, 5, 0] if world > 2 else [1, 2, 3, 5, 33, 0, 65]))
    experts_per_rank = draw(st.integers(1, 3))
    # whole ranks are the rule: each other count takes rows away from a case that may be small already
    counts = st.sampled_from([max_tokens] * 7 + [max_tokens // 2, 0, max_tokens + _TOO_MANY, -1])
    dispatch_dtype: DispatchDtype = draw(st.sampled_from(["bf16", "fp8", "mxfp8", "fp4"]))
    # drawn whatever the dtype: a choice that needs fewer draws would count as the simpler one
    second = draw(st.booleans())
    scale_type = _SCALE_TYPES[dispatch_dtype][second and dispatch_dtype != "bf16"]
    hidden_size = draw(st.sampled_from([8, 1, 2, 3, 32, 33, 96, 130]))
    group = GROUP.get(scale_type, 1)
    kinds: list[FloatKind] = ["plain", "mixed_rows", "huge", "tiny", "with_nan", "with_inf"]
    rows = layouts(rank=3, allow=_ROW_LAYOUTS)
    top_k = draw(st.sampled_from([1, 2, 3, 4]))
    routing = draw(routings(num_tokens=world * max_tokens, num_experts=world * experts_per_rank, top_k=top_k))
    if draw(st.booleans()) and min(world, top_k) > 2:
        # three ranks and more by chance are rare, and only then does the order of a sum show
        first = tuple(slot % world * experts_per_rank for slot in range(top_k))
        routing = replace(routing, rows=(first, *routing.rows[1:]))
    return Case(
        routing=routing,
        live=tuple(draw(counts) for _ in range(world)),
        max_tokens=max_tokens,
        experts_per_rank=experts_per_rank,
        hidden_size=-(-hidden_size // group) * group,
        out_size=draw(st.sampled_from([8, 1, 3, 33, 64])),
        dispatch_dtype=dispatch_dtype,
        scale_type=scale_type,
        out_dtype=draw(st.sampled_from(_OUT_DTYPES)),
        out_kind=draw(st.sampled_from(kinds)),
        spare=draw(st.sampled_from([1, 0, 0, 4, None])),
        block_num=draw(st.sampled_from([None, None, 1, 2, 3, 300])),
        warp_num_per_block=draw(st.sampled_from([None, None, 1, 3, 4])),
        x_layout=draw(rows),
        ids_layout=draw(layouts(rank=3)),
        out_layout=draw(rows),
        seed=draw(st.integers(0, 2**16 - 1)),
    )


def cases() -> st.SearchStrategy[Case]:
    """Legal cases: 1 to 8 ranks of 0 to 65 tokens, 1 to 3 experts a rank, 1 to 4 slots a token, four row types."""
    return _cases()


def features(case: Case) -> frozenset[str]:
    """Name what is special about ``case``; one bf16 token that a single rank sends to itself has nothing."""
    exchange = case.exchange
    tokens = [(rank, token) for rank, live in enumerate(case.live) for token in range(min(live, case.max_tokens))]
    ids = [expert for rank, token in tokens for expert in exchange.ids[rank][token]]
    invalid = {expert for expert in ids if not case.routing.is_valid(expert)}
    received = [len(exchange.received(rank)) for rank in range(case.world)]
    owners = [[expert // case.experts_per_rank for expert in exchange.ids[r][t] if expert >= 0] for r, t in tokens]
    tags = {
        "several ranks": case.world > 1,
        "no rows": case.max_tokens == 0,
        "rank without tokens": case.max_tokens > 0 and min(case.live) <= 0,
        "fewer tokens than rows": any(0 < live < case.max_tokens for live in case.live),
        "num_tokens past the rows": max(case.live) > case.max_tokens,
        "several tiles": case.max_tokens > 32,
        "invalid id -1": -1 in invalid,
        "rank past the last": any(case.routing.num_experts <= expert <= INT32_MAX for expert in invalid),
        "id INT32_MIN": INT32_MIN in invalid,
        "id past 32 bits": not invalid.isdisjoint(WRAPPING),
        "token sent nowhere": any(not exchange.destinations(*token) for token in tokens),
        "token sent to several": any(len(exchange.destinations(*token)) > 1 for token in tokens),
        "token sent to three": any(len(exchange.destinations(*token)) > 2 for token in tokens),
        "one rank twice": any(len(set(row)) < len(row) for row in owners),
        "all to one rank": case.world > 1 and sum(map(bool, received)) == 1,
        "int64 ids": case.routing.dtype == torch.int64,
        f"{case.dispatch_dtype} rows": case.dispatch_dtype != "bf16",
        f"{case.scale_type} scales": case.scale_type in ("block", "e8m0"),
        "full": max(received) == case.capacity,
        "room for all": case.spare is None,
        "blocks asked for": case.block_num is not None,
        "warps asked for": case.warp_num_per_block is not None,
        "expert_out fp16": case.out_dtype == torch.float16,
        "expert_out float32": case.out_dtype == torch.float32,
        f"expert_out {case.out_kind}": case.out_kind != "plain",
        f"x {case.x_layout.kind}": case.x_layout.kind != "contiguous",
        "topk_ids non-contiguous": case.ids_layout.kind != "contiguous",
        f"expert_out {case.out_layout.kind}": case.out_layout.kind != "contiguous",
    }
    return frozenset(tag for tag, present in tags.items() if present)
