"""Mixture of experts with MXFP4 weights: ``mxfp4_moe`` and its two forced paths."""

from __future__ import annotations

from typing import Literal

import torch
import triton

from harness import Compiles, implements
from kernels._mxfp4_arguments import float32, prepare, validate
from kernels._mxfp4_moe_kernels import mxfp4_combine_kernel, mxfp4_down_kernel, mxfp4_gate_up_kernel
from kernels._validate import require_choice, require_number

#: Largest batch for which ``path="auto"`` takes the slot path.  By shape alone: the same under graph capture.
SLOT_MAX_TOKENS = 128

_COMBINE_BLOCK = 1024


# Tables that no workload of the contract reaches: fp16 activations and float32 scales, both paths.
_OTHER_OPERANDS = Compiles(
    cases=tuple(
        f"Case(routing=Routing(num_tokens={tokens}, num_experts=256, rows=((0, 37, 74, 111, 148, 185),)), "
        f"hidden_size=4096, intermediate_size=2048, {operand})"
        for tokens in (16, 512)
        for operand in ("dtype=torch.float16", 'scale_type="float32"')
    )
)


@implements("mxfp4_moe", name="auto", compiles=_OTHER_OPERANDS)
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
    validate(hidden_states, w13_packed, w13_scale, w2_packed, w2_scale, topk_ids, topk_weights)
    scaling = float32(require_number("routed_scaling_factor", routed_scaling_factor))
    limit = None if clamp_limit is None else float32(require_number("clamp_limit", clamp_limit, positive=True))

    tokens, hidden = hidden_states.shape
    experts, inter, topk = w13_packed.shape[0], w13_packed.shape[1] // 2, topk_ids.shape[1]
    if topk_ids.numel() == 0 or experts == 0:
        return torch.zeros(tokens, hidden, dtype=hidden_states.dtype, device=hidden_states.device)

    grouped = path == "grouped" or (path == "auto" and tokens > SLOT_MAX_TOKENS)
    # Triton launches on the current device, which need not be the tensors'.
    with torch.cuda.device_of(hidden_states):
        forward = prepare(hidden_states, w13_packed, w13_scale, w2_scale, topk_ids, topk_weights, grouped=grouped)
        out = torch.empty(tokens, hidden, dtype=hidden_states.dtype, device=hidden_states.device)
        mxfp4_gate_up_kernel[forward.groups, inter // forward.gate_up["BLOCK_N"]](
            *forward.route,
            forward.x, forward.x.stride(0),
            w13_packed, w13_packed.stride(0), w13_packed.stride(1),
            forward.w13_scale, forward.w13_scale.stride(0), forward.w13_scale.stride(1),
            forward.act, 0.0 if limit is None else limit,
            TOPK=topk, HAS_CLAMP=limit is not None, **forward.gate_up, **forward.shared,
        )  # fmt: skip
        mxfp4_down_kernel[forward.groups, hidden // forward.down["BLOCK_N"]](
            *forward.route,
            forward.act,
            w2_packed, w2_packed.stride(0), w2_packed.stride(1),
            forward.w2_scale, forward.w2_scale.stride(0), forward.w2_scale.stride(1),
            forward.partial, **forward.down, **forward.shared,
        )  # fmt: skip
        mxfp4_combine_kernel[tokens, triton.cdiv(hidden, _COMBINE_BLOCK)](
            forward.partial, forward.ids, forward.weights, out, experts, scaling,
            TOPK=topk, K=hidden, BLOCK_K=_COMBINE_BLOCK,
        )  # fmt: skip
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
