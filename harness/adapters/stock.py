"""What PyTorch alone offers for the same jobs, by few operators each: something for a kernel to be faster than."""

from __future__ import annotations

import torch
from torch.nn.functional import grouped_mm

from harness.registry import implements

_MX_GROUP = 32
#: The 16 values of E2M1, by code.
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


@implements("merge_attn_states", name="stock-logsumexp")
def merge_attn_states(outs: torch.Tensor, lses: torch.Tensor) -> dict[str, torch.Tensor]:
    """Weight the parts by ``logsumexp`` and sum them; a part without keys may hold NaN and counts as nothing.

    Raises TypeError or ValueError for illegal arguments.
    """
    if outs.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise TypeError(f"outs: wanted bfloat16, float16 or float32, got {outs.dtype}")
    if not isinstance(lses, torch.Tensor) or lses.dtype != torch.float32:
        raise TypeError(f"lses: wanted a float32 tensor, got {getattr(lses, 'dtype', type(lses).__name__)}")
    if outs.dim() != 3 or not len(outs):
        raise ValueError(f"outs: wanted [parts, rows, head_dim] with a part or more, got {list(outs.shape)}")
    if lses.shape != outs.shape[:2] or lses.device != outs.device:
        raise ValueError(f"lses: wanted {list(outs.shape[:2])} on {outs.device}, got {list(lses.shape)}")
    lse = torch.logsumexp(lses, 0)
    empty = lses == -torch.inf
    shares = torch.where(empty, 0.0, torch.exp(lses - lse))
    parts = torch.where(empty[:, :, None], 0.0, outs.float())
    return {"out": (shares[:, :, None] * parts).sum(0).to(outs.dtype), "lse": lse}


@implements("moe_scatter", name="stock-grouped-mm")
def moe_scatter(
    hidden_states: torch.Tensor, w: torch.Tensor, topk_ids: torch.Tensor, *, w_scale: torch.Tensor | None = None
) -> torch.Tensor:
    """Dequantise every expert, sort the slots by expert, ``grouped_mm``, and put the rows back.

    The factor of a row of E4M3 weights is applied to the sums, which are rounded to bfloat16 before and after.  Legal
    arguments only.
    """
    tokens, topk = topk_ids.shape
    experts, rows, _ = w.shape
    if not experts:
        return torch.zeros(tokens, topk, rows, dtype=torch.bfloat16, device=w.device)
    ids = topk_ids.reshape(-1)
    valid = (ids >= 0) & (ids < experts)
    keys, order = torch.sort(torch.where(valid, ids, experts), stable=True)
    stops = torch.searchsorted(keys, torch.arange(1, experts + 1, device=ids.device, dtype=keys.dtype), out_int32=True)
    x = hidden_states[order // topk]
    product = grouped_mm(x, _dequantised(w, w_scale).transpose(-1, -2), offs=stops)
    if w.dtype == torch.float8_e4m3fn and w_scale is not None:
        product = (product * w_scale[keys.clamp(max=experts - 1)]).to(product.dtype)
    # rows behind the last expert's are nobody's, and hold anything
    product = torch.where((keys < experts)[:, None], product, 0.0)
    out = torch.empty(tokens * topk, rows, dtype=torch.bfloat16, device=w.device)
    out[order] = product
    return out.view(tokens, topk, rows)


def _dequantised(w: torch.Tensor, w_scale: torch.Tensor | None) -> torch.Tensor:
    """Return ``[E, N, K]`` bfloat16; E4M3 without its factors."""
    if w.dtype != torch.uint8 or w_scale is None:
        return w.to(torch.bfloat16)
    values = torch.tensor(_E2M1, dtype=torch.bfloat16, device=w.device)
    codes = torch.stack((w & 0xF, w >> 4), -1).flatten(-2)
    scale = w_scale.view(torch.float8_e8m0fnu).to(torch.bfloat16)
    return values[codes.int()] * scale.repeat_interleave(_MX_GROUP, -1)
