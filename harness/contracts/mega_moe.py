"""Contract of ``mega_moe``: what ``mxfp4_moe`` promises, by one launch, whatever the grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from harness.checks import permuted_rows, retyped
from harness.contract import Contract, Inputs, Launched, Rejection, Relation
from harness.contracts import _replays, _work, mxfp4_moe
from harness.contracts._around import around_barriers
from harness.contracts._budgets import RoundedIntermediates
from harness.contracts._illegal import Illegal, value
from harness.poison import Poison
from harness.registry import register
from harness.strategies.moe import Routing
from harness.strategies.spec import require
from reference.mega_moe import mega_moe as oracle
from reference.mega_moe import mega_moe_magnitude


@dataclass(frozen=True, kw_only=True, repr=False)
class Case(mxfp4_moe.Case):
    """One forward by at most ``max_blocks`` blocks; None is as many as the device gives."""

    max_blocks: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.max_blocks is None or self.max_blocks >= 2, "max_blocks", "None or at least 2", self.max_blocks)


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    fields = mxfp4_moe.drawn_fields(draw, (1, 2, 3, 4, 5, 0, 7, 15, 16, 17), largest=128)
    return Case(**fields, max_blocks=draw(st.sampled_from([None, 2, 3, 4, 8])))


def cases() -> st.SearchStrategy[Case]:
    """Legal cases: up to 17 tokens, K and I in 32..128, 1 to 6 experts, 1 to 3 slots a token, grids of 2 and up."""
    return _cases()


def inputs(case: Case, device: torch.device, poison: Poison) -> Inputs:
    """Build the launch arguments of ``case``; contents that may not matter are ``poison``."""
    return mxfp4_moe.inputs(case, device, poison) | {"max_blocks": case.max_blocks}


def features(case: Case) -> frozenset[str]:
    """Name what is special about ``case``; as many blocks as the device gives is not."""
    grid = frozenset() if case.max_blocks is None else frozenset({f"at most {case.max_blocks} blocks"})
    return mxfp4_moe.features(case) | grid


def launches(case: Case, done: Sequence[Launched]) -> Iterator[str]:
    """Say what is no single launch of an even number of blocks, at most as many as were allowed."""
    if len(done) > 1:
        yield f"{len(done)} launches, wanted one: {', '.join(one.kernel for one in done)}"
    for one in done:
        if one.blocks % 2:
            yield f"{one.kernel}: {one.blocks} blocks, wanted an even number"
        if case.max_blocks is not None and one.blocks > case.max_blocks:
            yield f"{one.kernel}: {one.blocks} blocks, wanted at most {case.max_blocks}"


def _other_grid(case: Case, inputs: Inputs) -> Inputs:
    return inputs | {"max_blocks": 2 if case.max_blocks is None else None}


def rejects() -> tuple[Rejection, ...]:
    """Illegal arguments: those of ``mxfp4_moe``, and grids that are none."""
    illegal = Illegal(lambda: inputs(_LEGAL, torch.device("cpu"), Poison()))
    return (
        *mxfp4_moe.rejects(),
        illegal("one block", "max_blocks", max_blocks=value(1)),
        illegal("no blocks", "max_blocks", max_blocks=value(0)),
        illegal("blocks that are no integer", "max_blocks", max_blocks=value(4.0)),
        illegal("max_blocks True", "max_blocks", max_blocks=value(True)),
    )


def _routed(num_tokens: int, *rows: tuple[int, ...], num_experts: int = 4, dtype: torch.dtype = torch.int32) -> Routing:
    return Routing(num_tokens=num_tokens, num_experts=num_experts, rows=rows, dtype=dtype)


_LEGAL = Case(routing=_routed(2, (0, 1), num_experts=2), hidden_size=64, intermediate_size=64)

#: Corners that must stay right: one tile for two blocks, as many slots as small tiles take, many tiles for two and an
#: odd limit, -1 and an unrouted expert 0 together, with padded rows of weights too, both sides of a switch between two
#: paths, more sorted tiles than blocks (five for two), one slot more than are sorted in one step, rows that are summed
#: in several, what is not multiplied as words, rows of w2 in two parts of three steps, no token.
PINNED = (
    Case(routing=_routed(1, (0,), num_experts=1), hidden_size=32, intermediate_size=32),
    Case(routing=_routed(32, (0,), num_experts=1), hidden_size=32, intermediate_size=32),
    *(
        Case(
            routing=_routed(num_tokens, (-1, 1), (4, 1)),
            hidden_size=64,
            intermediate_size=96,
            weight_layout=mxfp4_moe.PADDED,
            max_blocks=2,
        )
        for num_tokens in (2, 3)
    ),
    Case(
        routing=_routed(2, (0, 3)),
        hidden_size=96,
        intermediate_size=32,
        clamp_limit=1.0,
        routed_scaling_factor=2.5,
        max_blocks=3,
    ),
    Case(routing=_routed(129, (0, 1), (2, -1)), hidden_size=32, intermediate_size=32, max_blocks=2),
    Case(routing=_routed(129, (0,), *((-1,),) * 7), hidden_size=32, intermediate_size=32),
    # both multiplies take the same blocks, of different rows
    Case(routing=_routed(129, (0, 1), (2, -1)), hidden_size=256, intermediate_size=128, max_blocks=2),
    Case(routing=_routed(3, (0,), (-1,), (-1,), num_experts=1), hidden_size=2560, intermediate_size=32, max_blocks=2),
    Case(
        routing=_routed(3, (-1, 1), (0, 1)),
        hidden_size=64,
        intermediate_size=96,
        scale_type="float32",
        max_blocks=2,
    ),
    Case(
        routing=_routed(2, (0, -1, 1), (2, 3, -1)),
        hidden_size=32,
        intermediate_size=768,
        nan_in="w2_scale",
        max_blocks=4,
    ),
    Case(routing=_routed(0, (0, 1)), hidden_size=32, intermediate_size=32),
    Case(routing=_routed(2, (0, 1), num_experts=0), hidden_size=32, intermediate_size=32),
    Case(
        routing=_routed(3, (1, 0), (2, 1), dtype=torch.int64),
        hidden_size=128,
        intermediate_size=128,
        dtype=torch.float16,
        max_blocks=4,
    ),
)

#: Some of those of ``mxfp4_moe``, which take each configuration once.
WORKLOADS = tuple(
    Case(
        routing=case.routing,
        hidden_size=case.hidden_size,
        intermediate_size=case.intermediate_size,
        clamp_limit=case.clamp_limit,
        routed_scaling_factor=case.routed_scaling_factor,
    )
    for case in mxfp4_moe.WORKLOADS
    if case.routing.num_tokens in (1, 64, 512, 4096)
)

register(
    Contract(
        name="mega_moe",
        cases=cases,
        inputs=inputs,
        oracle=oracle,
        magnitude=mega_moe_magnitude,
        tolerance={"out": RoundedIntermediates()},
        features=features,
        relations=(
            permuted_rows("tokens permuted", arguments=("hidden_states", "topk_ids", "topk_weights"), outputs=("out",)),
            retyped("int64 ids", argument="topk_ids", dtype=torch.int64),
            Relation(name="another grid", transform=_other_grid),
        ),
        rejects=rejects,
        any_device=True,
        pinned=PINNED,
        workloads=WORKLOADS,
        work=_work.mxfp4_moe,
        replays=_replays.routed,
        launches=launches,
        policies=around_barriers,
    )
)
