"""Oracle for ``kernels.moe_scatter``."""

import torch

from reference._formats import MX_GROUP, apply_scale, decode_e2m1_pairs, decode_e4m3, decode_scale


def moe_scatter(
    hidden_states: torch.Tensor, w: torch.Tensor, topk_ids: torch.Tensor, *, w_scale: torch.Tensor | None = None
) -> dict[str, torch.Tensor]:
    """Return ``{"out": [num_tokens, top_k, N]}`` in the dtype of ``hidden_states``.

    ``hidden_states [num_tokens, K]``.  ``w`` is ``[E, N, K]`` floats, or ``float8_e4m3fn`` with one factor a row,
    ``w_scale [E, N]``, or uint8 ``[E, N, K/2]``, two E2M1 codes a byte, the low nibble first, with E8M0 scales ``[E, N,
    K/32]`` (uint8 or ``float8_e8m0fnu``).  ``out[t, j]`` is ``w[topk_ids[t, j]] @ hidden_states[t]``, zero where the id
    is not in ``[0, E)``.  Sums are taken in float32, or in float64 for float64 ``hidden_states``, and rounded once.
    """
    wide = torch.promote_types(hidden_states.dtype, torch.float32)
    out = _zeros(hidden_states, w, topk_ids)
    for expert, tokens, ranks in _routes(w, topk_ids):
        codes, factor = _weights(w[expert], None if w_scale is None else w_scale[expert])
        product = hidden_states[tokens].to(wide) @ codes.to(wide).T * factor.to(wide)
        out[tokens, ranks] = product.to(out.dtype)
    return {"out": out}


def moe_scatter_magnitude(
    hidden_states: torch.Tensor, w: torch.Tensor, topk_ids: torch.Tensor, *, w_scale: torch.Tensor | None = None
) -> dict[str, torch.Tensor]:
    """Return ``{"out": [num_tokens, top_k, N]}`` float64, the sums of absolute terms; arguments as ``moe_scatter``."""
    hidden = hidden_states.double().abs()
    out = _zeros(hidden, w, topk_ids)
    for expert, tokens, ranks in _routes(w, topk_ids):
        codes, factor = _weights(w[expert], None if w_scale is None else w_scale[expert])
        out[tokens, ranks] = hidden[tokens] @ codes.double().abs().T * factor.double().abs()
    return {"out": out}


def _zeros(hidden_states: torch.Tensor, w: torch.Tensor, topk_ids: torch.Tensor) -> torch.Tensor:
    return torch.zeros(*topk_ids.shape, w.shape[1], dtype=hidden_states.dtype, device=hidden_states.device)


def _routes(w: torch.Tensor, topk_ids: torch.Tensor) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
    """Return, for each expert that some slot has, its number and the tokens and ranks of those slots."""
    routes = []
    for expert in range(w.shape[0]):
        tokens, ranks = (topk_ids == expert).nonzero(as_tuple=True)
        if len(tokens):
            routes.append((expert, tokens, ranks))
    return routes


def _weights(w: torch.Tensor, scale: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return one expert's weights ``[N, K]`` and the factor, ``[N]`` or a scalar, that its sums are multiplied with."""
    one = torch.ones((), dtype=torch.float64, device=w.device)
    if scale is None:
        return w, one
    if w.dtype == torch.uint8:
        return apply_scale(decode_e2m1_pairs(w), decode_scale(scale), MX_GROUP), one
    return decode_e4m3(w), scale
