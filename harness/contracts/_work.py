"""What a case needs at least, counted from the drawn inputs: each expert, token and page that is named, once."""

from __future__ import annotations

from typing import Any

import torch

from harness.contract import Inputs, Work

_TOKEN_BYTES = 584
_MLA_WIDTH = 512
_KEY_BYTES, _KEY_WIDTH, _PAGE = 132, 128, 64


def nbytes(*tensors: torch.Tensor | None) -> int:
    """Return the bytes of the elements of all that are not None."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)


def _distinct(ids: Any) -> int:
    """Return how many different values a tensor holds."""
    return int(ids.unique().numel())


def _routed(topk_ids: torch.Tensor, num_experts: int) -> tuple[int, int]:
    """Return how many slots are valid, and how many experts some slot names."""
    valid = topk_ids[(topk_ids >= 0) & (topk_ids < num_experts)]
    return valid.numel(), _distinct(valid)


def mxfp4_moe(case: Any, inputs: Inputs) -> Work:
    """Two products a valid slot; each routed expert's weights and scales once, hidden states in and out."""
    weights = [inputs[name] for name in ("w13_packed", "w13_scale", "w2_packed", "w2_scale")]
    experts = weights[0].shape[0]
    # without experts none is routed to
    slots, routed = _routed(inputs["topk_ids"], experts)
    hidden = nbytes(inputs["hidden_states"])
    return Work(
        flops=slots * 6 * case.hidden_size * case.intermediate_size,
        bytes=routed * nbytes(*weights) // max(1, experts)
        + 2 * hidden
        + nbytes(inputs["topk_ids"], inputs["topk_weights"]),
    )


def moe_scatter(case: Any, inputs: Inputs) -> Work:
    """One product a valid slot; each routed expert's weights once, a bf16 row out for every slot."""
    w, ids = inputs["w"], inputs["topk_ids"]
    slots, routed = _routed(ids, w.shape[0])
    return Work(
        flops=slots * 2 * case.hidden_size * case.output_size,
        bytes=routed * nbytes(w, inputs["w_scale"]) // max(1, w.shape[0])
        + nbytes(inputs["hidden_states"], ids)
        + ids.numel() * case.output_size * inputs["hidden_states"].element_size(),
    )


def sparse_mla_decode(case: Any, inputs: Inputs) -> Work:
    """Scores and averages of every lane that counts; each token that some lane names once a cache."""
    lanes = tokens = 0
    for prefix in ("", "extra_"):
        indices, cache = inputs[f"{prefix}indices"], inputs[f"{prefix}k_cache"]
        if indices is None:
            continue
        length, rows = inputs[f"{prefix}topk_length"], indices[:, 0]
        counted = (rows >= 0) & (rows < cache.shape[0] * cache.shape[1])
        if length is not None:
            counted &= torch.arange(rows.shape[1], device=rows.device)[None, :] < length[:, None]
        lanes += int(counted.sum())
        tokens += _distinct(rows[counted])
    small = [name for name in inputs if name.endswith(("indices", "topk_length"))] + ["q", "attn_sink"]
    q = inputs["q"]
    out = q.shape[0] * case.num_heads * (case.head_dim_v * q.element_size() + 4)
    return Work(
        flops=lanes * case.num_heads * 2 * (_MLA_WIDTH + case.head_dim_v),
        bytes=tokens * _TOKEN_BYTES + nbytes(*(inputs[name] for name in small)) + out,
    )


def paged_mqa_logits(case: Any, inputs: Inputs) -> Work:
    """One product a head and position that has a key; each token once, however many sequences share its page."""
    q, table, cache = inputs["q"], inputs["page_table"], inputs["kv_cache"]
    columns = table.shape[1]
    limit = min(case.max_seq_len, columns * _PAGE)
    lengths = inputs["seq_lens"].reshape(-1).long().clamp(0, limit)
    first = torch.arange(columns, device=table.device) * _PAGE
    in_page = (lengths[:, None] - first[None, :]).clamp(0, _PAGE)
    positions = int(in_page[(table >= 0) & (table < cache.shape[0])].sum())
    needed = (in_page > 0) & (table >= 0) & (table < cache.shape[0])
    # a page that several sequences share is needed once
    distinct = _distinct(table[needed]) / max(1, int(needed.sum()))
    return Work(
        flops=positions * case.num_heads * 2 * _KEY_WIDTH,
        bytes=round(positions * _KEY_BYTES * distinct)
        + nbytes(q, inputs["weights"], inputs["seq_lens"], table)
        + q.shape[0] * case.max_seq_len * 4,
    )


def merge_attn_states(case: Any, inputs: Inputs) -> Work:
    """A product and a sum an element of every part that holds tokens, read once; one row out."""
    outs, lses = inputs["outs"], inputs["lses"]
    full = int((lses != -torch.inf).sum())
    row = outs.shape[2] * outs.element_size()
    return Work(
        flops=2 * full * outs.shape[2],
        bytes=full * row + nbytes(lses) + outs.shape[1] * (row + lses.element_size()),
    )


def ep_dispatch_combine(case: Any, inputs: Inputs) -> Work:
    """Additions alone; each sent row read once and written where it goes, with every other element of the outputs."""
    x, scale, expert_out, ids = (inputs[name] for name in ("x", "x_scale", "expert_out", "topk_ids"))
    world, max_tokens = x.shape[:2]
    live = torch.arange(max_tokens, device=ids.device)[None, :] < inputs["num_tokens"][:, None]
    valid = (ids >= 0) & (ids < world * case.experts_per_rank) & live[:, :, None]
    owner = torch.where(valid, ids // case.experts_per_rank, world).long()
    sent = torch.zeros(world, max_tokens, world + 1, dtype=torch.bool, device=ids.device).scatter_(2, owner, True)
    rows, sources = int(sent[:, :, :world].sum()), int(sent[:, :, :world].any(dim=2).sum())
    row = (nbytes(x) + nbytes(scale)) // max(1, world * max_tokens)
    received = world * case.capacity * (row + 4) + world * world * 4
    out = world * max_tokens * expert_out.shape[2] * expert_out.element_size()
    return Work(
        flops=rows * expert_out.shape[2],
        bytes=sources * row
        + received
        + world * max_tokens * world * 4
        + rows * expert_out.shape[2] * expert_out.element_size()
        + out
        + nbytes(ids, inputs["num_tokens"]),
    )
