"""Arguments of the operations on MXFP4 experts: their checks, how they reach a kernel, and the tiles for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from harness.device.targets import Target
from harness.launch.current import current_target
from kernels._fp4 import GROUP
from kernels._moe_routing import group_by_expert
from kernels._validate import (
    require_dtype,
    require_multiple,
    require_rank,
    require_same_device,
    require_shape,
    require_stride,
)

# Slots among which the slot path looks for companions of one expert.
_MAX_WINDOW = 1024
_FLOAT32_MAX = torch.finfo(torch.float32).max
# Tensors of the virtual GPU are the CPU's: its default target.
_VIRTUAL_TARGET = "sm_120"


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Launch configuration of both matrix multiplies.

    ``block_n``: rows a program of each half of w13; ``down_block_n``: rows a program of w2; ``block_t``: slots a
    program; ``block_k``: columns a step.  All but ``block_t`` are upper bounds: the largest power of two below that
    divides the weights is taken.
    """

    block_n: int
    down_block_n: int
    block_t: int
    block_k: int
    num_warps: int
    num_stages: int


# What takes these: fp16 hidden states, float32 scales, weights whose rows are not aligned, and AMD targets, where LLVM
# needs 10 s and more for larger tiles.  Shared memory is below 101,376 bytes (sm_120 has no more) and nothing spills.
_BFLOAT16 = Tile(block_n=32, down_block_n=32, block_t=16, block_k=64, num_warps=4, num_stages=2)
_FLOAT32_SLOT = Tile(block_n=32, down_block_n=64, block_t=8, block_k=64, num_warps=4, num_stages=2)
_FLOAT32_GROUPED = Tile(block_n=32, down_block_n=32, block_t=32, block_k=32, num_warps=4, num_stages=2)
_FLOAT32_AMD = Tile(block_n=32, down_block_n=32, block_t=16, block_k=32, num_warps=4, num_stages=2)


def _choose_tile(*, target: Target, grouped: bool, float32_operands: bool) -> Tile:
    if not float32_operands:
        return _BFLOAT16
    if target.vendor != "cuda":
        return _FLOAT32_AMD
    return _FLOAT32_GROUPED if grouped else _FLOAT32_SLOT


def _block(size: int, limit: int) -> int:
    # The largest power of two that divides size, at most limit; at least GROUP, because size is a multiple of it.
    return min(size & -size, limit)


def validate(
    hidden_states: torch.Tensor,
    w13_packed: torch.Tensor,
    w13_scale: torch.Tensor,
    w2_packed: torch.Tensor,
    w2_scale: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor,
) -> None:
    """Raise TypeError (dtype) or ValueError (rank, shape, stride, device) naming the argument that is wrong."""
    scales = (torch.uint8, torch.float8_e8m0fnu, torch.float32)
    require_dtype("hidden_states", hidden_states, torch.bfloat16, torch.float16)
    require_dtype("w13_packed", w13_packed, torch.uint8)
    require_dtype("w13_scale", w13_scale, *scales)
    require_dtype("w2_packed", w2_packed, torch.uint8)
    require_dtype("w2_scale", w2_scale, *scales)
    require_dtype("topk_ids", topk_ids, torch.int32, torch.int64)
    require_dtype("topk_weights", topk_weights, torch.float32)

    require_rank("hidden_states", hidden_states, 2, "[M, K]")
    require_rank("w13_packed", w13_packed, 3, "[E, 2I, K/2]")
    tokens, hidden = hidden_states.shape
    experts, gate_up, _ = w13_packed.shape
    require_multiple("hidden_states", "K", hidden, GROUP)
    inter = gate_up // 2
    require_multiple("w13_packed", "I", inter, GROUP)
    require_shape("w13_packed", w13_packed, (experts, 2 * inter, hidden // 2), "[E, 2I, K/2]")
    require_shape("w13_scale", w13_scale, (experts, 2 * inter, hidden // GROUP), "[E, 2I, K/32]")
    require_shape("w2_packed", w2_packed, (experts, hidden, inter // 2), "[E, K, I/2]")
    require_shape("w2_scale", w2_scale, (experts, hidden, inter // GROUP), "[E, K, I/32]")
    require_shape("topk_ids", topk_ids, (tokens, None), "[M, topk]")
    require_shape("topk_weights", topk_weights, topk_ids.shape, "[M, topk]")

    # A copy of the weights in every call would be worse than an error.
    weights = {"w13_packed": w13_packed, "w13_scale": w13_scale, "w2_packed": w2_packed, "w2_scale": w2_scale}
    for name, tensor in weights.items():
        require_stride(name, tensor, 2, 1)
    require_same_device({"hidden_states": hidden_states, **weights, "topk_ids": topk_ids, "topk_weights": topk_weights})


def float32(value: float) -> float:
    """Return ``value`` as a kernel can take it: a Python float beyond float32 cannot be an argument, infinity can."""
    return max(-_FLOAT32_MAX, min(value, _FLOAT32_MAX)) if abs(value) != float("inf") else value


@dataclass(frozen=True, kw_only=True)
class Forward:
    """What the kernels of one forward of at least one slot take, but for the weights.

    ``route``: the first four arguments of a kernel that asks ``group_slots``, and ``groups`` how many groups there are.
    ``act`` ``[S, I]`` and ``partial`` ``[S, K]`` are not written yet.  ``gate_up`` and ``down``: BLOCK_N and BLOCK_K of
    the two matrix multiplies; ``shared``: the constants and options of both.
    """

    x: torch.Tensor
    ids: torch.Tensor
    weights: torch.Tensor
    w13_scale: torch.Tensor
    w2_scale: torch.Tensor
    route: tuple[Any, ...]
    groups: int
    act: torch.Tensor
    partial: torch.Tensor
    gate_up: dict[str, int]
    down: dict[str, int]
    shared: dict[str, Any]


def prepare(
    hidden_states: torch.Tensor,
    w13_packed: torch.Tensor,
    w13_scale: torch.Tensor,
    w2_scale: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor,
    *,
    grouped: bool,
) -> Forward:
    """Return what the kernels of one forward take; the arguments are valid, and ``grouped`` sorts slots by expert.

    Depends on shapes and dtypes alone and waits for nothing, so it can be captured.
    """
    hidden = hidden_states.shape[1]
    experts, inter = w13_packed.shape[0], w13_packed.shape[1] // 2
    num_slots = topk_ids.numel()
    # Only the row stride is an argument of the kernel.
    x = hidden_states if hidden_states.stride(1) == 1 else hidden_states.contiguous()
    ids, weights = topk_ids.contiguous(), topk_weights.contiguous()

    # bfloat16 holds the dequantised weights exactly, but not fp16 activations and not a float32 scale.
    float_scales = torch.float32 in (w13_scale.dtype, w2_scale.dtype)
    float32_operands = float_scales or hidden_states.dtype == torch.float16
    target = current_target(hidden_states.device, _VIRTUAL_TARGET)
    tile = _choose_tile(
        target=target,
        grouped=grouped,
        float32_operands=float32_operands,
    )
    # fp16 values and E2M1 * 2^e both fit a tf32 operand exactly; AMD targets before and after gfx942 have no tf32.
    tf32 = float32_operands and not float_scales and target.vendor == "cuda"
    if grouped:
        order, tiles = group_by_expert(ids.view(-1), experts, tile.block_t)
        route, groups, window = (order, tiles, num_slots, experts), tiles.shape[0], 1
    else:
        window = min(_MAX_WINDOW, max(16, triton.next_power_of_2(num_slots)))
        route, groups = (ids, None, num_slots, experts), num_slots
    return Forward(
        x=x,
        ids=ids,
        weights=weights,
        w13_scale=_scale_argument(w13_scale),
        w2_scale=_scale_argument(w2_scale),
        route=route,
        groups=groups,
        act=torch.empty(num_slots, inter, dtype=torch.float32 if float32_operands else torch.bfloat16, device=x.device),
        partial=torch.empty(num_slots, hidden, dtype=torch.float32, device=x.device),
        gate_up={"BLOCK_N": _block(inter, tile.block_n), "BLOCK_K": _block(hidden, tile.block_k)},
        down={"BLOCK_N": _block(hidden, tile.down_block_n), "BLOCK_K": _block(inter, tile.block_k)},
        shared={
            "K": hidden,
            "INTER": inter,
            "OPERAND": tl.float32 if float32_operands else tl.bfloat16,
            "PRECISION": "tf32" if tf32 else "ieee",
            "BLOCK_T": tile.block_t,
            "WINDOW": window,
            "num_warps": tile.num_warps,
            "num_stages": tile.num_stages,
        },
    )


def _scale_argument(scale: torch.Tensor) -> torch.Tensor:
    # Triton has no name for e8m0: its bytes go in as bytes.
    return scale.view(torch.uint8) if scale.dtype == torch.float8_e8m0fnu else scale
