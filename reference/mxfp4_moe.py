"""Oracle for ``kernels.mxfp4_moe``."""

import torch

from reference._formats import MX_GROUP, apply_scale, decode_e2m1_pairs, decode_scale

#: Part of the roundings of intermediates that magnitude counts, in units of a float32 accumulation: of 960,000 rows
#: computed with other subsets of the rounding points, two needed more than 3/8 and none more than this.
ROUNDING_SHARE = 0.5 * 2.0**-9 / 2.0**-23


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
) -> dict[str, torch.Tensor]:
    """Return ``{"out": [num_tokens, hidden_size]}`` in the dtype of ``hidden_states``.

    ``hidden_states [num_tokens, K]``; ``w13_packed [E, 2I, K/2]`` and ``w2_packed [E, K, I/2]`` uint8, two E2M1
    codes a byte, the low nibble first; rows ``[:I]`` of w13 are the gate, ``[I:]`` the up projection.  Scales
    ``[E, 2I, K/32]`` and ``[E, K, I/32]`` are E8M0 (uint8 or ``float8_e8m0fnu``) or a wider float.  A slot whose
    id is not in ``[0, E)`` contributes nothing.  With bf16 or fp16 ``hidden_states`` values are rounded where the
    slot path of sglang 0.5.13 rounds them (both GEMMs, the activation, the weight, each product, the sum, the
    scaled sum); with float64 nowhere.
    """
    num_tokens, hidden_size = hidden_states.shape
    wide = torch.promote_types(hidden_states.dtype, torch.float32)

    def rounded(values: torch.Tensor) -> torch.Tensor:
        return values.to(hidden_states.dtype).to(wide)

    slots = torch.zeros(num_tokens, topk_ids.shape[1], hidden_size, dtype=wide, device=hidden_states.device)
    for expert in range(w13_packed.shape[0]):
        tokens, ranks = (topk_ids == expert).nonzero(as_tuple=True)
        if len(tokens) == 0:
            continue
        w13 = _weights(w13_packed[expert], w13_scale[expert]).to(wide)
        w2 = _weights(w2_packed[expert], w2_scale[expert]).to(wide)
        gate, up = rounded(hidden_states[tokens].to(wide) @ w13.T).chunk(2, dim=-1)
        if clamp_limit is not None:
            # a number past the dtype's range clamps as the largest in it does
            limit = clamp_limit if clamp_limit == torch.inf else min(clamp_limit, torch.finfo(wide).max)
            gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        down = rounded(rounded(_silu(gate) * up) @ w2.T)
        slots[tokens, ranks] = rounded(down * rounded(topk_weights[tokens, ranks].to(wide))[:, None])
    return {"out": (rounded(slots.sum(dim=1)) * routed_scaling_factor).to(hidden_states.dtype)}


def mxfp4_moe_magnitude(
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
) -> dict[str, torch.Tensor]:
    """Return ``{"out": [num_tokens, hidden_size]}`` float64; arguments as for ``mxfp4_moe``.

    First what one unit of relative error in every accumulated term of both GEMMs can add up to: the absolute terms of
    GEMM1, carried through the slopes of silu(gate) * up, then through the absolute terms of GEMM2.  Then, because
    the few largest of an activation's roundings decide the error of a whole row, and one oracle run can draw them all
    small, a share of the root sum of squares of every rounding a kernel may make in bf16.
    """
    hidden = hidden_states.double()
    terms, roundings = torch.zeros_like(hidden), torch.zeros_like(hidden)
    for expert in range(w13_packed.shape[0]):
        tokens, ranks = (topk_ids == expert).nonzero(as_tuple=True)
        if len(tokens) == 0:
            continue
        w13 = _weights(w13_packed[expert], w13_scale[expert])
        w2 = _weights(w2_packed[expert], w2_scale[expert])
        gate, up = (hidden[tokens] @ w13.T).chunk(2, dim=-1)
        gate_terms, up_terms = (hidden[tokens].abs() @ w13.abs().T).chunk(2, dim=-1)
        if clamp_limit is not None:
            gate, up = gate.clamp(max=clamp_limit), up.clamp(-clamp_limit, clamp_limit)
        activated, slope = _silu(gate) * up, _silu_slope(gate) * up
        uncertain = activated.abs() + slope.abs() * gate_terms + _silu(gate).abs() * up_terms
        weight = topk_weights[tokens, ranks].double()[:, None] * routed_scaling_factor
        terms.index_add_(0, tokens, uncertain @ w2.abs().T * weight.abs())
        # gate, up and the activation are rounded before GEMM2, its result and the weight after
        squares = ((slope * gate) ** 2 + 2 * activated**2) @ (w2**2).T + 2 * (activated @ w2.T) ** 2
        roundings.index_add_(0, tokens, squares * weight**2)
    return {"out": terms + ROUNDING_SHARE * roundings.sqrt()}


def _weights(packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return apply_scale(decode_e2m1_pairs(packed), decode_scale(scale), MX_GROUP)


def _silu(x: torch.Tensor) -> torch.Tensor:
    return x / (1 + torch.exp(-x))


def _silu_slope(x: torch.Tensor) -> torch.Tensor:
    sigmoid = 1 / (1 + torch.exp(-x))
    return sigmoid * (1 + x * (1 - sigmoid))
