"""The one launch of ``kernels.mega_moe`` on 32-bit words of weights: workspaces, arguments, grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton

from harness.device.targets import Target
from harness.launch import Resources, barrier_safe_grid
from harness.launch.current import current_target
from harness.launch.grid_barrier import MAX_POLLS, barrier_launch
from kernels._mega_moe_slots_kernel import mega_moe_slots_kernel
from kernels._mega_moe_words_kernel import mega_moe_words_kernel
from kernels._mxfp4_words_launch import (
    COMBINE_BLOCK,
    PREPARE_BLOCK,
    PREPARE_CHUNK,
    VIRTUAL_TARGET,
    Operands,
)
from kernels._mxfp4_words_table import choose_mega, choose_slots, quads

# Blocks are paired into clusters of two where a device has them, so grids are even.
_PAIR = 2
# Tiles of at most so many slots are taken in turns.  Where an SM holds one block, turns cost more than a barrier.
_MOST_IN_TURNS = 16
# By the slots of a tile, registers of a thread with which as many blocks are resident as of each step alone: on sm_90,
# and where mma.sync multiplies; left alone, ptxas takes 96 for sm_86, and spills.
_REGISTERS = {True: {16: 168}, False: {16: 128}}
# Left alone, ptxas takes too few, for blocks that find no room in shared memory, and spills: with a slot a tile, with
# and without wgmma, and with many choices a token.
_REGISTERS_OF_SLOTS, _REGISTERS_OF_MANY = {True: 128, False: 255}, 168
_MANY = 64
# Up to so many slots all are sorted at once, and no more than those; where there are more than the other number, as
# many at a time. Between, so many for each slot of a tile: with more, small tiles spill on sm_90.
_FEW_SLOTS, _MANY_SLOTS, _SLOTS_AT_ONCE = 128, 4096, 64
# Columns that a block moves or sums at once where it has an SM to itself, and tokens of which it moves them.
_ALONE, _TOKENS_ALONE = 2048, 4
# No target compiles a thread with more: what stands for the kernel where there is no device to compile for.
_MOST_REGISTERS = 255


@dataclass(frozen=True, kw_only=True)
class _Launch:
    # ``kernel`` with all arguments but for the barrier's; ``widest``: tiles of the step that has most.
    kernel: Any
    arguments: tuple[Any, ...]
    constants: dict[str, Any]
    widest: int


def run_mega_words(
    operands: Operands,
    out: torch.Tensor,
    *,
    grouped: bool,
    scaling: float,
    limit: float | None,
    max_blocks: int | None,
    reserve: int,
    ptx: bool = True,
) -> None:
    """Write ``out`` bfloat16 ``[M, K]`` by one launch; arguments as for ``run_words`` and ``mega_moe``."""
    target = current_target(out.device, VIRTUAL_TARGET)
    one = (_grouped if grouped else _slots)(operands, out, target, scaling, limit, ptx)
    with barrier_launch(out.device, kernel="mega_moe", reserve=reserve) as launch:
        wanted = one.widest + one.widest % _PAIR
        if out.is_cuda:
            # Triton keeps what it compiled by device and specialisation, and launches the same object afterwards.
            compiled = one.kernel.warmup(*one.arguments, launch.words, MAX_POLLS, grid=(1,), **one.constants)
            # What ptxas found out is known only once the binary is loaded.
            compiled._init_handles()
            tensor_memory = "tensor_memory" in target.capabilities
            resources = Resources(
                num_warps=one.constants["num_warps"],
                registers=compiled.n_regs,
                shared_dynamic=compiled.metadata.shared,
                tensor_memory_columns=(getattr(compiled.metadata, "tmem_size", None) or 0) if tensor_memory else 0,
            )
        else:
            # The virtual GPU holds a block a unit.
            wanted = min(wanted, launch.num_sms)
            resources = Resources(num_warps=one.constants["num_warps"], registers=_MOST_REGISTERS)
        if max_blocks is not None:
            wanted = min(wanted, max_blocks)
        grid = barrier_safe_grid(wanted, resources, target, num_sms=launch.num_sms, even=True).grid
        one.kernel[(grid,)](*one.arguments, launch.words, MAX_POLLS, **one.constants)


def _slots(
    operands: Operands, out: torch.Tensor, target: Target, scaling: float, limit: float | None, ptx: bool
) -> _Launch:
    tokens, columns, inter, experts = operands.sizes
    slots, topk = operands.ids.numel(), operands.ids.shape[1]
    kind = choose_slots(target)
    gate_up, down = kind.gate_up.constants(inter, columns), kind.down.token_constants(columns, inter)
    options = kind.gate_up.options | {"maxnreg": _REGISTERS_OF_SLOTS["wgmma" in target.capabilities]}
    arguments = (
        operands.ids, operands.weights, slots, tokens, experts,
        operands.x, operands.x.stride(0), *operands.w13_arguments,
        torch.empty(slots, inter, dtype=torch.bfloat16, device=out.device), 0.0 if limit is None else limit,
        *operands.w2_arguments, out, scaling,
    )  # fmt: skip
    constants: dict[str, Any] = dict(
        TOPK=topk, CHOICES=triton.next_power_of_2(topk),
        K=columns, INTER=inter, HAS_CLAMP=limit is not None, PTX=ptx,
        DOWN_BLOCK_N=down["BLOCK_N"], DOWN_BLOCK_K=down["BLOCK_K"],
        BLOCK_T=kind.block_t, QUADS=quads(columns), ACT_QUADS=quads(inter), PAIRS=kind.pairs, DENSE=operands.dense,
        # The limit of registers of either step.
        **(down | gate_up | options),
    )  # fmt: skip
    widest = max(slots * (inter // gate_up["BLOCK_N"]), tokens * (columns // down["BLOCK_N"]))
    return _Launch(kernel=mega_moe_slots_kernel, arguments=arguments, constants=constants, widest=widest)


def _chunk(slots: int, block_t: int) -> int:
    """Return how many slots are sorted at a time."""
    if slots <= _FEW_SLOTS:
        return _FEW_SLOTS
    return min(_SLOTS_AT_ONCE * block_t, PREPARE_CHUNK) if slots <= _MANY_SLOTS else _MANY_SLOTS


def _grouped(
    operands: Operands, out: torch.Tensor, target: Target, scaling: float, limit: float | None, ptx: bool
) -> _Launch:
    tokens, columns, inter, experts = operands.sizes
    device, slots, topk = out.device, operands.ids.numel(), operands.ids.shape[1]
    kind = choose_mega(target, slots, experts)
    gate_up, down = kind.gate_up.constants(inter, columns), kind.down.constants(columns, inter)
    count = min(slots, experts + slots // kind.block_t)
    in_turns = kind.block_t <= _MOST_IN_TURNS
    options = kind.gate_up.options
    if (registers := _REGISTERS["wgmma" in target.capabilities].get(kind.block_t)) is not None:
        options = options | {"maxnreg": registers}
    if topk > _MANY:
        options = options | {"maxnreg": _REGISTERS_OF_MANY}
    tokens_moved, moved, summed = 1, PREPARE_BLOCK, COMBINE_BLOCK
    if not in_turns:
        tokens_moved, moved, summed = _TOKENS_ALONE, _ALONE, min(_ALONE, triton.next_power_of_2(columns))
    arguments = (
        operands.ids, operands.weights, slots, tokens, experts,
        torch.empty(slots, dtype=torch.int32, device=device),
        torch.empty(count, 3, dtype=torch.int32, device=device),
        torch.empty(2, dtype=torch.int32, device=device),
        torch.empty(1 + slots, dtype=torch.int32, device=device) if in_turns else None,
        operands.x, operands.x.stride(0), torch.empty(tokens, columns, dtype=torch.bfloat16, device=device),
        *operands.w13_arguments,
        torch.empty(slots, inter, dtype=torch.bfloat16, device=device), 0.0 if limit is None else limit,
        *operands.w2_arguments, torch.empty(slots, columns, dtype=torch.float32, device=device), out, scaling,
    )  # fmt: skip
    constants: dict[str, Any] = dict(
        TOPK=topk, K=columns, INTER=inter, HAS_CLAMP=limit is not None, PTX=ptx,
        DOWN_BLOCK_N=down["BLOCK_N"], DOWN_BLOCK_K=down["BLOCK_K"],
        BLOCK_T=kind.block_t, QUADS=quads(columns), ACT_QUADS=quads(inter), PAIRS=kind.pairs, DENSE=operands.dense,
        EXPERTS=max(2, triton.next_power_of_2(experts)),
        CHUNK=_chunk(slots, kind.block_t),
        PREPARE_TOKENS=tokens_moved, PREPARE_BLOCK=min(columns & -columns, moved), COMBINE_BLOCK=summed,
        # The limit of registers of either step.
        **(down | gate_up | options),
    )  # fmt: skip
    widest = count * max(inter // gate_up["BLOCK_N"], columns // down["BLOCK_N"])
    return _Launch(kernel=mega_moe_words_kernel, arguments=arguments, constants=constants, widest=widest)
