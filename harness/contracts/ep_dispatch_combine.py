"""Contract of expert parallelism within a node: rows to the ranks that own their experts, results back and added up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from harness.checks import retyped
from harness.contract import Contract, Inputs, Launched, Outputs, Rejection, Relation
from harness.contracts import _replays, _work
from harness.contracts._around import around_barriers
from harness.contracts._ep_cases import (
    GROUP,
    SCALE_DTYPES,
    X_DTYPES,
    Case,
    DispatchDtype,
    ScaleType,
    cases,
    features,
)
from harness.contracts._ep_placement import Renaming
from harness.contracts._illegal import Change, Illegal, apart, on_another_device, shorter, value, zeros
from harness.poison import Poison
from harness.registry import register
from harness.strategies.formats import float_tensor
from harness.strategies.layouts import far, materialise
from harness.strategies.moe import Routing
from harness.strategies.spec import derived_seed
from harness.tolerance import Exact
from reference.ep_dispatch_combine import ep_dispatch_combine as oracle


def inputs(case: Case, device: torch.device, poison: Poison) -> Inputs:
    """Build the launch arguments of ``case``; contents that may not matter are ``poison``."""
    shape = (case.world, case.max_tokens)
    width = case.hidden_size // (2 if case.dispatch_dtype == "fp4" else 1)
    x = _any_bits((*shape, width), X_DTYPES[case.dispatch_dtype], derived_seed(case.seed, "x"))
    scale = None
    if case.dispatch_dtype != "bf16":
        groups = case.hidden_size // GROUP.get(case.scale_type, case.hidden_size)
        scale = _any_bits((*shape, groups), SCALE_DTYPES[case.scale_type], derived_seed(case.seed, "x_scale"))
    ids = torch.tensor(case.exchange.ids, dtype=case.routing.dtype).reshape(*shape, case.routing.top_k)
    for rank, live in enumerate(case.live):
        for token in range(case.max_tokens):
            if not case.exchange.destinations(rank, token):
                region = "rows sent nowhere" if token < live else "rows that are no tokens"
                for rows in (x, scale) if scale is not None else (x,):
                    poison.fill_(rows[rank, token], region)
        if live < case.max_tokens:
            poison.fill_(ids[rank, max(live, 0) :], "ids of rows that are no tokens")
    expert_out = float_tensor(
        (case.world, case.capacity, case.out_size), case.out_dtype, seed=derived_seed(case.seed, "expert_out"),
        kind=case.out_kind,
    )  # fmt: skip
    for rank in range(case.world):
        used = len(case.exchange.received(rank))
        if used < case.capacity:
            poison.fill_(expert_out[rank, used:], "spare rows")
    asked = {"block_num": case.block_num, "warp_num_per_block": case.warp_num_per_block}
    return {
        "x": materialise(x.to(device), case.x_layout, poison, "x padding"),
        "x_scale": None if scale is None else materialise(scale.to(device), case.x_layout, poison, "x_scale padding"),
        "num_tokens": torch.tensor(case.live, dtype=case.routing.dtype, device=device),
        "topk_ids": materialise(ids.to(device), case.ids_layout, poison, "topk_ids padding"),
        "expert_out": materialise(expert_out.to(device), case.out_layout, poison, "expert_out padding"),
        "experts_per_rank": case.experts_per_rank,
        "capacity": case.capacity,
        "dispatch_dtype": case.dispatch_dtype,
        **{name: number for name, number in asked.items() if number is not None},
    }


#: Blocks and warps that nobody asked for: (blocks, warps) of most rows, of FP4 rows, of fewer of those than ``_FEW``.
_GRID, _GRID_FP4, _GRID_FEW, _FEW = (80, 16), (256, 16), (225, 5), 128


def launches(case: Case, done: Sequence[Launched]) -> Iterator[str]:
    """Say which launch has more blocks or other warps than were asked for, or than there are rows by default."""
    few = case.max_tokens < _FEW
    wanted = (_GRID_FEW if few else _GRID_FP4) if case.dispatch_dtype == "fp4" else _GRID
    blocks = wanted[0] if case.block_num is None else case.block_num
    if case.block_num is None:
        blocks = min(blocks, case.world * max(case.capacity, case.max_tokens))
    asked = wanted[1] if case.warp_num_per_block is None else case.warp_num_per_block
    warps = 1 << asked.bit_length() - 1
    for one in done:
        if one.blocks > blocks:
            yield f"{one.kernel}: {one.blocks} blocks, wanted at most {blocks}"
        if one.given.get("num_warps", warps) != warps:
            yield f"{one.kernel}: {one.given['num_warps']} warps a block, wanted {warps}"


def _any_bits(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Return ``shape`` of bytes that are not read but moved: every code, NaN and infinities included."""
    generator = torch.Generator().manual_seed(seed)
    size = dtype.itemsize
    codes = torch.randint(256, (*shape[:-1], shape[-1] * size), generator=generator, dtype=torch.uint8)
    return codes.view(dtype)


def _shuffled(length: int, seed: int) -> list[int]:
    """Return a permutation of ``length`` numbers that is not the identity where there is another."""
    generator = torch.Generator().manual_seed(seed)
    order: list[int] = torch.randperm(length, generator=generator).tolist()
    return order if order != sorted(order) else [*order[1:], *order[:1]]


def _ranks_renamed(case: Case) -> Renaming:
    every = range(case.max_tokens)
    ranks = _shuffled(case.world, derived_seed(case.seed, "ranks"))
    return Renaming(exchange=case.exchange, ranks=ranks, tokens=[every] * case.world)


def _tokens_permuted(case: Case) -> Renaming:
    tokens = []
    for rank, live in enumerate(case.live):
        moved = _shuffled(min(max(live, 0), case.max_tokens), derived_seed(case.seed, f"tokens of {rank}"))
        tokens.append([*moved, *range(len(moved), case.max_tokens)])
    return Renaming(exchange=case.exchange, ranks=range(case.world), tokens=tokens)


def _after_ranks(case: Case, outputs: Outputs) -> Outputs:
    """Leave ``out`` to the oracle where some token has three rows: their sum depends on the order of the ranks."""
    expected = _ranks_renamed(case).outputs(outputs)
    tokens = [(rank, token) for rank in range(case.world) for token in range(case.max_tokens)]
    if any(len(case.exchange.destinations(*token)) > 2 for token in tokens):
        del expected["out"]
    return expected


RELATIONS: tuple[Relation[Case], ...] = (
    Relation(
        name="ranks renamed",
        transform=lambda case, old: _ranks_renamed(case).inputs(old) if case.world > 1 else None,
        expect=_after_ranks,
    ),
    Relation(
        name="tokens permuted",
        transform=lambda case, old: (
            _tokens_permuted(case).inputs(old) if max(case.live) > 1 < case.max_tokens else None
        ),
        expect=lambda case, outputs: _tokens_permuted(case).outputs(outputs),
    ),
    retyped("int64 ids", argument="topk_ids", dtype=torch.int64),
)


def rejects() -> tuple[Rejection, ...]:
    """Illegal arguments: dtypes, shapes that disagree, scales missing or too many, one row more than there is room."""

    def of(case: Case, label: str, argument: str, **changes: Change) -> Rejection:
        return Illegal(lambda: inputs(case, torch.device("cpu"), Poison()))(label, argument, **changes)

    def legal(label: str, argument: str, **changes: Change) -> Rejection:
        return of(_LEGAL, label, argument, **changes)

    def fewer(count: int) -> Change:
        return lambda capacity: capacity - count

    wide = replace(_LEGAL, hidden_size=256)
    fp8 = replace(wide, dispatch_dtype="fp8", scale_type="block")
    mxfp8 = replace(wide, dispatch_dtype="mxfp8", scale_type="e8m0")
    fp4 = replace(wide, dispatch_dtype="fp4", scale_type="uint8")
    full = replace(_LEGAL, spare=0)
    return (
        of(full, "one row too many", "capacity", capacity=fewer(1), expert_out=shorter(1)),
        of(full, "no room at all", "capacity", capacity=value(0), expert_out=lambda t: t[:, :0]),
        legal("capacity of another expert_out", "expert_out", capacity=lambda n: n + 1),
        legal("capacity of float", "capacity", capacity=float),
        legal("experts_per_rank 0", "experts_per_rank", experts_per_rank=value(0)),
        legal("experts_per_rank True", "experts_per_rank", experts_per_rank=value(True)),
        legal("unknown row type", "dispatch_dtype", dispatch_dtype=value("int8")),
        legal("float16 rows", "x", x=torch.Tensor.half),
        legal("rows of rank 2", "x", x=lambda t: t[0]),
        legal("nine ranks", "x", x=zeros(9, 3, 8)),
        legal("rows of nothing", "x", x=lambda t: t[:, :, :0]),
        legal("rows with a step", "x", x=lambda t: t.repeat_interleave(2, dim=2)[:, :, ::2]),
        legal("scales of bf16 rows", "x_scale", x_scale=lambda _: torch.ones(2, 3, 1)),
        of(fp8, "fp8 rows without scales", "x_scale", x_scale=value(None)),
        of(fp8, "fp8 rows of bytes", "x", x=lambda t: t.view(torch.uint8)),
        of(fp8, "fp8 scales of float64", "x_scale", x_scale=torch.Tensor.double),
        of(fp8, "fp8 scales of another width", "x_scale", x_scale=lambda _: torch.ones(2, 3, 3)),
        of(mxfp8, "mxfp8 scales of float32", "x_scale", x_scale=lambda _: torch.ones(2, 3, 8)),
        of(mxfp8, "mxfp8 rows of 33", "x", x=lambda t: t.view(torch.uint8)[:, :, :33].contiguous().view(t.dtype)),
        of(mxfp8, "mxfp8 scales with a group missing", "x_scale", x_scale=lambda t: t.view(torch.uint8)[:, :, 1:]),
        of(fp4, "fp4 scales as if a byte held one", "x_scale", x_scale=shorter(2, 4)),
        of(fp4, "fp4 rows of int8", "x", x=lambda t: t.view(torch.int8)),
        of(fp4, "fp4 scales of fewer ranks", "x_scale", x_scale=shorter(0)),
        legal("int16 ids", "topk_ids", topk_ids=torch.Tensor.short),
        legal("ids of fewer tokens", "topk_ids", topk_ids=shorter(1)),
        legal("no ids", "topk_ids", topk_ids=lambda t: t[:, :, :0]),
        legal("num_tokens of float", "num_tokens", num_tokens=torch.Tensor.float),
        legal("num_tokens of fewer ranks", "num_tokens", num_tokens=shorter(0)),
        legal("float64 expert_out", "expert_out", expert_out=torch.Tensor.double),
        legal("expert_out of rank 2", "expert_out", expert_out=lambda t: t[0]),
        legal("expert_out of fewer ranks", "expert_out", expert_out=shorter(0)),
        of(fp8, "scales with a step", "x_scale", x_scale=apart),
        of(fp8, "scales on another device", "x_scale", x_scale=on_another_device),
        legal("ids on another device", "topk_ids", topk_ids=on_another_device),
        legal("expert_out on another device", "expert_out", expert_out=on_another_device),
        legal(
            "more tokens than int32 numbers",
            "x",
            x=_unreal(2, 2**30, 8),
            num_tokens=on_another_device,
            topk_ids=_unreal(2, 2**30, 1),
            expert_out=_unreal(2, 2**30 - 1, 8),
            capacity=value(2**30 - 1),
        ),
        legal("more rows than int32 numbers", "capacity", capacity=value(2**30), expert_out=_unreal(2, 2**30, 8)),
        legal("no blocks", "block_num", block_num=value(0)),
        legal("blocks that are no integer", "block_num", block_num=value(4.0)),
        legal("block_num True", "block_num", block_num=value(True)),
        legal("no warps", "warp_num_per_block", warp_num_per_block=value(0)),
        legal("warps past a block's most", "warp_num_per_block", warp_num_per_block=value(17)),
        legal("ranks of other nodes", "kernel_type", kernel_type=value("inter_node")),
        legal("expert_out with a step", "expert_out", expert_out=lambda t: t.repeat_interleave(2, dim=2)[:, :, ::2]),
    )


def _unreal(*shape: int) -> Change:
    """Return the change to ``shape`` on a device where nothing takes memory."""
    return lambda tensor: torch.empty(shape, dtype=tensor.dtype, device="meta")


def _case(live: tuple[int, ...], max_tokens: int, *rows: tuple[int, ...], experts_per_rank: int = 2) -> Case:
    world = len(live)
    routing = Routing(num_tokens=world * max_tokens, num_experts=world * experts_per_rank, rows=rows)
    return Case(routing=routing, live=live, max_tokens=max_tokens, experts_per_rank=experts_per_rank)


_LEGAL = _case((3, 3), 3, (0, 2), (1, 3), (3, 3))
_EIGHT = _case((2,) * 8, 2, (0, 5, 11), (15, 2, 8), (7, 7, 6))

#: Corners that must stay right: rows longer than a block moves at a time, eight ranks of which each token visits
#: three, every row to the last rank and no room to spare, a world without any token, ranks and rows 2^31 elements
#: apart, experts up to int32's last, and more tiles of a rank than are summed at once.
PINNED = (
    replace(_case((1,), 1, (0,)), hidden_size=4100, out_size=2050),
    replace(_EIGHT, out_dtype=torch.float32, out_kind="mixed_rows", spare=0),
    replace(_EIGHT, hidden_size=96, dispatch_dtype="fp4", scale_type="e8m0", spare=None, warp_num_per_block=3),
    replace(_case((5, 0, 5), 5, (5, 4), (4, -1)), hidden_size=256, dispatch_dtype="fp8", scale_type="block", spare=0),
    _case((0, 0), 0, (0, 1)),
    *(
        replace(
            _case((3, 3, 2), 3, (0, 2), (4, 1), (5, 3)),
            hidden_size=128,
            dispatch_dtype="fp8",
            scale_type="block",
            x_layout=far(axis),
            out_layout=far(axis),
            ids_layout=far(axis),
            spare=0,
        )
        for axis in (3, 2)
    ),
    _case((1,), 1, (0, 1), experts_per_rank=2**31 - 1),
    _case((2049,), 2049, (0,), *((-1,),) * 15, experts_per_rank=1),
)


def _workload(max_tokens: int, dispatch_dtype: DispatchDtype, scale_type: ScaleType) -> Case:
    rows = tuple(tuple((37 * token + 43 * slot) % 256 for slot in range(8)) for token in range(256))
    return Case(
        routing=Routing(num_tokens=8 * max_tokens, num_experts=256, rows=rows),
        live=(max_tokens,) * 8,
        max_tokens=max_tokens,
        experts_per_rank=32,
        hidden_size=7168,
        out_size=7168,
        dispatch_dtype=dispatch_dtype,
        scale_type=scale_type,
        spare=None,
    )


#: The sizes of DeepSeek-V3: 8 ranks of 32 experts, 8 experts a token; decode, and both grids of FP4.
WORKLOADS = (
    _workload(64, "bf16", "row"),
    _workload(64, "fp8", "block"),
    _workload(64, "fp4", "uint8"),
    _workload(256, "fp4", "uint8"),
)

register(
    Contract(
        name="ep_dispatch_combine",
        cases=cases,
        inputs=inputs,
        oracle=oracle,
        # bits moved, integers, and a sum whose order and only rounding are part of the promise
        tolerance={name: Exact() for name in ("recv", "recv_scale", "recv_counts", "recv_src", "send_rows", "out")},
        features=features,
        relations=RELATIONS,
        rejects=rejects,
        any_device=True,
        pinned=PINNED,
        workloads=WORKLOADS,
        work=_work.ep_dispatch_combine,
        replays=_replays.exchanged,
        launches=launches,
        policies=around_barriers,
    )
)
