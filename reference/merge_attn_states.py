"""Oracle for ``kernels.merge_attn_states``."""

import math

import torch


def merge_attn_states(outs: torch.Tensor, lses: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return ``{"out": [num_rows, head_dim], "lse": [num_rows]}``: attention over the union of all parts.

    ``outs [num_parts, num_rows, head_dim]`` are softmax averages over disjoint sets of tokens, ``lses
    [num_parts, num_rows]`` the natural log-sum-exp of each set's scores.  A part whose lse is -inf is empty and
    contributes nothing, whatever its row of ``outs`` holds; a row of empty parts gives zeros and -inf.  ``out`` has
    the dtype of ``outs``, rounded once, and ``lse`` the dtype of ``lses``.
    """
    wide = torch.promote_types(outs.dtype, torch.float32)
    weights = _weights(lses.to(wide))
    total = torch.zeros_like(weights[0])
    out = torch.zeros_like(outs[0], dtype=wide)
    for part, weight in enumerate(weights):
        term = weight[:, None] * outs[part].to(wide)
        out += term.masked_fill((lses[part] == -math.inf)[:, None], 0)
        total += weight
    lse = lses.to(wide).amax(dim=0) + torch.log(total)
    empty = (lses == -math.inf).all(dim=0)
    out = (out / total[:, None]).masked_fill(empty[:, None], 0)
    return {"out": out.to(outs.dtype), "lse": lse.to(lses.dtype)}


def merge_attn_states_magnitude(outs: torch.Tensor, lses: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return float64 magnitudes of ``out`` and ``lse``; arguments as for ``merge_attn_states``.

    An lse is as uncertain as its inputs are large, and never less than a sum of exponentials near 1 makes it; that
    uncertainty is a relative error of the weights, so each absolute term of ``out`` carries it.
    """
    lses = lses.double()
    weights = _weights(lses)
    sizes = lses.abs().masked_fill(lses == -math.inf, 0)
    uncertainty = 1 + sizes + sizes.amax(dim=0)
    terms = (weights * uncertainty)[:, :, None] * outs.double().abs()
    out = terms.masked_fill((lses == -math.inf)[:, :, None], 0).sum(dim=0)
    total = weights.sum(dim=0).clamp(min=1)
    return {"out": out / total[:, None], "lse": (sizes.amax(dim=0) + torch.log(total)).clamp(min=1)}


def _weights(lses: torch.Tensor) -> torch.Tensor:
    return torch.exp(lses - lses.amax(dim=0)).masked_fill(lses == -math.inf, 0)
