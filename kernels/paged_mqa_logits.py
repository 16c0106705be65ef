"""Logits of the sparse-attention indexer: one query of many heads against every token of a paged FP8 cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from harness import implements
from kernels._validate import require_dtype, require_rank, require_same_device, require_shape, require_stride

HEAD_DIM = 128
PAGE_SIZE = 64
#: A page holds the values of its tokens, then their float32 scales: 132 bytes a token in all.
TOKEN_BYTES = HEAD_DIM + 4
VALUE_BYTES = PAGE_SIZE * HEAD_DIM
PAGE_BYTES = PAGE_SIZE * TOKEN_BYTES
#: Heads of one tile of a program: two bfloat16 tiles of 64 x 128 take 32 KiB of shared memory.
MAX_BLOCK_H = 64
#: Programs beyond which each takes several pages, so that it reads its query once for all of them.
MANY_PROGRAMS = 2048
MAX_PAGES_A_PROGRAM = 8

_VALUE_BYTES = tl.constexpr(VALUE_BYTES)


@triton.jit
def _paged_mqa_logits_kernel(
    q_ptr, q_row_stride, q_head_stride, values_ptr, scales_ptr, page_stride, num_pages,
    weights_ptr, weights_row_stride, weights_head_stride, seq_lens_ptr, seq_lens_stride,
    table_ptr, table_row_stride, table_column_stride, num_columns, logits_ptr, max_seq_len, num_heads,
    BLOCK_H: tl.constexpr, HEAD_DIM: tl.constexpr, PAGE_SIZE: tl.constexpr, PAGES: tl.constexpr,
):  # fmt: skip
    """``PAGES`` pages of one sequence; grid ``(cdiv(pages of a row of logits, PAGES), B)``.

    ``page_stride`` counts bytes; ``values_ptr`` and ``scales_ptr`` are the same cache as uint8 and float32.
    """
    row = tl.program_id(1).to(tl.int64)
    seq_len = tl.load(seq_lens_ptr + row * seq_lens_stride)
    head = tl.arange(0, BLOCK_H)
    dim = tl.arange(0, HEAD_DIM)
    offset = tl.arange(0, PAGE_SIZE)
    for number in range(PAGES):
        column = tl.program_id(0) * PAGES + number
        token = column * PAGE_SIZE + offset
        # entries past the sequence may hold anything
        owned = (column * PAGE_SIZE < seq_len) & (column < num_columns)
        entry_ptr = table_ptr + row * table_row_stride + column.to(tl.int64) * table_column_stride
        page = tl.load(entry_ptr, mask=owned, other=-1).to(tl.int64)
        valid = (token < seq_len) & (page >= 0) & (page < num_pages)
        values_start = values_ptr + page * page_stride
        code_ptr = values_start + offset[:, None] * HEAD_DIM + dim[None, :]
        code = tl.load(code_ptr, mask=valid[:, None], other=0)
        # 4 significant bits fit bfloat16; sums of E4M3 products on the tensor cores of sm_90 do not fit the budget
        k = code.to(tl.float8e4nv, bitcast=True).to(tl.bfloat16)
        scale_ptr = scales_ptr + page * (page_stride // 4) + _VALUE_BYTES // 4 + offset
        scale = tl.load(scale_ptr, mask=valid, other=0.0)
        total = tl.zeros([PAGE_SIZE], tl.float32)
        for first in range(0, num_heads, BLOCK_H):
            in_heads = first + head < num_heads
            head_ptr = q_ptr + row * q_row_stride + (first + head).to(tl.int64) * q_head_stride
            q_code = tl.load(head_ptr[:, None] + dim[None, :], mask=in_heads[:, None], other=0)
            q = q_code.to(tl.float8e4nv, bitcast=True).to(tl.bfloat16)
            weight_ptr = weights_ptr + row * weights_row_stride + (first + head) * weights_head_stride
            weight = tl.load(weight_ptr, mask=in_heads, other=0.0)
            score = tl.dot(k, tl.trans(q))
            score = tl.where(score < 0, 0.0, score)
            total += tl.sum(score * weight[None, :], axis=1)
        logits = tl.where(valid, total * scale, float("-inf"))
        tl.store(logits_ptr + row * max_seq_len + token, logits, mask=token < max_seq_len)


@dataclass(frozen=True)
class _Arguments:
    """Checked views of the arguments: the bytes of the query and the cache, the cache's scales, flat lengths."""

    codes: torch.Tensor
    values: torch.Tensor
    scales: torch.Tensor
    page_stride: int
    seq_lens: torch.Tensor


@implements("paged_mqa_logits", name="triton")
def paged_mqa_logits(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    weights: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    *,
    max_seq_len: int,
) -> torch.Tensor:
    """Return ``logits`` [B, max_seq_len] float32: scale[t] * sum over h of weights[b, h] * relu(q[b, h] . k[t]).

    ``q`` [B, 1, H, 128] ``float8_e4m3fn``; ``kv_cache`` [P, 64, 1, 132] uint8 or ``float8_e4m3fn``, of which each
    page is 64 * 128 E4M3 bytes and then 64 float32 scales, pages any multiple of 4 bytes of at least 8,448 apart;
    ``weights`` [B, H] float32; ``seq_lens`` [B] or [B, 1], ``page_table`` [B, W], both int32 or int64.

    -inf for every t >= seq_len, past the table (``max_seq_len`` may be more than 64 W), or on a page outside the
    pool, which is not read.  NaN of a query, a key, a scale or a weight reaches its logits.  Capturable.

    Raises TypeError or ValueError naming the argument before any launch.
    """
    checked = _checked(q, kv_cache, weights, seq_lens, page_table, max_seq_len)
    batch, _, num_heads, _ = q.shape
    logits = torch.empty((batch, max_seq_len), dtype=torch.float32, device=q.device)
    columns = triton.cdiv(max_seq_len, PAGE_SIZE)
    if logits.numel() == 0:
        return logits
    pages = max(1, min(MAX_PAGES_A_PROGRAM, triton.next_power_of_2(batch * columns // MANY_PROGRAMS)))
    _paged_mqa_logits_kernel[(triton.cdiv(columns, pages), batch)](
        checked.codes,
        q.stride(0),
        q.stride(2),
        checked.values,
        checked.scales,
        checked.page_stride,
        kv_cache.shape[0],
        weights,
        *weights.stride(),
        checked.seq_lens,
        checked.seq_lens.stride(0),
        page_table,
        *page_table.stride(),
        page_table.shape[1],
        logits,
        max_seq_len,
        num_heads,
        BLOCK_H=min(MAX_BLOCK_H, max(16, triton.next_power_of_2(num_heads))),
        HEAD_DIM=HEAD_DIM,
        PAGE_SIZE=PAGE_SIZE,
        PAGES=pages,
        num_warps=4,
    )
    return logits


@implements("paged_mqa_logits", name="torch")
def paged_mqa_logits_torch(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    weights: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    *,
    max_seq_len: int,
) -> torch.Tensor:
    """Compute ``paged_mqa_logits`` by vectorised torch calls alone: no synchronisation, shapes known beforehand.

    Gathers ``min(W, cdiv(max_seq_len, 64))`` pages a row into float64.
    """
    checked = _checked(q, kv_cache, weights, seq_lens, page_table, max_seq_len)
    batch = q.shape[0]
    num_pages = kv_cache.shape[0]
    columns = min(page_table.shape[1], triton.cdiv(max_seq_len, PAGE_SIZE)) if num_pages else 0
    logits = torch.full((batch, max_seq_len), float("-inf"), dtype=torch.float32, device=q.device)
    if columns == 0:
        return logits
    page = page_table[:, :columns].long()
    token = torch.arange(columns * PAGE_SIZE, device=q.device).view(columns, PAGE_SIZE)
    in_pool = (page >= 0) & (page < num_pages)
    valid = (token < checked.seq_lens[:, None, None]) & in_pool[:, :, None]
    page = page.where(in_pool, 0)
    values = checked.values.as_strided((num_pages, PAGE_SIZE, HEAD_DIM), (checked.page_stride, HEAD_DIM, 1))
    scales = checked.scales.as_strided(
        (num_pages, PAGE_SIZE),
        (checked.page_stride // 4, 1),
        checked.scales.storage_offset() + VALUE_BYTES // 4,
    )
    # what no sequence owns is replaced before any arithmetic, like everything that may be NaN and must not count
    keys = values[page].masked_fill(~valid[..., None], 0).view(torch.float8_e4m3fn).double()
    # float64 holds sums of E4M3 products exactly, so that they do not depend on a library's order of summation
    scores = torch.einsum("bhd,bptd->bpth", checked.codes[:, 0].view(torch.float8_e4m3fn).double(), keys)
    total = torch.einsum("bpth,bh->bpt", torch.relu(scores), weights.double()) * scales[page]
    found = total.float().masked_fill(~valid, float("-inf")).flatten(1)
    width = min(max_seq_len, found.shape[1])
    logits[:, :width] = found[:, :width]
    return logits


def _checked(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    weights: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    max_seq_len: int,
) -> _Arguments:
    require_dtype("q", q, torch.float8_e4m3fn)
    require_shape("q", q, (None, 1, None, HEAD_DIM), "[B, 1, H, 128]")
    batch, _, num_heads, _ = q.shape
    if num_heads == 0:
        raise ValueError(f"q: wanted at least one head, got shape {list(q.shape)}")
    require_stride("q", q, 3, 1)
    require_dtype("kv_cache", kv_cache, torch.uint8, torch.float8_e4m3fn)
    require_shape("kv_cache", kv_cache, (None, PAGE_SIZE, 1, TOKEN_BYTES), "[P, 64, 1, 132]")
    require_stride("kv_cache", kv_cache, 3, 1)
    require_stride("kv_cache", kv_cache, 1, TOKEN_BYTES)
    require_dtype("weights", weights, torch.float32)
    require_shape("weights", weights, (batch, num_heads), "[B, H]")
    require_dtype("seq_lens", seq_lens, torch.int32, torch.int64)
    require_shape("seq_lens", seq_lens, (batch, 1) if seq_lens.dim() == 2 else (batch,), "[B] or [B, 1]")
    require_dtype("page_table", page_table, torch.int32, torch.int64)
    require_rank("page_table", page_table, 2, "[B, W]")
    require_shape("page_table", page_table, (batch, None), "[B, W]")
    if isinstance(max_seq_len, bool) or not isinstance(max_seq_len, int):
        raise TypeError(f"max_seq_len: wanted an int, got {type(max_seq_len).__name__}")
    if max_seq_len < 0:
        raise ValueError(f"max_seq_len: wanted at least 0, got {max_seq_len}")
    require_same_device(
        {"q": q, "kv_cache": kv_cache, "weights": weights, "seq_lens": seq_lens, "page_table": page_table}
    )
    # with one page the stride may be anything
    page_stride = kv_cache.stride(0) if kv_cache.shape[0] > 1 else PAGE_BYTES
    if page_stride < PAGE_BYTES or page_stride % 4:
        raise ValueError(
            f"kv_cache: wanted stride(0), the bytes of a page, a multiple of 4 and at least {PAGE_BYTES}, "
            f"got {page_stride}"
        )
    if kv_cache.data_ptr() % 4:
        raise ValueError(
            f"kv_cache: wanted an address that is a multiple of 4, got one {kv_cache.data_ptr() % 4} past it"
        )
    # the bytes of the pool in one row, whatever the shape of the view says about a token
    reach = (kv_cache.shape[0] - 1) * page_stride + PAGE_BYTES if kv_cache.shape[0] else 0
    flat = kv_cache.view(torch.uint8).as_strided((reach,), (1,))
    return _Arguments(
        codes=q.view(torch.uint8),
        values=flat,
        scales=flat.view(torch.float32),
        page_stride=page_stride,
        seq_lens=seq_lens.flatten() if seq_lens.dim() == 2 else seq_lens,
    )
