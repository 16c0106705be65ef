"""Oracle for ``kernels.sparse_mla_decode``."""

import math

import torch

from reference._formats import apply_scale, decode_e4m3, decode_e8m0

NOPE, ROPE, GROUP = 448, 64, 64
WIDTH = NOPE + ROPE
DATA_BYTES = NOPE + 2 * ROPE
SCALE_BYTES = 8
TOKEN_BYTES = DATA_BYTES + SCALE_BYTES
#: One unit of relative error of a float32 accumulation.
UNIT = 2.0**-23
#: Share of a row from which on a weight counts in full: a power of two above bfloat16's and float32's smallest normal
#: number, since exponentials on GPUs flush what is below it and tensor cores want weights scaled to a sum of at most 1.
SMALLEST_SHARE = 2.0**-125


def sparse_mla_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    indices: torch.Tensor,
    *,
    topk_length: torch.Tensor | None = None,
    attn_sink: torch.Tensor | None = None,
    head_dim_v: int = WIDTH,
    softmax_scale: float | None = None,
    extra_k_cache: torch.Tensor | None = None,
    extra_indices: torch.Tensor | None = None,
    extra_topk_length: torch.Tensor | None = None,
) -> dict[str, torch.Tensor]:
    """Return ``{"out": [B, 1, H, head_dim_v], "lse": [B, H]}``; ``out`` in the dtype of ``q``.

    ``q [B, 1, H, 512]``; ``k_cache [num_pages, page_size, 1, 584]`` uint8 or ``float8_e4m3fn``, whose pages hold
    page_size * 576 bytes of tokens (448 E4M3, 64 bf16), then 8 bytes a token of E8M0 scales (7 used);
    ``indices [B, 1, topk]`` are page * page_size + offset, of which those outside the pool or at a position past
    ``topk_length [B]`` do not exist.  One softmax runs over both caches; ``attn_sink [H]`` adds exp(sink) to its
    denominator only.  ``lse`` is natural, without the sink; a row with no token gives zeros and -inf.  With a bf16
    ``q`` the weights are rounded to bf16 before they meet V, as tensor cores need them, and those below
    ``SMALLEST_SHARE`` of the row's sum are left out; with float64 nothing is.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    batch, _, num_heads, _ = q.shape
    out = torch.zeros(batch, 1, num_heads, head_dim_v, dtype=q.dtype, device=q.device)
    lse = torch.full((batch, num_heads), -math.inf, dtype=wide, device=q.device)
    for row in range(batch):
        kv = _row_tokens(row, k_cache, indices, topk_length, extra_k_cache, extra_indices, extra_topk_length).to(wide)
        if len(kv) == 0:
            continue
        scores = q[row, 0].to(wide) @ kv.T * _scale(softmax_scale)
        top = scores.amax(dim=1)
        p = torch.exp(scores - top[:, None])
        total = p.sum(dim=1)
        lse[row] = top + torch.log(total)
        if q.dtype == torch.bfloat16:
            p = p.masked_fill(p < SMALLEST_SHARE * total[:, None], 0).bfloat16().to(wide)
        average = p @ kv[:, :head_dim_v] / total[:, None]
        out[row, 0] = (average * _kept(lse[row], attn_sink)[:, None]).to(q.dtype)
    return {"out": out, "lse": lse}


def sparse_mla_decode_magnitude(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    indices: torch.Tensor,
    *,
    topk_length: torch.Tensor | None = None,
    attn_sink: torch.Tensor | None = None,
    head_dim_v: int = WIDTH,
    softmax_scale: float | None = None,
    extra_k_cache: torch.Tensor | None = None,
    extra_indices: torch.Tensor | None = None,
    extra_topk_length: torch.Tensor | None = None,
) -> dict[str, torch.Tensor]:
    """Return float64 magnitudes of ``out`` and ``lse``; arguments as for ``sparse_mla_decode``.

    A score is uncertain by one unit of its absolute terms.  From that follow the interval of the lse and, for every
    token, the interval of its weight, others moving the opposite way: a token that leads by more than the
    uncertainty keeps its weight, however large the scores are.  ``out`` adds up each absolute term and the width of
    its weight, both in units.
    """
    batch, _, num_heads, _ = q.shape
    out = torch.zeros(batch, 1, num_heads, head_dim_v, dtype=torch.float64, device=q.device)
    lse = torch.ones(batch, num_heads, dtype=torch.float64, device=q.device)
    for row in range(batch):
        kv = _row_tokens(row, k_cache, indices, topk_length, extra_k_cache, extra_indices, extra_topk_length)
        if len(kv) == 0:
            continue
        head = q[row, 0].double()
        scores = head @ kv.T * _scale(softmax_scale)
        doubt = UNIT * (1 + head.abs() @ kv.abs().T * abs(_scale(softmax_scale)))
        total = scores.logsumexp(dim=1)
        lse[row] = total.abs().clamp(min=1) + ((scores + doubt).logsumexp(dim=1) - total) / UNIT
        lead = scores - _logsumexp_of_others(scores, attn_sink)
        swing = 2 * doubt.amax(dim=1, keepdim=True)
        weight = torch.sigmoid(lead)
        width = torch.maximum(torch.sigmoid(lead + swing) - weight, weight - torch.sigmoid(lead - swing))
        out[row, 0] = (weight + width / UNIT) @ kv[:, :head_dim_v].abs()
    return {"out": out, "lse": lse}


def _logsumexp_of_others(scores: torch.Tensor, attn_sink: torch.Tensor | None) -> torch.Tensor:
    """Return, for each token of ``scores [H, T]``, the log-sum-exp of all the other tokens and the sink."""
    nothing = torch.full_like(scores[:, :1], -math.inf)
    before = torch.cat((nothing, scores.logcumsumexp(dim=1)[:, :-1]), dim=1)
    after = torch.cat((scores.flip(1).logcumsumexp(dim=1).flip(1)[:, 1:], nothing), dim=1)
    sink = nothing if attn_sink is None else attn_sink.double()[:, None]
    return torch.logaddexp(torch.logaddexp(before, after), sink)


def _scale(softmax_scale: float | None) -> float:
    return WIDTH**-0.5 if softmax_scale is None else softmax_scale


def _kept(lse: torch.Tensor, attn_sink: torch.Tensor | None) -> torch.Tensor:
    """Return the share of the softmax that the sink leaves to the tokens, 1 / (1 + exp(sink - lse))."""
    return torch.ones_like(lse) if attn_sink is None else 1 / (1 + torch.exp(attn_sink.to(lse.dtype) - lse))


def _row_tokens(
    row: int,
    k_cache: torch.Tensor,
    indices: torch.Tensor,
    topk_length: torch.Tensor | None,
    extra_k_cache: torch.Tensor | None,
    extra_indices: torch.Tensor | None,
    extra_topk_length: torch.Tensor | None,
) -> torch.Tensor:
    """Return ``[num_tokens, 512]`` float64: the dequantised tokens of one row, duplicates included."""
    tokens = _tokens(k_cache, indices[row, 0], topk_length if topk_length is None else topk_length[row])
    if extra_k_cache is None or extra_indices is None:
        return tokens
    extra_length = extra_topk_length if extra_topk_length is None else extra_topk_length[row]
    return torch.cat((tokens, _tokens(extra_k_cache, extra_indices[row, 0], extra_length)))


def _tokens(cache: torch.Tensor, indices: torch.Tensor, length: torch.Tensor | None) -> torch.Tensor:
    num_pages, page_size = cache.shape[:2]
    listed = indices if length is None else indices[: max(int(length), 0)]
    valid = listed[(listed >= 0) & (listed < num_pages * page_size)].long()
    # a page is one run of bytes: the per-token shape of the view does not say where a token's bytes are
    pages = cache.view(torch.uint8).as_strided((num_pages, page_size * TOKEN_BYTES), (cache.stride(0), 1))
    page, offset = valid[:, None] // page_size, valid[:, None] % page_size
    data = pages[page, offset * DATA_BYTES + torch.arange(DATA_BYTES, device=cache.device)]
    scale_start = page_size * DATA_BYTES + offset * SCALE_BYTES
    scales = pages[page, scale_start + torch.arange(NOPE // GROUP, device=cache.device)]
    nope = apply_scale(decode_e4m3(data[:, :NOPE]), decode_e8m0(scales), GROUP)
    rope = data[:, NOPE:].contiguous().view(torch.bfloat16).double()
    return torch.cat((nope, rope), dim=1)
