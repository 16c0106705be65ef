"""Mixture of experts with MXFP4 weights: ``mxfp4_moe`` and its two forced paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import triton
import triton.language as tl

from harness import implements
from kernels._fp4 import GROUP
from kernels._moe_routing import group_by_expert
from kernels._mxfp4_moe_kernels import mxfp4_combine_kernel, mxfp4_down_kernel, mxfp4_gate_up_kernel
from kernels._validate import (
    require_choice,
    require_dtype,
    require_multiple,
    require_number,
    require_rank,
    require_same_device,
    require_shape,
    require_stride,
)

#: Largest batch for which ``path="auto"`` takes the slot path.  By shape alone: the same under graph capture.
SLOT_MAX_TOKENS = 128

# Slots among which the slot path looks for companions of one expert.
_MAX_WINDOW = 1024
_COMBINE_BLOCK = 1024
_FLOAT32_MAX = torch.finfo(torch.float32).max
# fp16 values and E2M1 * 2^e both fit a tf32 operand exactly; AMD targets before and after gfx942 have no tf32.
_EXACT_TENSOR_CORE = "ieee" if torch.version.hip else "tf32"


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


# Shared memory of every entry is below 101,376 bytes on every target (sm_120 has no more).  bfloat16 entries: the
# fastest of a sweep on an H200 (256 experts, K = 4096, I = 2048, 6 experts a token) that spill on no target.
_SLOT = Tile(block_n=64, down_block_n=128, block_t=8, block_k=128, num_warps=4, num_stages=3)
_SLOT_FLOAT32 = Tile(block_n=32, down_block_n=64, block_t=8, block_k=64, num_warps=4, num_stages=2)
# (mean slots an expert up to which the entry serves, configuration)
_GROUPED = (
    (8, Tile(block_n=64, down_block_n=128, block_t=16, block_k=128, num_warps=4, num_stages=3)),
    (64, Tile(block_n=64, down_block_n=128, block_t=64, block_k=64, num_warps=4, num_stages=3)),
    (None, Tile(block_n=64, down_block_n=64, block_t=128, block_k=64, num_warps=4, num_stages=3)),
)
_GROUPED_FLOAT32 = ((None, Tile(block_n=32, down_block_n=64, block_t=32, block_k=32, num_warps=4, num_stages=2)),)


def _choose_tile(*, grouped: bool, float32_operands: bool, num_slots: int, num_experts: int) -> Tile:
    if not grouped:
        return _SLOT_FLOAT32 if float32_operands else _SLOT
    mean = num_slots / num_experts
    table = _GROUPED_FLOAT32 if float32_operands else _GROUPED
    return next(tile for limit, tile in table if limit is None or mean <= limit)


def _block(size: int, limit: int) -> int:
    # The largest power of two that divides size, at most limit; at least GROUP, because size is a multiple of it.
    return min(size & -size, limit)


def _validate(
    hidden_states: torch.Tensor,
    w13_packed: torch.Tensor,
    w13_scale: torch.Tensor,
    w2_packed: torch.Tensor,
    w2_scale: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor,
) -> None:
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
    require_rank("topk_ids", topk_ids, 2, "[M, topk]")
    tokens, hidden = hidden_states.shape
    experts, gate_up, _ = w13_packed.shape
    require_multiple("hidden_states", "K", hidden, GROUP)
    if gate_up % 2:
        raise ValueError(f"w13_packed: wanted 2I rows (gate, then up), got {gate_up}")
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


def _scale_argument(scale: torch.Tensor) -> torch.Tensor:
    # Triton has no name for e8m0: its bytes go in as bytes.
    return scale.view(torch.uint8) if scale.dtype == torch.float8_e8m0fnu else scale


def _float32(value: float) -> float:
    # A Python float beyond float32 cannot be a kernel argument; infinity can.
    return max(-_FLOAT32_MAX, min(value, _FLOAT32_MAX)) if abs(value) != float("inf") else value


@implements("mxfp4_moe", name="auto")
def mxfp4_moe(
    hidden_states: torch.Tensor,
    w13_packed: torch.Tensor,
    w13_scale: torch.Tensor,
    w2_packed: torch.Tensor,
    w2_scale: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor,
    *,
    routed_scaling_factor: float = 1.0,
    clamp_limit: float | None = None,
    path: Literal["auto", "slot", "grouped"] = "auto",
) -> torch.Tensor:
    """Return ``[M, K]`` in ``hidden_states``' dtype: the weighted sum of each token's experts.

    out[m] = routed_scaling_factor * sum_j topk_weights[m, j] * W2_e(silu(gate) * up), e = topk_ids[m, j].  With
    ``clamp_limit`` c > 0, gate becomes min(gate, c) and up is clamped to [-c, c]; NaN passes.  An id below 0 or >= E
    is skipped: nothing of that slot is read, a token without valid ids gives zeros.  Deterministic; a row's bits do not
    depend on the content or the order of the other rows.  The intermediate has the dtype's precision (bfloat16, or
    float32 rounded to fp16's 11 bits; with float32 scales it is float32), everything else is summed in float32 and
    rounded once.

    hidden_states ``[M, K]`` bfloat16 or float16, any strides.  w13_packed ``[E, 2I, K/2]`` and w2_packed
    ``[E, K, I/2]`` uint8, two E2M1 codes a byte, low nibble first; gate rows first.  w13_scale ``[E, 2I, K/32]`` and
    w2_scale ``[E, K, I/32]``: E8M0 exponents (uint8 or float8_e8m0fnu, 255 is NaN) or float32 factors; all with stride
    1 in the last dimension.  topk_ids ``[M, topk]`` int32 or int64, topk_weights ``[M, topk]`` float32.  K and I are
    multiples of 32.

    ``path``: "slot" (decode: one program a slot and row block), "grouped" (prefill: slots sorted by expert), or "auto",
    slot up to ``SLOT_MAX_TOKENS`` tokens.  All of them can be captured in a graph.  Workspace: at most
    4 * M * topk * (I + K) bytes.

    Raises TypeError (dtype) or ValueError (rank, shape, stride, device, value) naming the argument, before any launch.
    """
    require_choice("path", path, ("auto", "slot", "grouped"))
    _validate(hidden_states, w13_packed, w13_scale, w2_packed, w2_scale, topk_ids, topk_weights)
    scaling = _float32(require_number("routed_scaling_factor", routed_scaling_factor))
    limit = None if clamp_limit is None else _float32(require_number("clamp_limit", clamp_limit, positive=True))

    tokens, hidden = hidden_states.shape
    experts, inter, topk = w13_packed.shape[0], w13_packed.shape[1] // 2, topk_ids.shape[1]
    num_slots = tokens * topk
    if num_slots == 0 or experts == 0:
        return torch.zeros(tokens, hidden, dtype=hidden_states.dtype, device=hidden_states.device)

    # Only the row stride is an argument of the kernel.
    x = hidden_states if hidden_states.stride(1) == 1 else hidden_states.contiguous()
    ids, weights = topk_ids.contiguous(), topk_weights.contiguous()
    w13_scale, w2_scale = _scale_argument(w13_scale), _scale_argument(w2_scale)

    # bfloat16 holds the dequantised weights exactly, but not fp16 activations and not a float32 scale.
    float_scales = torch.float32 in (w13_scale.dtype, w2_scale.dtype)
    float32_operands = float_scales or hidden_states.dtype == torch.float16
    operands = {
        "OPERAND": tl.float32 if float32_operands else tl.bfloat16,
        "PRECISION": _EXACT_TENSOR_CORE if float32_operands and not float_scales else "ieee",
    }
    grouped = path == "grouped" or (path == "auto" and tokens > SLOT_MAX_TOKENS)
    tile = _choose_tile(grouped=grouped, float32_operands=float32_operands, num_slots=num_slots, num_experts=experts)
    shape = {"BLOCK_T": tile.block_t, "num_warps": tile.num_warps, "num_stages": tile.num_stages}

    act = torch.empty(num_slots, inter, dtype=torch.float32 if float32_operands else torch.bfloat16, device=x.device)
    partial = torch.empty(num_slots, hidden, dtype=torch.float32, device=x.device)
    out = torch.empty(tokens, hidden, dtype=hidden_states.dtype, device=x.device)
    # Triton launches on the current device, which need not be the tensors'.
    with torch.cuda.device_of(x):
        if grouped:
            order, tiles = group_by_expert(ids.view(-1), experts, tile.block_t)
            route, groups, window = (order, tiles, num_slots, experts), tiles.shape[0], 1
        else:
            window = min(_MAX_WINDOW, max(16, triton.next_power_of_2(num_slots)))
            route, groups = (ids, None, num_slots, experts), num_slots
        block_n = _block(inter, tile.block_n)
        mxfp4_gate_up_kernel[groups, inter // block_n](
            *route,
            x, x.stride(0),
            w13_packed, w13_packed.stride(0), w13_packed.stride(1),
            w13_scale, w13_scale.stride(0), w13_scale.stride(1),
            act, 0.0 if limit is None else limit,
            TOPK=topk, K=hidden, INTER=inter, HAS_CLAMP=limit is not None,
            BLOCK_N=block_n, BLOCK_K=_block(hidden, tile.block_k), WINDOW=window, **operands, **shape,
        )  # fmt: skip
        block_k = _block(inter, tile.block_k)
        # Triton 3.7 and 3.8 find no layout for 128 rows of 32 columns on sm_100's tensor core.
        block_n = _block(hidden, tile.down_block_n if block_k > GROUP else tile.block_n)
        mxfp4_down_kernel[groups, hidden // block_n](
            *route,
            act,
            w2_packed, w2_packed.stride(0), w2_packed.stride(1),
            w2_scale, w2_scale.stride(0), w2_scale.stride(1),
            partial,
            K=hidden, INTER=inter,
            BLOCK_N=block_n, BLOCK_K=block_k, WINDOW=window, **operands, **shape,
        )  # fmt: skip
        mxfp4_combine_kernel[tokens, triton.cdiv(hidden, _COMBINE_BLOCK)](
            partial, ids, weights, out, experts, scaling, TOPK=topk, K=hidden, BLOCK_K=_COMBINE_BLOCK
        )
    return out


@implements("mxfp4_moe", name="slot")
def mxfp4_moe_slot(
    hidden_states: torch.Tensor,
    w13_packed: torch.Tensor,
    w13_scale: torch.Tensor,
    w2_packed: torch.Tensor,
    w2_scale: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor,
    *,
    routed_scaling_factor: float = 1.0,
    clamp_limit: float | None = None,
) -> torch.Tensor:
    """``mxfp4_moe`` with ``path="slot"``."""
    return mxfp4_moe(
        hidden_states, w13_packed, w13_scale, w2_packed, w2_scale, topk_ids, topk_weights,
        routed_scaling_factor=routed_scaling_factor, clamp_limit=clamp_limit, path="slot",
    )  # fmt: skip


@implements("mxfp4_moe", name="grouped")
def mxfp4_moe_grouped(
    hidden_states: torch.Tensor,
    w13_packed: torch.Tensor,
    w13_scale: torch.Tensor,
    w2_packed: torch.Tensor,
    w2_scale: torch.Tensor,
    topk_ids: torch.Tensor,
    topk_weights: torch.Tensor,
    *,
    routed_scaling_factor: float = 1.0,
    clamp_limit: float | None = None,
) -> torch.Tensor:
    """``mxfp4_moe`` with ``path="grouped"``."""
    return mxfp4_moe(
        hidden_states, w13_packed, w13_scale, w2_packed, w2_scale, topk_ids, topk_weights,
        routed_scaling_factor=routed_scaling_factor, clamp_limit=clamp_limit, path="grouped",
    )  # fmt: skip
