"""Oracle for ``kernels.mega_moe``: the one of ``mxfp4_moe``, which promises the same result."""

import torch

from reference.mxfp4_moe import mxfp4_moe, mxfp4_moe_magnitude


def mega_moe(
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
    max_blocks: int | None = None,
) -> dict[str, torch.Tensor]:
    """Return ``{"out": [num_tokens, hidden_size]}``; arguments as for ``mxfp4_moe``, ``max_blocks`` changes nothing."""
    return mxfp4_moe(
        hidden_states,
        w13_packed,
        w13_scale,
        w2_packed,
        w2_scale,
        topk_ids,
        topk_weights,
        routed_scaling_factor=routed_scaling_factor,
        clamp_limit=clamp_limit,
    )


def mega_moe_magnitude(
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
    max_blocks: int | None = None,
) -> dict[str, torch.Tensor]:
    """Return ``{"out": [num_tokens, hidden_size]}`` float64; arguments as for ``mega_moe``."""
    return mxfp4_moe_magnitude(
        hidden_states,
        w13_packed,
        w13_scale,
        w2_packed,
        w2_scale,
        topk_ids,
        topk_weights,
        routed_scaling_factor=routed_scaling_factor,
        clamp_limit=clamp_limit,
    )
