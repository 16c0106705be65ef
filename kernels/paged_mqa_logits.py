"""Logits of the sparse-attention indexer: one query of many heads against every token of a paged FP8 cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from harness import Capturable, Compiles, implements
from harness.launch.current import current_target
from kernels._e4m3_words import converts_e4m3, float16_of, refused_without_e4m3
from kernels._overlap import can_overlap, let_next_start, overlap_option, wait_for_previous
from kernels._validate import require_dtype, require_rank, require_same_device, require_shape, require_stride

HEAD_DIM = 128
PAGE_SIZE = 64
#: A page holds the values of its tokens, then their float32 scales: 132 bytes a token in all.
TOKEN_BYTES = HEAD_DIM + 4
VALUE_BYTES = PAGE_SIZE * HEAD_DIM
PAGE_BYTES = PAGE_SIZE * TOKEN_BYTES
#: Heads of one tile of a program.
MAX_BLOCK_H = 64
#: On AMD, queries are loaded again for each page, 16 heads at a time: held, they spill on gfx1100, and with 64 heads
#: its compiler takes minutes.
AMD_BLOCK_H = 16
#: Programs beyond which each takes several pages, so that it reads its query once for all of them: four on every SM.
MANY_PROGRAMS = 512
MAX_PAGES_A_PROGRAM = 16
#: Tokens are counted in int32, those of a program that starts below this length too.
MAX_SEQ_LEN = 2**31 - PAGE_SIZE * MAX_PAGES_A_PROGRAM
#: Two pages are on their way to shared memory during the products of a third: 8 KiB each.
NUM_STAGES = 3
#: Decode by inline PTX where the target can: the portable form has the same bits.
PTX = True
# Tensors of the virtual GPU are the CPU's: its default target.
_VIRTUAL_TARGET = "sm_120"

_WORDS = tl.constexpr(HEAD_DIM // 4)
_PAGE_SIZE = tl.constexpr(PAGE_SIZE)
_SCALES = tl.constexpr(VALUE_BYTES // 4)


@triton.jit
def _in_order(values, ROWS: tl.constexpr):
    """Return [ROWS, 128] for [ROWS, 32 words, 2 halves, 2 bytes], the pairs of 16 in another order than in memory.

    Keys and queries share it. In it a thread's part of a matrix product is whole words, where in memory's order it is
    pairs of bytes.
    """
    by_halves = tl.permute(tl.reshape(values, (ROWS, 8, 4, 2, 2)), (0, 1, 3, 2, 4))
    return tl.reshape(by_halves, (ROWS, 4 * _WORDS))


@triton.jit
def _values(bytes, ROWS: tl.constexpr):
    """Return float16 [ROWS, 128] for e4m3 codes [ROWS, 32 words, 2 halves, 2 bytes], in the order of ``_in_order``.

    float16 holds every e4m3 value, and float32 sums of their products are within the budget; sums of e4m3 products on
    the tensor cores of sm_90 are not.
    """
    return _in_order(bytes, ROWS).to(tl.float8e4nv, bitcast=True).to(tl.float16)


@triton.jit
def _keys(words, PTX: tl.constexpr):
    if PTX and converts_e4m3():
        keys = _in_order(float16_of(words), words.shape[0])
    else:
        words = words.to(tl.uint32, bitcast=True)
        # Not a shift: LLVM takes the bytes of one apart, and puts them together again with four instructions a word.
        upper = tl.umulhi(words, tl.full(words.shape, 1 << 16, tl.uint32))
        even = tl.join(words.to(tl.uint8), upper.to(tl.uint8))
        odd = tl.join((words >> 8).to(tl.uint8), (upper >> 8).to(tl.uint8))
        keys = _values(tl.join(even, odd), words.shape[0])
    return keys


@triton.jit
def _load_heads(q_row, q_head_stride, weights_row, weights_head_stride, first, num_heads, BLOCK_H: tl.constexpr):
    """Return the queries of ``BLOCK_H`` heads, float16 [128, BLOCK_H] in the order of ``_values``, and the weights."""
    head = first + tl.arange(0, BLOCK_H)
    in_heads = head < num_heads
    head_ptr = q_row + head.to(tl.int64) * q_head_stride
    code = tl.load(head_ptr[:, None] + tl.arange(0, 4 * _WORDS)[None, :], mask=in_heads[:, None], other=0)
    weight = tl.load(weights_row + head.to(tl.int64) * weights_head_stride, mask=in_heads, other=0.0)
    return tl.trans(_values(code, BLOCK_H)), weight


@triton.jit
def _score(keys, q, weight):
    score = tl.maximum(tl.dot(keys, q), 0.0, propagate_nan=tl.PropagateNan.ALL)
    return tl.sum(score * weight[None, :], axis=1)


@triton.jit
def _load_entry(table_row, column_stride, column, num_columns):
    """Return what the table has at ``column``, -1 past its width."""
    return tl.load(table_row + column.to(tl.int64) * column_stride, mask=(column < num_columns), other=-1)


@triton.jit
def _paged_mqa_logits_kernel(
    q_ptr, q_row_stride, q_head_stride, words_ptr, scales_ptr, page_bytes, num_pages,
    weights_ptr, weights_row_stride, weights_head_stride, seq_lens_ptr, seq_lens_stride,
    table_ptr, table_row_stride, table_column_stride, num_columns, logits_ptr, max_seq_len, num_heads,
    BLOCK_H: tl.constexpr, ONE_TILE: tl.constexpr, PAGES: tl.constexpr, NUM_STAGES: tl.constexpr,
    OVERLAP: tl.constexpr, FILLS: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """``PAGES`` pages of one sequence; grid ``(cdiv(pages of a row of logits, PAGES), B)``.

    ``words_ptr`` and ``scales_ptr`` are the same cache as int32 and float32. ``ONE_TILE``: the queries of all heads,
    at most ``BLOCK_H``, are held. ``FILLS``: the grid leaves no room for a second one.
    """
    # in a small grid not before the wait: the launch after the next would take places that the next one needs
    let_next_start(OVERLAP and FILLS)
    wait_for_previous(OVERLAP)
    let_next_start(OVERLAP and not FILLS)
    row = tl.program_id(1).to(tl.int64)
    seq_len = tl.load(seq_lens_ptr + row * seq_lens_stride)
    first = tl.program_id(0) * PAGES
    table_row = table_ptr + row * table_row_stride
    entry = _load_entry(table_row, table_column_stride, first, num_columns)
    last = tl.minimum(first + PAGES, num_columns)
    q_row = q_ptr + row * q_row_stride
    weights_row = weights_ptr + row * weights_row_stride
    if ONE_TILE:
        q, weight = _load_heads(q_row, q_head_stride, weights_row, weights_head_stride, 0, num_heads, BLOCK_H)
    offset = tl.arange(0, _PAGE_SIZE)
    word = offset[:, None] * _WORDS + tl.arange(0, _WORDS)[None, :]
    for turn in tl.range(0, PAGES, num_stages=NUM_STAGES):
        column = first + turn
        # entries past the sequence may hold anything
        owned = (column * _PAGE_SIZE < seq_len) & (entry >= 0) & (entry < num_pages)
        page = tl.where(owned, entry, -1)
        # a turn early: the address of a page in flight waits for no other load; none past the program's own, which
        # may come from far
        entry = _load_entry(table_row, table_column_stride, column + 1, last)
        valid = page >= 0
        start = page.to(tl.int64) * page_bytes // 4
        # tokens of the page past the sequence are read, and left out below
        keys = _keys(tl.load((words_ptr + start) + word, mask=valid, other=0), PTX)
        scale = tl.load((scales_ptr + start) + (_SCALES + offset), mask=valid, other=0.0)
        if ONE_TILE:
            total = _score(keys, q, weight)
        else:
            total = tl.zeros([_PAGE_SIZE], tl.float32)
            for first_head in range(0, num_heads, BLOCK_H):
                some_q, some_weight = _load_heads(
                    q_row, q_head_stride, weights_row, weights_head_stride, first_head, num_heads, BLOCK_H
                )
                total += _score(keys, some_q, some_weight)
        token = column * _PAGE_SIZE + offset
        logits = tl.where(valid & (token < seq_len), total * scale, float("-inf"))
        tl.store(logits_ptr + row * max_seq_len + token, logits, mask=token < max_seq_len)


# One page a program, of few and of many, and two; heads of one tile and of two.
_GRAPHS = Capturable(
    cases=(
        "Case(num_heads=64, table=BlockTable(seq_lens=(130, 64), page_size=64, page_order=(3, 2, 1, 0)), "
        "max_seq_len=200)",
        "Case(num_heads=64, table=BlockTable(seq_lens=(65, 0, 130), page_size=64, page_order=(1, 0, 3, 4, 2, 5)), "
        f"max_seq_len={PAGE_SIZE * (2 * MANY_PROGRAMS // 3)})",
        "Case(num_heads=65, table=BlockTable(seq_lens=(130, 64), page_size=64, page_order=(3, 2, 1, 0)), "
        f"max_seq_len={PAGE_SIZE * MANY_PROGRAMS})",
    )
)


@dataclass(frozen=True)
class _Arguments:
    """Checked arguments: the query's bytes, the cache as int32 and float32, the bytes of a page, flat lengths."""

    codes: torch.Tensor
    words: torch.Tensor
    scales: torch.Tensor
    page_bytes: int
    seq_lens: torch.Tensor


_KNOWN = Compiles(expected=(refused_without_e4m3("_paged_mqa_logits_kernel"),))


@implements("paged_mqa_logits", name="triton", compiles=_KNOWN, capturable=_GRAPHS)
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
    pool, which is not read.  NaN of a query, a key, a scale or a weight reaches its logits.  ``max_seq_len`` is 0 to
    ``MAX_SEQ_LEN``.  Capturable.

    Raises TypeError or ValueError naming the argument before any launch.
    """
    checked = _checked(q, kv_cache, weights, seq_lens, page_table, max_seq_len)
    batch, _, num_heads, _ = q.shape
    logits = torch.empty((batch, max_seq_len), dtype=torch.float32, device=q.device)
    columns = triton.cdiv(max_seq_len, PAGE_SIZE)
    target = current_target(q.device, _VIRTUAL_TARGET)
    amd = target.vendor == "rocm"
    overlap = can_overlap(target)
    if logits.numel() == 0:
        return logits
    pages = max(1, min(MAX_PAGES_A_PROGRAM, triton.next_power_of_2(batch * columns // MANY_PROGRAMS)))
    # Triton launches on the current device, which need not be the tensors'.
    with torch.cuda.device_of(q):
        _paged_mqa_logits_kernel[(triton.cdiv(columns, pages), batch)](
            checked.codes,
            q.stride(0),
            q.stride(2),
            checked.words,
            checked.scales,
            checked.page_bytes,
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
            BLOCK_H=AMD_BLOCK_H if amd else min(MAX_BLOCK_H, max(16, triton.next_power_of_2(num_heads))),
            ONE_TILE=not amd and num_heads <= MAX_BLOCK_H,
            PAGES=pages,
            NUM_STAGES=1 if amd else NUM_STAGES,
            OVERLAP=overlap,
            FILLS=4 * batch * triton.cdiv(columns, pages) >= 3 * MANY_PROGRAMS,
            PTX=PTX,
            num_warps=4,
            **overlap_option(q, overlap),
        )
    return logits


@implements("paged_mqa_logits", name="torch", capturable=_GRAPHS)
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
    values = checked.words.view(torch.uint8).as_strided(
        (num_pages, PAGE_SIZE, HEAD_DIM), (checked.page_bytes, HEAD_DIM, 1)
    )
    scales = checked.scales.as_strided(
        (num_pages, PAGE_SIZE),
        (checked.page_bytes // 4, 1),
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
    if not 0 <= max_seq_len <= MAX_SEQ_LEN:
        raise ValueError(f"max_seq_len: wanted 0 to {MAX_SEQ_LEN}, got {max_seq_len}")
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
        words=flat.view(torch.int32),
        scales=flat.view(torch.float32),
        page_bytes=page_stride,
        seq_lens=seq_lens.flatten() if seq_lens.dim() == 2 else seq_lens,
    )
