"""Mixture of experts with MXFP4 weights: ``mxfp4_moe`` and its two forced paths."""

from __future__ import annotations

from typing import Literal

import torch
import triton

from harness import Capturable, Compiles, Interleavings, implements
from kernels._mxfp4_arguments import Forward, float32, prepare, validate
from kernels._mxfp4_moe_kernels import mxfp4_combine_kernel, mxfp4_down_kernel, mxfp4_gate_up_kernel
from kernels._mxfp4_words_launch import run_words, words_operands
from kernels._validate import require_choice, require_number

#: Largest batch for which ``path="auto"`` takes the slot path.  By shape alone: the same under graph capture.
SLOT_MAX_TOKENS = 2

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


# Whole tiles of every entry of the tables, one slot beyond each switch, and an expert that fills a large tile.
_SLOT, *_GROUPED = (
    f"Case(routing=Routing(num_tokens={tokens}, num_experts={experts}, rows=((0, 1, 2), (2, 3, 0), (0, 1, -1))), "
    f"hidden_size=1024, intermediate_size={256 if tokens > SLOT_MAX_TOKENS else 2048}, {operands})"
    for tokens, experts, operands in (
        (SLOT_MAX_TOKENS, 4, "clamp_limit=10.0"),
        (SLOT_MAX_TOKENS + 1, 4, "clamp_limit=10.0"),
        (11, 16, "clamp_limit=10.0"),
        (40, 16, "clamp_limit=10.0"),
        (11, 4, "clamp_limit=10.0"),
        (43, 4, "clamp_limit=10.0"),
    )
)
# The kernels that take bytes of weights.
_SLOT_BYTES, *_GROUPED_BYTES = (
    f"Case(routing=Routing(num_tokens={tokens}, num_experts=4, rows=((0, 1), (2, 3), (3, 0), (1, -1))), "
    f"hidden_size=64, intermediate_size=64, {operand})"
    for tokens, operand in (
        (SLOT_MAX_TOKENS, "dtype=torch.float16"),
        (SLOT_MAX_TOKENS + 1, "dtype=torch.float16"),
        (SLOT_MAX_TOKENS + 1, 'scale_type="float32"'),
    )
)
_SLOT_GRAPHS = Capturable(cases=(_SLOT, _SLOT_BYTES))
_GROUPED_GRAPHS = Capturable(cases=(*_GROUPED, *_GROUPED_BYTES))
_GRAPHS = Capturable(cases=(*_SLOT_GRAPHS.cases, *_GROUPED_GRAPHS.cases))

# A block that takes turns waits for others: without the wait most orders of the blocks still give the right values.
_TURNS = Interleavings(seeds=1, everywhere=True)


@implements("mxfp4_moe", name="auto", compiles=_OTHER_OPERANDS, capturable=_GRAPHS, interleavings=_TURNS)
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
    ``clamp_limit`` c > 0, gate becomes min(gate, c) and up is clamped to [-c, c]; NaN passes.  An id below 0 or >= E is
    skipped: nothing of that slot is read, a token without valid ids gives zeros.  Deterministic; a row's bits depend on
    the other rows only in their number and in whether more than 32 slots of the batch share an expert with it.  The
    intermediate has the dtype's precision (bfloat16, or float32 rounded to fp16's 11 bits; with float32 scales it is
    float32), everything else is summed in float32 and rounded once.

    hidden_states ``[M, K]`` bfloat16 or float16, any strides.  w13_packed ``[E, 2I, K/2]`` and w2_packed
    ``[E, K, I/2]`` uint8, two E2M1 codes a byte, low nibble first; gate rows first.  w13_scale ``[E, 2I, K/32]`` and
    w2_scale ``[E, K, I/32]``: E8M0 exponents (uint8 or float8_e8m0fnu, 255 is NaN) or float32 factors; all with stride
    1 in the last dimension.  topk_ids ``[M, topk]`` int32 or int64, topk_weights ``[M, topk]`` float32.  K and I are
    multiples of 32.

    ``path``: "slot" (decode: one program a slot and row block), "grouped" (prefill: slots sorted by expert), or "auto",
    slot up to ``SLOT_MAX_TOKENS`` tokens.  All of them can be captured in a graph.  Workspace: at most
    4 * M * topk * (I + K) + 6 * M * K bytes, and 32 bytes a slot.

    Raises TypeError (dtype) or ValueError (rank, shape, stride, device, value) naming the argument, before any launch.
    """
    require_choice("path", path, ("auto", "slot", "grouped"))
    validate(hidden_states, w13_packed, w13_scale, w2_packed, w2_scale, topk_ids, topk_weights)
    scaling = float32(require_number("routed_scaling_factor", routed_scaling_factor))
    limit = None if clamp_limit is None else float32(require_number("clamp_limit", clamp_limit, positive=True))

    tokens, hidden = hidden_states.shape
    if topk_ids.numel() == 0 or w13_packed.shape[0] == 0:
        return torch.zeros(tokens, hidden, dtype=hidden_states.dtype, device=hidden_states.device)

    grouped = path == "grouped" or (path == "auto" and tokens > SLOT_MAX_TOKENS)
    # Triton launches on the current device, which need not be the tensors'.
    with torch.cuda.device_of(hidden_states):
        out = torch.empty(tokens, hidden, dtype=hidden_states.dtype, device=hidden_states.device)
        words = words_operands(hidden_states, w13_packed, w13_scale, w2_packed, w2_scale, topk_ids, topk_weights)
        if words is not None:
            run_words(words, out, grouped=grouped, scaling=scaling, limit=limit)
        else:
            forward = prepare(hidden_states, w13_packed, w13_scale, w2_scale, topk_ids, topk_weights, grouped=grouped)
            _run_bytes(forward, w13_packed, w2_packed, out, scaling, limit)
    return out


def _run_bytes(
    forward: Forward, w13: torch.Tensor, w2: torch.Tensor, out: torch.Tensor, scaling: float, limit: float | None
) -> None:
    (tokens, hidden), (experts, gate_up, _), topk = out.shape, w13.shape, forward.ids.shape[1]
    mxfp4_gate_up_kernel[forward.groups, gate_up // 2 // forward.gate_up["BLOCK_N"]](
        *forward.route,
        forward.x, forward.x.stride(0),
        w13, w13.stride(0), w13.stride(1),
        forward.w13_scale, forward.w13_scale.stride(0), forward.w13_scale.stride(1),
        forward.act, 0.0 if limit is None else limit,
        TOPK=topk, HAS_CLAMP=limit is not None, **forward.gate_up, **forward.shared,
    )  # fmt: skip
    mxfp4_down_kernel[forward.groups, hidden // forward.down["BLOCK_N"]](
        *forward.route,
        forward.act,
        w2, w2.stride(0), w2.stride(1),
        forward.w2_scale, forward.w2_scale.stride(0), forward.w2_scale.stride(1),
        forward.partial, **forward.down, **forward.shared,
    )  # fmt: skip
    mxfp4_combine_kernel[tokens, triton.cdiv(hidden, _COMBINE_BLOCK)](
        forward.partial, forward.ids, forward.weights, out, experts, scaling,
        TOPK=topk, K=hidden, BLOCK_K=_COMBINE_BLOCK,
    )  # fmt: skip


@implements("mxfp4_moe", name="slot", capturable=_SLOT_GRAPHS)
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


@implements("mxfp4_moe", name="grouped", capturable=_GROUPED_GRAPHS, interleavings=_TURNS)
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
