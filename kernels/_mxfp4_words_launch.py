"""How a forward on 32-bit words of MXFP4 weights is launched: what it takes, its workspaces, its kernels in a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton

from harness.device.targets import Target
from harness.launch.current import current_target
from kernels._mxfp4_words_kernels import (
    words_combine_kernel,
    words_down_kernel,
    words_experts_kernel,
    words_gate_up_kernel,
    words_prepare_kernel,
    words_slot_kernel,
    words_token_kernel,
)
from kernels._mxfp4_words_table import Kind, Plan, choose_plan, choose_slots, quads
from kernels._overlap import can_overlap, overlap_option

#: Tensors of the virtual GPU are the CPU's: its default target.
VIRTUAL_TARGET = "sm_120"
#: Columns of the result that a program sums over a token's slots.
COMBINE_BLOCK = 1024
# What a thread loads at once.
_ALIGNMENT = 16
# Elements that a signed offset of 32 bits reaches.
_OFFSETS = 1 << 31
#: Columns of hidden states that a program of the preparation moves.
PREPARE_BLOCK = 1024
#: Slots that it looks at together, at most.
PREPARE_CHUNK = 1024


@dataclass(frozen=True, kw_only=True)
class Operands:
    """Arguments of a forward as its kernels take them.

    ``x`` bfloat16 ``[M, K]`` with stride 1 in the rows; ``w13`` int32 ``[E, 2I, K/8]``, ``w2`` int32 ``[E, K, I/8]``;
    scales uint8; ``ids`` ``[M, topk]`` and ``weights`` contiguous.
    """

    x: torch.Tensor
    w13: torch.Tensor
    w13_scale: torch.Tensor
    w2: torch.Tensor
    w2_scale: torch.Tensor
    ids: torch.Tensor
    weights: torch.Tensor

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """M, K, I and the number of experts."""
        return self.x.shape[0], self.x.shape[1], self.w13.shape[1] // 2, self.w13.shape[0]

    @property
    def dense(self) -> bool:
        """Whether rows of weights and of scales follow one another, and 32 bits hold where rows start in an expert."""
        tokens, columns, inter, _ = self.sizes
        rows = all(t.stride(1) == t.shape[2] for t in (self.w13, self.w13_scale, self.w2, self.w2_scale))
        return rows and max(2 * inter * (columns // 8), tokens * columns, self.ids.numel() * inter) < _OFFSETS

    @property
    def w13_arguments(self) -> tuple[Any, ...]:
        """w13, its scales and the strides of both, in the kernels' order."""
        scale = self.w13_scale
        return self.w13, self.w13.stride(0), self.w13.stride(1), scale, scale.stride(0), scale.stride(1)

    @property
    def w2_arguments(self) -> tuple[Any, ...]:
        """w2, its scales and the strides of both, in the kernels' order."""
        scale = self.w2_scale
        return self.w2, self.w2.stride(0), self.w2.stride(1), scale, scale.stride(0), scale.stride(1)


def words_operands(
    hidden_states: torch.Tensor,
    w13_packed: torch.Tensor,
    w13_scale: torch.Tensor,
    w2_packed: torch.Tensor,
    w2_scale: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor,
) -> Operands | None:
    """Return the operands of valid arguments, or None where words do not serve.

    bfloat16 holds E8M0-scaled weights exactly, but not fp16 activations and not a float32 scale; rows of weights must
    start at 16 bytes; and LLVM takes minutes over these kernels for AMD targets.
    """
    if hidden_states.dtype != torch.bfloat16 or torch.float32 in (w13_scale.dtype, w2_scale.dtype):
        return None
    if current_target(hidden_states.device, VIRTUAL_TARGET).vendor != "cuda":
        return None
    if not (_aligned(w13_packed) and _aligned(w2_packed)):
        return None
    return Operands(
        # Only the row stride is an argument of the kernels.
        x=hidden_states if hidden_states.stride(1) == 1 else hidden_states.contiguous(),
        w13=w13_packed.view(torch.int32),
        w13_scale=w13_scale.view(torch.uint8),
        w2=w2_packed.view(torch.int32),
        w2_scale=w2_scale.view(torch.uint8),
        ids=topk_ids.contiguous(),
        weights=topk_weights.contiguous(),
    )


def _aligned(weights: torch.Tensor) -> bool:
    starts = (weights.data_ptr(), *weights.stride()[:2])
    return weights.stride(2) == 1 and all(start % _ALIGNMENT == 0 for start in starts)


@dataclass(frozen=True, kw_only=True)
class _Tiles:
    # ``count`` tiles of a launch, at most: those of ``table`` from ``first`` on, as far as ``used`` says.  With
    # ``turns`` both multiplies are one launch.
    order: torch.Tensor
    count: int
    table: torch.Tensor
    used: torch.Tensor
    first: int
    turns: torch.Tensor | None

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.order, self.table, self.used, self.first

    def programs(self, row_blocks: int, kind: Kind) -> int:
        return min(self.count * row_blocks, kind.most_programs)


def run_words(
    operands: Operands, out: torch.Tensor, *, grouped: bool, scaling: float, limit: float | None, ptx: bool = True
) -> None:
    """Write ``out`` bfloat16 ``[M, K]``.  ``grouped``: slots that share an expert share a pass over its weights.

    Depends on shapes and dtypes alone and waits for nothing, so it can be captured.  Without ``ptx`` every target
    takes the portable form of the kernels, which gives the same bits.
    """
    target = current_target(out.device, VIRTUAL_TARGET)
    if grouped:
        _run_grouped(operands, out, target, scaling, limit, ptx)
    else:
        _run_slots(operands, out, target, scaling, limit, ptx)


def _run_slots(
    operands: Operands, out: torch.Tensor, target: Target, scaling: float, limit: float | None, ptx: bool
) -> None:
    tokens, columns, inter, experts = operands.sizes
    slots, topk = operands.ids.numel(), operands.ids.shape[1]
    kind, overlap = choose_slots(target), can_overlap(target)
    act = torch.empty(slots, inter, dtype=torch.bfloat16, device=out.device)
    shared: dict[str, Any] = {
        "TOPK": topk, "K": columns, "INTER": inter, "PTX": ptx, "OVERLAP": overlap,
        "BLOCK_T": kind.block_t, "PAIRS": kind.pairs,
    }  # fmt: skip
    blocks = kind.gate_up.constants(inter, columns)
    words_slot_kernel[(slots * (inter // blocks["BLOCK_N"]),)](
        operands.ids, experts, operands.x, operands.x.stride(0), *operands.w13_arguments,
        act, 0.0 if limit is None else limit,
        HAS_CLAMP=limit is not None, QUADS=quads(columns), ACT_QUADS=quads(inter), DENSE=operands.dense,
        **(blocks | kind.gate_up.options), **shared, **overlap_option(out, overlap),
    )  # fmt: skip
    blocks = kind.down.token_constants(columns, inter)
    words_token_kernel[(tokens * (columns // blocks["BLOCK_N"]),)](
        operands.ids, operands.weights, experts, scaling, act, *operands.w2_arguments, out,
        CHOICES=triton.next_power_of_2(topk), QUADS=quads(inter),
        **(blocks | kind.down.options), **shared, **overlap_option(out, overlap),
    )  # fmt: skip


def _run_grouped(
    operands: Operands, out: torch.Tensor, target: Target, scaling: float, limit: float | None, ptx: bool
) -> None:
    tokens, columns, inter, experts = operands.sizes
    slots = operands.ids.numel()
    overlap = can_overlap(target)
    act = torch.empty(slots, inter, dtype=torch.bfloat16, device=out.device)
    partial = torch.empty(slots, columns, dtype=torch.float32, device=out.device)
    steps = _prepare(operands, choose_plan(target, slots, experts), overlap)
    shared: dict[str, Any] = {"K": columns, "INTER": inter, "PTX": ptx, "OVERLAP": overlap, "DENSE": operands.dense}
    for tiles, kind, x in (step for step in steps if step[0].turns is not None):
        blocks, down = kind.gate_up.constants(inter, columns), kind.down.constants(columns, inter)
        row_blocks = inter // blocks["BLOCK_N"] + columns // down["BLOCK_N"]
        words_experts_kernel[(tiles.programs(row_blocks, kind),)](
            *tiles.arguments, tiles.turns,
            x, *operands.w13_arguments, act, 0.0 if limit is None else limit, *operands.w2_arguments, partial,
            TOPK=operands.ids.shape[1], HAS_CLAMP=limit is not None,
            DOWN_BLOCK_N=down["BLOCK_N"], DOWN_BLOCK_K=down["BLOCK_K"],
            BLOCK_T=kind.block_t, QUADS=quads(columns), ACT_QUADS=quads(inter), PAIRS=kind.pairs,
            **(down | blocks | kind.gate_up.options | kind.down.options), **shared, **overlap_option(out, overlap),
        )  # fmt: skip
    steps = [step for step in steps if step[0].turns is None]
    for tiles, kind, x in steps:
        blocks = kind.gate_up.constants(inter, columns)
        words_gate_up_kernel[(tiles.programs(inter // blocks["BLOCK_N"], kind),)](
            *tiles.arguments, x, x.stride(0), *operands.w13_arguments, act, 0.0 if limit is None else limit,
            TOPK=operands.ids.shape[1], HAS_CLAMP=limit is not None,
            BLOCK_T=kind.block_t, QUADS=quads(columns), ACT_QUADS=quads(inter), PAIRS=kind.pairs,
            **(blocks | kind.gate_up.options), **shared, **overlap_option(out, overlap),
        )  # fmt: skip
    for tiles, kind, _ in steps:
        blocks = kind.down.constants(columns, inter)
        words_down_kernel[(tiles.programs(columns // blocks["BLOCK_N"], kind),)](
            *tiles.arguments, act, *operands.w2_arguments, partial,
            BLOCK_T=kind.block_t, QUADS=quads(inter), PAIRS=kind.pairs,
            **(blocks | kind.down.options), **shared, **overlap_option(out, overlap),
        )  # fmt: skip
    words_combine_kernel[tokens, triton.cdiv(columns, COMBINE_BLOCK)](
        partial, operands.ids, operands.weights, out, experts, scaling,
        TOPK=operands.ids.shape[1], K=columns, BLOCK_K=COMBINE_BLOCK, OVERLAP=overlap, **overlap_option(out, overlap),
    )  # fmt: skip


def _prepare(operands: Operands, plan: Plan, overlap: bool) -> list[tuple[_Tiles, Kind, torch.Tensor]]:
    # Launches the preparation; returns what to launch for each kind, and the hidden states in its order.
    tokens, columns, _, experts = operands.sizes
    slots, device = operands.ids.numel(), operands.x.device
    small = min(slots, experts + slots // plan.small.block_t)
    # An expert with large tiles has more than most_small slots.
    large = min(experts, slots // (plan.most_small + 1)) + slots // plan.large.block_t if slots > plan.most_small else 0
    orders = sorted({plan.small.pairs, plan.large.pairs} if large else {plan.small.pairs}, reverse=True)
    order = torch.empty(slots, dtype=torch.int32, device=device)
    table = torch.empty(small + large, 3, dtype=torch.int32, device=device)
    used = torch.empty(2, dtype=torch.int32, device=device)
    turns = None
    if plan.small.in_turns or plan.large.in_turns:
        turns = torch.empty(2 + small + large, dtype=torch.int32, device=device)
    stored = torch.empty(len(orders), tokens, columns, dtype=torch.bfloat16, device=device)
    block = min(columns & -columns, PREPARE_BLOCK)
    words_prepare_kernel[(experts + tokens * (columns // block),)](
        operands.ids, slots, experts, order, table, used, small, turns, 2 + small + large,
        operands.x, operands.x.stride(0), stored, tokens,
        K=columns, QUADS=quads(columns), PAIRS=orders[0], OTHER_PAIRS=orders[-1], BLOCK_K=block,
        EXPERTS=max(2, triton.next_power_of_2(experts)),
        CHUNK=min(PREPARE_CHUNK, max(16, triton.next_power_of_2(slots))),
        SMALL=plan.small.block_t, LARGE=plan.large.block_t, MOST_SMALL=plan.most_small, OVERLAP=overlap,
        **overlap_option(operands.x, overlap),
    )  # fmt: skip
    steps = []
    # Large tiles first: where there are only those, programs of small ones have nothing to do and fit into their tail.
    for number, kind, first, count in ((1, plan.large, small, large), (0, plan.small, 0, small)):
        if count:
            # Each kind has its own.
            taken = turns[number + first :] if turns is not None and kind.in_turns else None
            tiles = _Tiles(order=order, count=count, table=table, used=used[number:], first=first, turns=taken)
            steps.append((tiles, kind, stored[orders.index(kind.pairs)]))
    return steps
