"""Contract of the scatter matmul: one row of a grouped product for each (token, expert) slot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from hypothesis import strategies as st

from harness.checks import permuted_rows, retyped
from harness.contract import Contract, Inputs, Rejection, Relation
from harness.contracts import _replays, _work
from harness.contracts._illegal import Illegal, on_another_device, shorter, value, zeros
from harness.contracts._mx_values import nan_at_, one_sign_
from harness.contracts._routing_features import routing_features
from harness.poison import Poison
from harness.registry import register
from harness.strategies.formats import float_tensor, sample_codes
from harness.strategies.layouts import Layout, LayoutKind, far, layouts, materialise
from harness.strategies.moe import Routing, routing_tensors, routings, unrouted_experts
from harness.strategies.sizes import sizes
from harness.strategies.spec import Spec, derived_seed, require
from harness.tolerance import Budget
from reference.moe_scatter import moe_scatter as oracle
from reference.moe_scatter import moe_scatter_magnitude

GROUP = 32
#: N is a multiple of it: rows of bfloat16 at multiples of 16 bytes.
COLUMNS = 8
CONTIGUOUS = Layout()
#: "e4m3" has a float32 factor a row, "e2m1" E8M0 exponents as ``float8_e8m0fnu``, "e2m1-uint8" the same as bytes.
Weights = Literal["bf16", "e4m3", "e2m1", "e2m1-uint8"]
#: "lowest" starts at byte 0, 2**-127, a float32 subnormal, and "subnormal" is nothing else, so that no larger one hides
#: an error of it; "highest" ends a factor 2**5 below the float32 limit.  Hidden states make up for them, so that
#: results stay moderate.  Other weights than E2M1 ignore it.
ScaleRange = Literal["plain", "lowest", "highest", "subnormal"]
NanIn = Literal["nothing", "hidden_states", "w", "w_scale"]

#: Rows of weights start at multiples of 16 bytes, whatever an element has.
W_LAYOUTS = (CONTIGUOUS, Layout(kind="padded_rows", amount=16), Layout(kind="offset", amount=16))
FAR_EXPERTS = far(3)
#: E8M0 scales of a row are neighbours.
_E8M0_LAYOUTS: tuple[LayoutKind, ...] = ("contiguous", "padded_rows", "offset", "far")

_SCALE_BYTES: dict[ScaleRange, tuple[int, int]] = {
    "plain": (121, 126), "lowest": (0, 5), "highest": (244, 249), "subnormal": (0, 0),
}  # fmt: skip
_HIDDEN_EXPONENT: dict[ScaleRange, int] = {"plain": 0, "lowest": 120, "highest": -122, "subnormal": 120}
_QUIET_EXPONENT = -12


@dataclass(frozen=True, kw_only=True, repr=False)
class Case(Spec):
    """One scatter matmul; ``hidden_size`` is K, a multiple of 32, ``output_size`` N, a multiple of 8."""

    routing: Routing
    hidden_size: int
    output_size: int
    weights: Weights = "bf16"
    scale_range: ScaleRange = "plain"
    subnormal_codes: bool = False
    quiet_rows: bool = False
    hidden_layout: Layout = CONTIGUOUS
    w_layout: Layout = CONTIGUOUS
    scale_layout: Layout = CONTIGUOUS
    nan_in: NanIn = "nothing"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, multiple in (("hidden_size", GROUP), ("output_size", COLUMNS)):
            size = getattr(self, name)
            require(size > 0 and size % multiple == 0, name, f"a positive multiple of {multiple}", size)
        require(self.scale_range == "plain" or self.is_packed, "scale_range", "'plain' but for E2M1", self.scale_range)
        e4m3 = not self.subnormal_codes or self.weights == "e4m3"
        require(e4m3, "subnormal_codes", "False but for e4m3, which has more than one", True)
        quiet = self.quiet_rows and self.scale_range == "highest"
        require(not quiet, "quiet_rows", "False for the highest scales, where bfloat16 has nothing quieter left", True)
        kinds = (*W_LAYOUTS, FAR_EXPERTS)
        require(self.w_layout in kinds, "w_layout", f"one of {kinds}", self.w_layout)
        placed = self.weights != "bf16" or self.scale_layout.kind == "contiguous"
        require(placed, "scale_layout", "contiguous for bfloat16 weights, which have no scale", self.scale_layout)
        inside = not self.is_packed or self.scale_layout.kind in _E8M0_LAYOUTS
        require(inside, "scale_layout", f"one of {_E8M0_LAYOUTS} for E2M1 weights", self.scale_layout)
        # E2M1 has no NaN, bfloat16 weights have no scale
        holds = {"w": not self.is_packed, "w_scale": self.weights != "bf16"}.get(self.nan_in, True)
        require(holds, "nan_in", f"something that {self.weights} weights have", self.nan_in)

    @property
    def is_packed(self) -> bool:
        """Whether the weights are E2M1, two a byte."""
        return self.weights.startswith("e2m1")


_NANS: dict[bool, list[NanIn]] = {
    True: ["nothing", "nothing", "nothing", "hidden_states", "w_scale"],
    False: ["nothing", "nothing", "nothing", "hidden_states", "w"],
}


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    num_tokens = draw(st.sampled_from([1, 2, 3, 4, 5, 0, 16, 17, 33]))
    num_experts = draw(st.integers(1, 6))
    top_k = draw(st.integers(1, 3))
    weights: Weights = draw(st.sampled_from(["bf16", "e4m3", "e2m1", "e2m1-uint8"]))
    packed = weights.startswith("e2m1")
    # drawn whatever the weights: a choice that needs fewer draws would count as the simpler one
    drawn_range: ScaleRange = draw(st.sampled_from(["plain", "lowest", "highest"]))
    scale_range: ScaleRange = drawn_range if packed else "plain"
    subnormal_codes = draw(st.sampled_from((False, False, True))) and weights == "e4m3"
    nan_in = draw(st.sampled_from(_NANS[packed]))
    # both are drawn whatever the weights, for the same reason
    e8m0_layout, float_layout = draw(layouts(rank=3, allow=_E8M0_LAYOUTS[:-1])), draw(layouts(rank=2))
    return Case(
        routing=draw(routings(num_tokens=num_tokens, num_experts=num_experts, top_k=top_k)),
        hidden_size=draw(sizes(tile=64, min_size=32, max_size=128, multiple_of=GROUP)),
        output_size=draw(sizes(tile=64, min_size=8, max_size=72, multiple_of=COLUMNS)),
        weights=weights,
        scale_range=scale_range,
        subnormal_codes=subnormal_codes,
        quiet_rows=draw(st.booleans()) and scale_range != "highest",
        hidden_layout=draw(layouts(rank=2)),
        w_layout=draw(st.sampled_from(W_LAYOUTS)),
        scale_layout=CONTIGUOUS if weights == "bf16" else e8m0_layout if packed else float_layout,
        nan_in="w_scale" if weights == "e4m3" and nan_in == "w" and draw(st.booleans()) else nan_in,
        seed=draw(st.integers(0, 2**16 - 1)),
    )


def cases() -> st.SearchStrategy[Case]:
    """Legal cases: 0 to 5 tokens or some at a tile edge, K in 32..128, N in 8..72, 1 to 6 experts, 1 to 3 slots."""
    return _cases()


def inputs(case: Case, device: torch.device, poison: Poison) -> Inputs:
    """Build the launch arguments of ``case``; contents that may not matter are ``poison``."""
    topk_ids, _ = routing_tensors(case.routing, poison=Poison(), seed=case.seed)
    built: dict[str, torch.Tensor | None] = {
        "hidden_states": _hidden_states(case, poison),
        "w": _weights(case),
        "topk_ids": topk_ids,
        "w_scale": _scales(case),
    }
    given = {name: tensor for name, tensor in built.items() if tensor is not None}
    _put_nan(case, given)
    for expert in unrouted_experts(case.routing):
        for name in given.keys() & {"w", "w_scale"}:
            poison.fill_(given[name][expert], "unrouted experts")
    moved: Inputs = {name: None if tensor is None else tensor.to(device) for name, tensor in built.items()}
    moved["hidden_states"] = materialise(moved["hidden_states"], case.hidden_layout, poison, "hidden row padding")
    moved["w"] = materialise(moved["w"], case.w_layout, poison, "weight row padding")
    if (scale := moved["w_scale"]) is not None:
        # torch moves no 8-bit floats, but their bytes
        plain = scale.view(torch.uint8) if case.is_packed else scale
        moved["w_scale"] = materialise(plain, case.scale_layout, poison, "scale padding").view(scale.dtype)
    return moved


def _hidden_states(case: Case, poison: Poison) -> torch.Tensor:
    shape = (case.routing.num_tokens, case.hidden_size)
    exponents = torch.full((shape[0], 1), float(_HIDDEN_EXPONENT[case.scale_range]))
    if case.quiet_rows:
        exponents[1::2] += _QUIET_EXPONENT
    plain = float_tensor(shape, torch.float32, seed=derived_seed(case.seed, "hidden_states"))
    hidden = (plain * torch.exp2(exponents)).to(torch.bfloat16)
    for token in range(shape[0]):
        if not any(map(case.routing.is_valid, case.routing.ids(token))):
            poison.fill_(hidden[token], "rows of padded tokens")
    return hidden


def _weights(case: Case) -> torch.Tensor:
    """Return the weights of all experts, contiguous: bfloat16 and E2M1 plain, of E4M3 every finite code."""
    shape = (case.routing.num_experts, case.output_size, case.hidden_size)
    seed = derived_seed(case.seed, "w")
    if case.weights == "bf16":
        return float_tensor(shape, torch.bfloat16, seed=seed)
    if case.weights == "e4m3":
        codes = sample_codes("e4m3", shape, seed=seed, kind="all_codes")
        # zeros and the seven subnormals: beside larger values nobody would miss them
        return (codes & 0x87 if case.subnormal_codes else codes).view(torch.float8_e4m3fn)
    return sample_codes("e2m1", (*shape[:2], shape[2] // 2), seed=seed)


def _scales(case: Case) -> torch.Tensor | None:
    """Return ``[num_experts, N]`` factors or ``[num_experts, N, K / 32]`` exponents whose neighbours differ."""
    if case.weights == "bf16":
        return None
    generator = torch.Generator().manual_seed(derived_seed(case.seed, "w_scale"))
    shape = (case.routing.num_experts, case.output_size)
    if case.weights == "e4m3":
        # not only powers of two: a factor is a value, and squeezing it into E8M0 must show
        return torch.exp2(torch.randint(-9, -4, shape, generator=generator)) * (
            1 + torch.rand(shape, generator=generator)
        )
    low, high = _SCALE_BYTES[case.scale_range]
    codes = torch.randint(low, high + 1, (*shape, case.hidden_size // GROUP), generator=generator).to(torch.uint8)
    return codes.view(torch.float8_e8m0fnu) if case.weights == "e2m1" else codes


def _valid_slots(case: Case) -> list[tuple[int, int]]:
    """Return (token, expert) of every valid slot."""
    return [
        (token, expert)
        for token in range(case.routing.num_tokens)
        for expert in case.routing.ids(token)
        if case.routing.is_valid(expert)
    ]


def _put_nan(case: Case, built: dict[str, torch.Tensor]) -> None:
    """Put one NaN where some valid slot meets it."""
    slots = _valid_slots(case)
    if case.nan_in == "nothing" or not slots:
        return
    generator = torch.Generator().manual_seed(derived_seed(case.seed, "nan"))
    token, expert = slots[int(torch.randint(len(slots), (), generator=generator))]
    target = built[case.nan_in][token if case.nan_in == "hidden_states" else expert]
    place = int(torch.randint(target.numel(), (), generator=generator))
    if case.nan_in == "w_scale" and case.is_packed:
        row, group = divmod(place, case.hidden_size // GROUP)
        one_sign_(built["w"][expert, row], built["hidden_states"][token], group)
    nan_at_(target, place)


def features(case: Case) -> frozenset[str]:
    """Name what is special about ``case``; one valid token of one expert with bf16 weights has nothing."""
    routing = case.routing
    tags = {
        **routing_features(routing),
        f"{case.weights} weights": case.weights != "bf16",
        "subnormal codes": case.subnormal_codes,
        f"{case.scale_range} scales": case.scale_range != "plain",
        "quiet rows": case.quiet_rows and routing.num_tokens > 1,
        f"hidden rows {case.hidden_layout.kind}": case.hidden_layout.kind != "contiguous",
        f"weight rows {case.w_layout.kind}": case.w_layout.kind != "contiguous",
        "scales non-contiguous": case.scale_layout.kind != "contiguous",
        f"NaN in {case.nan_in}": case.nan_in != "nothing" and bool(_valid_slots(case)),
    }
    return frozenset(tag for tag, present in tags.items() if present)


def _renamed_experts() -> Relation[Any]:
    """Return the relation "giving the experts other numbers changes no output"."""

    def transform(case: Case, given: Inputs) -> Inputs | None:
        experts = case.routing.num_experts
        if experts < 2:
            return None
        ids = given["topk_ids"]
        valid = (ids >= 0) & (ids < experts)
        renamed = given | {"topk_ids": ((ids + 1) % experts).where(valid, ids)}
        for name in ("w", "w_scale"):
            tensor = given[name]
            if tensor is not None:
                # torch moves no 8-bit floats, but their bytes
                plain = tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor
                renamed[name] = plain.roll(1, 0).view(tensor.dtype)
        renamed["w"] = materialise(renamed["w"], case.w_layout, Poison(), "weight row padding")
        return renamed

    return Relation(name="experts renamed", transform=transform)


def rejects() -> tuple[Rejection, ...]:
    """Illegal arguments: dtypes, ranks, sizes that are no multiple, shapes that disagree, scales that do not belong."""
    device = torch.device("cpu")
    illegal = Illegal(lambda: inputs(_LEGAL, device, Poison()))
    packed = Illegal(lambda: inputs(_LEGAL_PACKED, device, Poison()))
    fp8 = Illegal(lambda: inputs(_LEGAL_FP8, device, Poison()))

    return (
        illegal("K = 48", "hidden_states", hidden_states=zeros(2, 48), w=zeros(2, 32, 48)),
        illegal("K = 0", "hidden_states", hidden_states=zeros(2, 0), w=zeros(2, 32, 0)),
        illegal("N = 12", "w", w=zeros(2, 12, 64)),
        illegal("N = 0", "w", w=zeros(2, 0, 64)),
        illegal("float16 hidden states", "hidden_states", hidden_states=torch.Tensor.half),
        illegal("float32 hidden states", "hidden_states", hidden_states=torch.Tensor.float),
        illegal("hidden states of rank 3", "hidden_states", hidden_states=lambda t: t[None]),
        illegal("float16 weights", "w", w=torch.Tensor.half),
        illegal("e5m2 weights", "w", w=lambda t: t.to(torch.float8_e5m2)),
        illegal("int8 weights", "w", w=torch.Tensor.char),
        illegal("weights of rank 2", "w", w=lambda t: t[0]),
        illegal("weights of another K", "w", w=shorter(2, 32)),
        illegal("weights transposed", "w", w=lambda t: t.transpose(1, 2).contiguous().transpose(1, 2)),
        illegal("weight rows off by two bytes", "w", w=lambda t: zeros(2, 32, 72)(t)[..., 1:65]),
        illegal("weight rows at odd strides", "w", w=lambda t: zeros(2, 32, 65)(t)[..., :64]),
        illegal("one expert's weights expanded", "w", w=lambda t: t[:1].expand(2, -1, -1)),
        illegal("a scale of bfloat16 weights", "w_scale", w_scale=value(torch.ones(2, 32))),
        fp8("no scale of e4m3 weights", "w_scale", w_scale=value(None)),
        fp8("float64 scale", "w_scale", w_scale=torch.Tensor.double),
        fp8("scale of fewer rows", "w_scale", w_scale=shorter(1)),
        fp8("scale an expert", "w_scale", w_scale=lambda t: t[:, 0]),
        packed("no scale of e2m1 weights", "w_scale", w_scale=value(None)),
        packed("float32 scale of e2m1 weights", "w_scale", w_scale=lambda t: t.float()),
        packed("scale with a group missing", "w_scale", w_scale=shorter(2)),
        packed("scale of fewer experts", "w_scale", w_scale=shorter(0)),
        packed("scale with strided groups", "w_scale", w_scale=lambda t: zeros(2, 32, 4)(t)[..., ::2]),
        packed("codes of another K", "w", w=shorter(2, 16)),
        illegal("int16 ids", "topk_ids", topk_ids=torch.Tensor.short),
        illegal("ids of rank 1", "topk_ids", topk_ids=torch.Tensor.flatten),
        illegal("ids of fewer tokens", "topk_ids", topk_ids=shorter(0)),
        illegal("ids on another device", "topk_ids", topk_ids=on_another_device),
    )


def _routed(num_tokens: int, *rows: tuple[int, ...], num_experts: int = 4, dtype: torch.dtype = torch.int32) -> Routing:
    return Routing(num_tokens=num_tokens, num_experts=num_experts, rows=rows, dtype=dtype)


_LEGAL = Case(routing=_routed(2, (0, 1), num_experts=2), hidden_size=64, output_size=32)
_LEGAL_FP8 = replace(_LEGAL, weights="e4m3")
#: (weights, far axis of their scales counted from the last)
_FAR_SCALES: tuple[tuple[Weights, int], ...] = (("e4m3", 2), ("e4m3", 1), ("e2m1-uint8", 3), ("e2m1-uint8", 2))
_LEGAL_PACKED = replace(_LEGAL, weights="e2m1-uint8")

#: Corners that must stay right: the smallest sizes, several tiles an expert, -1 and an unrouted expert 0 together, a
#: tail in every axis, no token, a padded token beside a quiet one, the smallest scale alone, NaN codes, experts, tokens
#: and scales 2**31 elements apart.
PINNED = (
    Case(routing=_routed(1, (0,), num_experts=1), hidden_size=32, output_size=8),
    Case(routing=_routed(65, (0, 1), (1, -1)), hidden_size=32, output_size=8, weights="e4m3"),
    Case(routing=_routed(3, (-1, 1), (4, 1), dtype=torch.int64), hidden_size=96, output_size=136, weights="e2m1-uint8"),
    Case(routing=_routed(0, (0, 1)), hidden_size=32, output_size=8),
    Case(routing=_routed(2, (0, 1), num_experts=0), hidden_size=32, output_size=8, weights="e4m3"),
    Case(routing=_routed(4, (0, 3), (-1, 7)), hidden_size=64, output_size=24, weights="e2m1", quiet_rows=True),
    Case(routing=_routed(4, (0, 1), (2, 3)), hidden_size=32, output_size=64, weights="e2m1", scale_range="subnormal"),
    Case(routing=_routed(1, (0, 1)), hidden_size=32, output_size=8, weights="e2m1", nan_in="w_scale"),
    Case(routing=_routed(1, (0,)), hidden_size=32, output_size=8, weights="e4m3", nan_in="w"),
    Case(
        routing=_routed(3, (2, 0), num_experts=3),
        hidden_size=32,
        output_size=8,
        hidden_layout=far(2),
        w_layout=FAR_EXPERTS,
    ),
    *(
        Case(
            routing=_routed(3, (2, 0), num_experts=3),
            hidden_size=32,
            output_size=8,
            weights=weights,
            scale_layout=far(axis),
        )
        for weights, axis in _FAR_SCALES
    ),
)

#: The first product of DeepSeek-V4-Flash's experts, decode and two sizes of prefill, in every format: each tile.
WORKLOADS = tuple(
    Case(
        routing=Routing(
            num_tokens=num_tokens,
            num_experts=256,
            rows=tuple(tuple((37 * token + 43 * slot) % 256 for slot in range(6)) for token in range(256)),
        ),
        hidden_size=4096,
        output_size=4096,
        weights=weights,
    )
    for weights in ("bf16", "e4m3", "e2m1")
    for num_tokens in (16, 1024, 8192)
)

register(
    Contract(
        name="moe_scatter",
        cases=cases,
        inputs=inputs,
        oracle=oracle,
        magnitude=moe_scatter_magnitude,
        tolerance={"out": Budget()},
        features=features,
        relations=(
            permuted_rows("tokens permuted", arguments=("hidden_states", "topk_ids"), outputs=("out",)),
            _renamed_experts(),
            retyped("int64 ids", argument="topk_ids", dtype=torch.int64),
        ),
        rejects=rejects,
        stores_once=True,
        any_device=True,
        pinned=PINNED,
        workloads=WORKLOADS,
        work=_work.moe_scatter,
        replays=_replays.routed,
    )
)
