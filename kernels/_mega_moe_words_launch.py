"""The one launch of ``kernels.mega_moe`` on 32-bit words of weights: workspaces, arguments, grid."""

from __future__ import annotations

from typing import Any

import torch
import triton

from harness.launch import Resources, barrier_safe_grid
from harness.launch.current import current_target
from harness.launch.grid_barrier import MAX_POLLS, barrier_launch
from kernels._mega_moe_words_kernel import mega_moe_words_kernel
from kernels._mxfp4_words_launch import (
    COMBINE_BLOCK,
    PREPARE_BLOCK,
    PREPARE_CHUNK,
    VIRTUAL_TARGET,
    Operands,
)
from kernels._mxfp4_words_table import choose_mega, quads

# Blocks are paired into clusters of two where a device has them, so grids are even.
_PAIR = 2
# A token's choices are the columns of one product, and as many times its rows.  With twice as many, operands would not
# fit sm_120's shared memory; such batches are grouped.
_MOST_CHOICES = 64
# Columns of w2 a step, by how many choices are taken together, where the table's make ptxas spill: 16 for sm_120, 64
# for sm_100.
_DOWN_BLOCK_K = {16: 128, 64: 128}
# Tiles of at most so many slots are taken in turns.  Where an SM holds one block, turns cost more than a barrier.
_MOST_IN_TURNS = 16
# By the slots of a tile, registers of a thread with which as many blocks are resident as of each step alone, on sm_90.
_REGISTERS = {16: 168}
# Left alone, ptxas takes 128 for blocks that find no room in shared memory, and spills: with a slot a tile where
# mma.sync multiplies, and with many choices a token.
_REGISTERS_OF_SLOTS, _REGISTERS_OF_MANY = 255, 168
# Up to so many slots all are sorted at once, and no more than those.
_FEW_SLOTS = 128
# Columns that a block moves or sums at once where it has an SM to itself, and tokens of which it moves them.
_ALONE, _TOKENS_ALONE = 2048, 4
# No target compiles a thread with more: what stands for the kernel where there is no device to compile for.
_MOST_REGISTERS = 255


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
    """Write ``out`` bfloat16 ``[M, K]`` by one launch; arguments as for ``run_words`` and ``mega_moe``.

    Batches of more than 64 choices a token are ``grouped`` whatever the argument.
    """
    tokens, columns, inter, experts = operands.sizes
    device, slots, topk = out.device, operands.ids.numel(), operands.ids.shape[1]
    target = current_target(device, VIRTUAL_TARGET)
    grouped = grouped or topk > _MOST_CHOICES
    kind = choose_mega(target, slots, experts, grouped=grouped)
    gate_up, down = kind.gate_up.constants(inter, columns), kind.down.constants(columns, inter)
    order = table = used = partial = turns = None
    options = kind.gate_up.options
    stored = torch.empty(tokens, columns, dtype=torch.bfloat16, device=device)
    down_block_t = kind.block_t
    if grouped:
        count = min(slots, experts + slots // kind.block_t)
        order = torch.empty(slots, dtype=torch.int32, device=device)
        table = torch.empty(count, 3, dtype=torch.int32, device=device)
        used = torch.empty(2, dtype=torch.int32, device=device)
        if kind.block_t <= _MOST_IN_TURNS:
            turns = torch.empty(1 + slots, dtype=torch.int32, device=device)
        if "wgmma" in target.capabilities and kind.block_t in _REGISTERS:
            options = options | {"maxnreg": _REGISTERS[kind.block_t]}
        partial = torch.empty(slots, columns, dtype=torch.float32, device=device)
        widest = count * max(inter // gate_up["BLOCK_N"], columns // down["BLOCK_N"])
        if topk > _MOST_CHOICES:
            options = options | {"maxnreg": _REGISTERS_OF_MANY}
    else:
        if "wgmma" not in target.capabilities:
            options = options | {"maxnreg": _REGISTERS_OF_SLOTS}
        # A row block of every choice of a token together: as many rows as without.
        down_block_t = max(kind.block_t, triton.next_power_of_2(topk))
        down["BLOCK_N"] = min(down["BLOCK_N"], kind.down.block_n // down_block_t)
        down["BLOCK_K"] = min(down["BLOCK_K"], _DOWN_BLOCK_K.get(down_block_t, kind.down.block_k))
        widest = max(slots * (inter // gate_up["BLOCK_N"]), tokens * (columns // down["BLOCK_N"]))
    tokens_moved, moved, summed = 1, PREPARE_BLOCK, COMBINE_BLOCK
    if grouped and turns is None:
        tokens_moved, moved, summed = _TOKENS_ALONE, _ALONE, min(_ALONE, triton.next_power_of_2(columns))
    arguments = (
        operands.ids, operands.weights, slots, tokens, experts,
        order, table, used, turns,
        operands.x, operands.x.stride(0), stored, *operands.w13_arguments,
        torch.empty(slots, inter, dtype=torch.bfloat16, device=device), 0.0 if limit is None else limit,
        *operands.w2_arguments, partial, out, scaling,
    )  # fmt: skip
    constants: dict[str, Any] = dict(
        TOPK=topk, K=columns, INTER=inter, HAS_CLAMP=limit is not None, PTX=ptx,
        DOWN_BLOCK_N=down["BLOCK_N"], DOWN_BLOCK_K=down["BLOCK_K"],
        BLOCK_T=kind.block_t, DOWN_BLOCK_T=down_block_t,
        QUADS=quads(columns), ACT_QUADS=quads(inter), PAIRS=kind.pairs, DENSE=operands.dense,
        EXPERTS=max(2, triton.next_power_of_2(experts)),
        CHUNK=_FEW_SLOTS if slots <= _FEW_SLOTS else PREPARE_CHUNK,
        PREPARE_TOKENS=tokens_moved, PREPARE_BLOCK=min(columns & -columns, moved), COMBINE_BLOCK=summed,
        # The limit of registers of either step.
        **(down | gate_up | options),
    )  # fmt: skip
    with barrier_launch(device, kernel="mega_moe", reserve=reserve) as launch:
        wanted = widest + widest % _PAIR
        if out.is_cuda:
            # Triton keeps what it compiled by device and specialisation, and launches the same object afterwards.
            compiled = mega_moe_words_kernel.warmup(*arguments, launch.words, MAX_POLLS, grid=(1,), **constants)
            # What ptxas found out is known only once the binary is loaded.
            compiled._init_handles()
            tensor_memory = "tensor_memory" in target.capabilities
            resources = Resources(
                num_warps=constants["num_warps"],
                registers=compiled.n_regs,
                shared_dynamic=compiled.metadata.shared,
                tensor_memory_columns=(getattr(compiled.metadata, "tmem_size", None) or 0) if tensor_memory else 0,
            )
        else:
            # The virtual GPU holds a block a unit.
            wanted = min(wanted, launch.num_sms)
            resources = Resources(num_warps=constants["num_warps"], registers=_MOST_REGISTERS)
        if max_blocks is not None:
            wanted = min(wanted, max_blocks)
        grid = barrier_safe_grid(wanted, resources, target, num_sms=launch.num_sms, even=True).grid
        mega_moe_words_kernel[(grid,)](*arguments, launch.words, MAX_POLLS, **constants)
