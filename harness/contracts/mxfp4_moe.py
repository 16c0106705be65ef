"""Contract of the MXFP4 mixture-of-experts forward: routed W2(silu(gate) * up), weights in E2M1 with group scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from hypothesis import strategies as st

from harness.checks import permuted_rows, retyped
from harness.contract import Contract, Inputs, Rejection
from harness.contracts import _replays, _work
from harness.contracts._budgets import RoundedIntermediates
from harness.contracts._illegal import Illegal, apart, on_another_device, shorter, value, zeros
from harness.contracts._mx_values import nan_at_, one_sign_
from harness.contracts._routing_features import routing_features
from harness.poison import Poison
from harness.registry import register
from harness.strategies.formats import float_tensor, sample_codes
from harness.strategies.layouts import Layout, far, layouts, materialise
from harness.strategies.moe import Routing, routing_tensors, routings, unrouted_experts
from harness.strategies.sizes import sizes
from harness.strategies.spec import Spec, derived_seed, require
from reference.mxfp4_moe import mxfp4_moe as oracle
from reference.mxfp4_moe import mxfp4_moe_magnitude

GROUP = 32
WEIGHTS = ("w13_packed", "w13_scale", "w2_packed", "w2_scale")
CONTIGUOUS, PADDED = Layout(), Layout(kind="padded_rows", amount=16)
_UNALIGNED = Layout(kind="padded_rows", amount=1)
ScaleType = Literal["e8m0", "uint8", "float32"]
#: "lowest" starts at byte 0, 2**-127, a float32 subnormal, and "subnormal" is nothing else, so that no larger one hides
#: an error of it; "highest" ends a factor 2**5 below the float32 limit.  Hidden states make up for them, so that
#: results stay moderate.
ScaleRange = Literal["plain", "lowest", "highest", "subnormal"]
NanIn = Literal["nothing", "hidden_states", "w13_scale", "w2_scale", "topk_weights"]

_W13_BYTES: dict[ScaleRange, tuple[int, int]] = {
    "plain": (121, 126), "lowest": (0, 5), "highest": (244, 249), "subnormal": (0, 0),
}  # fmt: skip
# 2**120, not more: 32 products of a group may be summed before their scale is applied, and must not overflow
_HIDDEN_EXPONENT: dict[ScaleRange, int] = {"plain": 0, "lowest": 120, "highest": -122, "subnormal": 120}
_W2_BYTES = (119, 125)
#: A clamp that is a number in Python and none in float32: it clamps nothing.
_PAST_FLOAT32 = 1.0e39
_QUIET_EXPONENT = {torch.bfloat16: -12, torch.float16: -5}


@dataclass(frozen=True, kw_only=True, repr=False)
class Case(Spec):
    """One forward; ``hidden_size`` and ``intermediate_size`` are K and I, multiples of 32."""

    routing: Routing
    hidden_size: int
    intermediate_size: int
    dtype: torch.dtype = torch.bfloat16
    scale_type: ScaleType = "e8m0"
    scale_range: ScaleRange = "plain"
    quiet_rows: bool = False
    hidden_layout: Layout = CONTIGUOUS
    weight_layout: Layout = CONTIGUOUS
    clamp_limit: float | None = None
    routed_scaling_factor: float = 1.0
    nan_in: NanIn = "nothing"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("hidden_size", "intermediate_size"):
            size = getattr(self, name)
            require(size > 0 and size % GROUP == 0, name, f"a positive multiple of {GROUP}", size)
        plain = self.dtype == torch.bfloat16 or self.scale_range == "plain"
        require(plain, "scale_range", "'plain' for float16, whose range ends at 65504", self.scale_range)
        kind = self.weight_layout.kind
        fits = kind in ("contiguous", "padded_rows") or (kind == "far" and self.weight_layout.amount > 1)
        require(fits, "weight_layout", "contiguous, padded rows, or experts or rows far apart", self.weight_layout)
        quiet = self.quiet_rows and self.scale_range == "highest"
        require(not quiet, "quiet_rows", "False for the highest scales, where bfloat16 has nothing quieter left", True)


def drawn_fields(draw: st.DrawFn, token_counts: Sequence[int], largest: int) -> dict[str, Any]:
    """Draw the fields of a case: as many tokens as one of ``token_counts``, K and I up to ``largest``."""
    num_tokens = draw(st.sampled_from(token_counts))
    num_experts = draw(st.integers(1, 6))
    top_k = draw(st.integers(1, 3))
    dtype = draw(st.sampled_from([torch.bfloat16, torch.bfloat16, torch.bfloat16, torch.float16]))
    # drawn whatever the dtype: a choice that needs fewer draws would count as the simpler one
    drawn_range: ScaleRange = draw(st.sampled_from(["plain", "lowest", "highest"]))
    scale_range: ScaleRange = drawn_range if dtype == torch.bfloat16 else "plain"
    nans: list[NanIn] = ["nothing", "nothing", "nothing", "hidden_states", "w13_scale", "w2_scale", "topk_weights"]
    return dict(
        routing=draw(routings(num_tokens=num_tokens, num_experts=num_experts, top_k=top_k)),
        hidden_size=draw(sizes(tile=64, min_size=32, max_size=largest, multiple_of=GROUP)),
        intermediate_size=draw(sizes(tile=64, min_size=32, max_size=largest, multiple_of=GROUP)),
        dtype=dtype,
        scale_type=draw(st.sampled_from(["e8m0", "uint8", "float32"])),
        scale_range=scale_range,
        quiet_rows=draw(st.booleans()) and scale_range != "highest",
        hidden_layout=draw(layouts(rank=2)),
        weight_layout=draw(st.sampled_from([CONTIGUOUS, CONTIGUOUS, PADDED, _UNALIGNED])),
        clamp_limit=draw(st.sampled_from([None, 1.0, 7.0])),
        routed_scaling_factor=draw(st.sampled_from([1.0, 2.5, 0.375])),
        nan_in=draw(st.sampled_from(nans)),
        seed=draw(st.integers(0, 2**16 - 1)),
    )


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    return Case(**drawn_fields(draw, (1, 2, 3, 4, 5, 0, 15, 16, 17, 33, 63, 64, 65), largest=160))


def cases() -> st.SearchStrategy[Case]:
    """Legal cases: 0 to 5 tokens or some at a tile edge, K and I in 32..160, 1 to 6 experts, 1 to 3 slots a token."""
    return _cases()


def inputs(case: Case, device: torch.device, poison: Poison) -> Inputs:
    """Build the launch arguments of ``case``; contents that may not matter are ``poison``."""
    hidden_size, intermediate_size = case.hidden_size, case.intermediate_size

    def packed(name: str, rows: int, columns: int) -> torch.Tensor:
        shape = (case.routing.num_experts, rows, columns // 2)
        return sample_codes("e2m1", shape, seed=derived_seed(case.seed, name))

    topk_ids, topk_weights = routing_tensors(case.routing, poison, seed=case.seed)
    built = {
        "hidden_states": _hidden_states(case, poison),
        "w13_packed": packed("w13_packed", 2 * intermediate_size, hidden_size),
        "w13_scale": _scales(case, "w13_scale", 2 * intermediate_size, hidden_size, _W13_BYTES[case.scale_range]),
        "w2_packed": packed("w2_packed", hidden_size, intermediate_size),
        "w2_scale": _scales(case, "w2_scale", hidden_size, intermediate_size, _W2_BYTES),
        "topk_ids": topk_ids,
        "topk_weights": topk_weights,
    }
    _put_nan(case, built)
    for expert in unrouted_experts(case.routing):
        for name in WEIGHTS:
            poison.fill_(built[name][expert], "unrouted experts")
    moved: Inputs = {name: tensor.to(device) for name, tensor in built.items()}
    for name in WEIGHTS:
        moved[name] = _strided(materialise(moved[name], case.weight_layout, poison, "weight padding"))
    moved["hidden_states"] = materialise(moved["hidden_states"], case.hidden_layout, poison, "hidden row padding")
    moved["routed_scaling_factor"] = case.routed_scaling_factor
    moved["clamp_limit"] = case.clamp_limit
    return moved


def _strided(weights: torch.Tensor) -> torch.Tensor:
    """Return rank 3 ``weights``; where there is one column its stride says nothing, and is that of the rows."""
    if weights.shape[2] != 1 or weights.is_contiguous():
        return weights
    return weights.as_strided(weights.shape, (*weights.stride()[:2], weights.stride(1)), weights.storage_offset())


def _hidden_states(case: Case, poison: Poison) -> torch.Tensor:
    shape = (case.routing.num_tokens, case.hidden_size)
    exponents = torch.full((shape[0], 1), float(_HIDDEN_EXPONENT[case.scale_range]))
    if case.quiet_rows:
        exponents[1::2] += _QUIET_EXPONENT[case.dtype]
    plain = float_tensor(shape, torch.float32, seed=derived_seed(case.seed, "hidden_states"))
    hidden = (plain * torch.exp2(exponents)).to(case.dtype)
    for token in range(shape[0]):
        if not any(map(case.routing.is_valid, case.routing.ids(token))):
            poison.fill_(hidden[token], "rows of padded tokens")
    return hidden


def _scales(case: Case, name: str, rows: int, columns: int, byte_range: tuple[int, int]) -> torch.Tensor:
    """Return ``[num_experts, rows, columns / 32]`` scales whose neighbours differ."""
    generator = torch.Generator().manual_seed(derived_seed(case.seed, name))
    shape = (case.routing.num_experts, rows, columns // GROUP)
    codes = torch.randint(byte_range[0], byte_range[1] + 1, shape, generator=generator)
    if case.scale_type == "float32":
        # not only powers of two: a float32 scale is a value, and squeezing it into E8M0 must show
        mantissa = 1 + torch.randint(0, 2**10, shape, generator=generator) / 2**10
        return (mantissa.double() * torch.exp2(codes.double() - 127)).float()
    scales = codes.to(torch.uint8)
    return scales.view(torch.float8_e8m0fnu) if case.scale_type == "e8m0" else scales


def _valid_slots(case: Case) -> list[tuple[int, int, int]]:
    """Return (token, slot, expert) of every valid slot."""
    return [
        (token, slot, expert)
        for token in range(case.routing.num_tokens)
        for slot, expert in enumerate(case.routing.ids(token))
        if case.routing.is_valid(expert)
    ]


def _put_nan(case: Case, built: dict[str, torch.Tensor]) -> None:
    """Put one NaN where some valid slot meets it."""
    slots = _valid_slots(case)
    if case.nan_in == "nothing" or not slots:
        return
    generator = torch.Generator().manual_seed(derived_seed(case.seed, "nan"))
    token, slot, expert = slots[int(torch.randint(len(slots), (), generator=generator))]
    target = built[case.nan_in]
    if case.nan_in == "topk_weights":
        target = target[token, slot]
    else:
        target = target[token if case.nan_in == "hidden_states" else expert]
    place = int(torch.randint(target.numel(), (), generator=generator))
    if case.nan_in == "w13_scale":
        row, group = divmod(place, case.hidden_size // GROUP)
        one_sign_(built["w13_packed"][expert, row], built["hidden_states"][token], group)
    nan_at_(target, place)


def features(case: Case) -> frozenset[str]:
    """Name what is special about ``case``; one valid token of one expert in bf16 with E8M0 scales has nothing."""
    routing = case.routing
    tags = {
        **routing_features(routing),
        "fp16": case.dtype == torch.float16,
        f"{case.scale_type} scales": case.scale_type != "e8m0",
        f"{case.scale_range} scales": case.scale_range != "plain",
        "quiet rows": case.quiet_rows and routing.num_tokens > 1,
        f"hidden rows {case.hidden_layout.kind}": case.hidden_layout.kind != "contiguous",
        f"weights {case.weight_layout.kind}": case.weight_layout.kind != "contiguous",
        "weights no words": case.weight_layout == _UNALIGNED,
        "scaling by infinity": math.isinf(case.routed_scaling_factor),
        "clamp": case.clamp_limit is not None,
        "limit past float32": case.clamp_limit == _PAST_FLOAT32,
        "routed scaling": case.routed_scaling_factor != 1.0,
        f"NaN in {case.nan_in}": case.nan_in != "nothing" and bool(_valid_slots(case)),
    }
    return frozenset(tag for tag, present in tags.items() if present)


def rejects() -> tuple[Rejection, ...]:
    """Illegal arguments: dtypes, ranks, sizes that are no multiple of 32, shapes that disagree, a clamp below 0."""
    illegal = Illegal(lambda: inputs(_LEGAL, torch.device("cpu"), Poison()))

    def sized(label: str, argument: str, hidden_size: int, intermediate_size: int) -> Rejection:
        return illegal(
            label,
            argument,
            hidden_states=zeros(2, hidden_size),
            w13_packed=zeros(2, 2 * intermediate_size, hidden_size // 2),
            w13_scale=zeros(2, 2 * intermediate_size, hidden_size // GROUP),
            w2_packed=zeros(2, hidden_size, intermediate_size // 2),
            w2_scale=zeros(2, hidden_size, intermediate_size // GROUP),
        )

    return (
        sized("K = 48", "hidden_states", 48, 64),
        sized("I = 48", "w13_packed", 64, 48),
        illegal("float32 hidden states", "hidden_states", hidden_states=torch.Tensor.float),
        illegal("float64 hidden states", "hidden_states", hidden_states=torch.Tensor.double),
        illegal("hidden states of rank 3", "hidden_states", hidden_states=lambda t: t[None]),
        illegal("w13 of int32", "w13_packed", w13_packed=torch.Tensor.int),
        illegal("w13 of rank 2", "w13_packed", w13_packed=lambda t: t[0]),
        illegal("w13 of another K", "w13_packed", w13_packed=shorter(2, 16)),
        illegal("w13 with a row too many", "w13_packed", w13_packed=zeros(2, 129, 32), w13_scale=zeros(2, 129, 2)),
        illegal("w2 of int8", "w2_packed", w2_packed=lambda t: t.view(torch.int8)),
        illegal("w2 of another I", "w2_packed", w2_packed=shorter(2, 16)),
        illegal("w2 of another K", "w2_packed", w2_packed=shorter(1, 32)),
        illegal("w2 with fewer experts", "w2_packed", w2_packed=shorter(0)),
        illegal("float16 scales", "w13_scale", w13_scale=lambda t: t.float().half()),
        illegal("int8 scales", "w2_scale", w2_scale=lambda t: t.view(torch.int8)),
        illegal("w13 scales with a group missing", "w13_scale", w13_scale=shorter(2)),
        illegal("w2 scales with a group missing", "w2_scale", w2_scale=shorter(2)),
        illegal("w2 scales transposed", "w2_scale", w2_scale=lambda t: t.transpose(1, 2).contiguous()),
        illegal("int16 ids", "topk_ids", topk_ids=torch.Tensor.short),
        illegal("ids of rank 1", "topk_ids", topk_ids=torch.Tensor.flatten),
        illegal("ids of fewer tokens", "topk_ids", topk_ids=shorter(0)),
        illegal("bfloat16 weights", "topk_weights", topk_weights=torch.Tensor.bfloat16),
        illegal("weights of fewer slots", "topk_weights", topk_weights=shorter(1)),
        illegal("ids on another device", "topk_ids", topk_ids=on_another_device),
        illegal("clamp limit 0", "clamp_limit", clamp_limit=value(0.0)),
        illegal("clamp limit below 0", "clamp_limit", clamp_limit=value(-1.0)),
        illegal("clamp limit NaN", "clamp_limit", clamp_limit=value(math.nan)),
        illegal("clamp limit True", "clamp_limit", clamp_limit=value(True)),
        illegal("w13 with codes apart", "w13_packed", w13_packed=apart),
        illegal("w13 scales apart", "w13_scale", w13_scale=apart),
        illegal("w2 with codes apart", "w2_packed", w2_packed=apart),
        illegal("w2 scales apart", "w2_scale", w2_scale=apart),
        illegal("a path that does not exist", "path", path=value("fast")),
        illegal("scaling NaN", "routed_scaling_factor", routed_scaling_factor=value(math.nan)),
        illegal("scaling of text", "routed_scaling_factor", routed_scaling_factor=value("2")),
    )


def _routed(num_tokens: int, *rows: tuple[int, ...], num_experts: int = 4, dtype: torch.dtype = torch.int32) -> Routing:
    return Routing(num_tokens=num_tokens, num_experts=num_experts, rows=rows, dtype=dtype)


_LEGAL = Case(routing=_routed(2, (0, 1), num_experts=2), hidden_size=64, intermediate_size=64)
_SPREAD = ((0, 1), (2, 3), (3, 0), (1, -1), (2, 2))

#: Corners that must stay right: the smallest sizes, both sides of switches between two paths, experts with many slots
#: and with few, in one batch and alone, more than are sorted or searched at once, -1 and an unrouted expert 0 together,
#: no token, steps of two groups and ids past 32 bits where weights are no words, scales that one bfloat16 factor cannot
#: give, with padded rows too, a clamp beside a quiet row, an infinite factor, experts and rows with offsets past 2^31,
#: rows of w2 in two parts of three steps, once with a scale that one factor cannot give.
PINNED = (
    Case(routing=_routed(1, (0,), num_experts=1), hidden_size=32, intermediate_size=32),
    Case(routing=_routed(16, *_SPREAD), hidden_size=32, intermediate_size=32),
    Case(routing=_routed(128, *_SPREAD), hidden_size=32, intermediate_size=32),
    Case(routing=_routed(129, *_SPREAD), hidden_size=32, intermediate_size=32),
    Case(routing=_routed(65, (0, 1), (0, 2), (0, 3), (0, -1)), hidden_size=64, intermediate_size=64),
    Case(routing=_routed(40, (0,), num_experts=6), hidden_size=64, intermediate_size=64),
    Case(routing=_routed(4097, (0,), num_experts=1), hidden_size=32, intermediate_size=32),
    Case(routing=_routed(1025, (0,), num_experts=1), hidden_size=32, intermediate_size=32, dtype=torch.float16),
    Case(
        routing=_routed(3, (-1, 1), (4, 1), dtype=torch.int64),
        hidden_size=64,
        intermediate_size=96,
        scale_type="uint8",
    ),
    Case(routing=_routed(0, (0, 1)), hidden_size=32, intermediate_size=32),
    Case(routing=_routed(2, (0, 1), num_experts=0), hidden_size=32, intermediate_size=32),
    Case(
        routing=_routed(3, (3, 2**32), (-(2**32), 0), dtype=torch.int64),
        hidden_size=64,
        intermediate_size=128,
        dtype=torch.float16,
        hidden_layout=_UNALIGNED,
        weight_layout=far(3),
    ),
    Case(
        routing=_routed(3, (1, 0), (2, 1)),
        hidden_size=64,
        intermediate_size=32,
        scale_range="highest",
        hidden_layout=_UNALIGNED,
        weight_layout=PADDED,
    ),
    Case(
        routing=_routed(1, (0,), num_experts=1),
        hidden_size=32,
        intermediate_size=32,
        routed_scaling_factor=-math.inf,
    ),
    Case(routing=_routed(2, (0, 3)), hidden_size=96, intermediate_size=32, clamp_limit=1.0, quiet_rows=True),
    Case(routing=_routed(1, (0, 1)), hidden_size=32, intermediate_size=32, scale_range="subnormal"),
    Case(routing=_routed(1, (0, 1)), hidden_size=32, intermediate_size=32, nan_in="w13_scale"),
    Case(routing=_routed(2, (2, 0), num_experts=3), hidden_size=32, intermediate_size=32, weight_layout=far(3)),
    Case(routing=_routed(2, (0, -1, 1), (2, 3, -1)), hidden_size=32, intermediate_size=768, nan_in="w2_scale"),
    Case(
        routing=_routed(1, (1,), num_experts=2),
        hidden_size=64,
        intermediate_size=32,
        scale_type="float32",
        weight_layout=far(2),
        clamp_limit=_PAST_FLOAT32,
    ),
)

_SPREAD_256 = tuple(tuple((37 * token + 43 * slot) % 256 for slot in range(6)) for token in range(256))
_HOT = ((0, 37, 74, 111, 148, 185),)

#: The sizes of DeepSeek-V4-Flash, decode and prefill: 256 experts, 6 of them a token; last, all tokens to 6 experts.
WORKLOADS = tuple(
    Case(
        routing=Routing(num_tokens=num_tokens, num_experts=256, rows=rows),
        hidden_size=4096,
        intermediate_size=2048,
        clamp_limit=10.0,
        routed_scaling_factor=2.5,
    )
    for num_tokens, rows in (*((tokens, _SPREAD_256) for tokens in (1, 4, 16, 64, 128, 512, 4096)), (128, _HOT))
)

register(
    Contract(
        name="mxfp4_moe",
        cases=cases,
        inputs=inputs,
        oracle=oracle,
        magnitude=mxfp4_moe_magnitude,
        tolerance={"out": RoundedIntermediates()},
        features=features,
        relations=(
            permuted_rows("tokens permuted", arguments=("hidden_states", "topk_ids", "topk_weights"), outputs=("out",)),
            retyped("int64 ids", argument="topk_ids", dtype=torch.int64),
        ),
        rejects=rejects,
        stores_once=True,
        any_device=True,
        pinned=PINNED,
        workloads=WORKLOADS,
        work=_work.mxfp4_moe,
        replays=_replays.routed,
    )
)
