"""Oracle for ``kernels.paged_mqa_logits``."""

import math

import torch

from reference._formats import decode_e4m3

PAGE_SIZE, HEAD_DIM = 64, 128
VALUE_BYTES = PAGE_SIZE * HEAD_DIM
PAGE_BYTES = VALUE_BYTES + 4 * PAGE_SIZE


def paged_mqa_logits(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    weights: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    *,
    max_seq_len: int,
) -> dict[str, torch.Tensor]:
    """Return ``{"logits": [B, max_seq_len]}``: scale[t] * sum over h of w[b, h] * relu(q[b, h] . k[t]), dtype of w.

    ``q [B, 1, H, 128]`` E4M3; ``kv_cache [P, 64, 1, 132]`` uint8 or ``float8_e4m3fn``, whose pages hold 64 * 128 E4M3
    bytes and then 64 float32 scales; ``weights [B, H]``; ``seq_lens`` ``[B]`` or ``[B, 1]``; ``page_table [B, W]``.
    A position at or past ``seq_lens``, past the table, or on a page outside the pool is -inf.
    """
    logits = _empty(q, weights, max_seq_len)
    for row, column, page in _owned(kv_cache, seq_lens, page_table, max_seq_len):
        keys, scale = _page(kv_cache, page)
        scores = torch.relu(decode_e4m3(q[row, 0]).to(weights.dtype) @ keys.to(weights.dtype).T)
        _put(logits, seq_lens, row, column, scale.to(weights.dtype) * (weights[row] @ scores))
    return {"logits": logits}


def paged_mqa_logits_magnitude(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    weights: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    *,
    max_seq_len: int,
) -> dict[str, torch.Tensor]:
    """Return the float64 sum of absolute terms behind each logit, 0 where there is none."""
    logits = _empty(q, weights.double(), max_seq_len)
    for row, column, page in _owned(kv_cache, seq_lens, page_table, max_seq_len):
        keys, scale = _page(kv_cache, page)
        terms = decode_e4m3(q[row, 0]).abs() @ keys.abs().T
        _put(logits, seq_lens, row, column, scale.abs() * (weights[row].double().abs() @ terms))
    return {"logits": logits.masked_fill(logits == -math.inf, 0)}


def _empty(q: torch.Tensor, weights: torch.Tensor, max_seq_len: int) -> torch.Tensor:
    return torch.full((q.shape[0], max_seq_len), -math.inf, dtype=weights.dtype, device=q.device)


def _owned(
    kv_cache: torch.Tensor, seq_lens: torch.Tensor, page_table: torch.Tensor, max_seq_len: int
) -> list[tuple[int, int, int]]:
    """Return (row, column of the table, page) of every page of the pool that some position of a row needs."""
    owned = []
    for row, length in enumerate(seq_lens.flatten().tolist()):
        columns = -(-max(0, min(length, max_seq_len)) // PAGE_SIZE)
        for column, page in enumerate(page_table[row, :columns].tolist()):
            if 0 <= page < kv_cache.shape[0]:
                owned.append((row, column, page))
    return owned


def _put(logits: torch.Tensor, seq_lens: torch.Tensor, row: int, column: int, values: torch.Tensor) -> None:
    """Write the logits of one page, as many as there are tokens and room."""
    first = column * PAGE_SIZE
    count = min(int(seq_lens.flatten()[row]), logits.shape[1], first + PAGE_SIZE) - first
    logits[row, first : first + count] = values[:count]


def _page(kv_cache: torch.Tensor, page: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return one page's keys ``[64, 128]`` and scales ``[64]``, float64."""
    # a page is one run of bytes: the per-token shape of the view does not say where a token's bytes are
    start = kv_cache.storage_offset() + page * kv_cache.stride(0)
    content = kv_cache.view(torch.uint8).as_strided((PAGE_BYTES,), (1,), start)
    keys = decode_e4m3(content[:VALUE_BYTES]).view(PAGE_SIZE, HEAD_DIM)
    return keys, content[VALUE_BYTES:].clone().view(torch.float32).double()
