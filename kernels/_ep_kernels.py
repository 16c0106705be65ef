"""Device code of ``kernels.ep_dispatch_combine``: one persistent kernel for each direction.

A rank writes into its peers' buffers before a grid barrier and reads its own after it, or the other way round; nothing
else orders the two.  Dispatched rows are moved as integers, so that no code and no NaN payload changes on the way.
"""

import triton
import triton.language as tl

from harness.launch.grid_barrier import grid_barrier, grid_leave


@triton.jit
def _tile(tile, tiles_per_rank, BLOCK_T: tl.constexpr):
    return tile // tiles_per_rank, tile % tiles_per_rank * BLOCK_T + tl.arange(0, BLOCK_T)


@triton.jit
def _sends(
    ids_ptr, num_tokens_ptr, rank, token, max_tokens, experts_per_rank,
    WORLD: tl.constexpr, RANKS: tl.constexpr, TOPK: tl.constexpr,
):  # fmt: skip
    # int32 [tokens, RANKS]: 1 where a token of rank has an expert on a rank, however many it has there.
    live = (token < max_tokens) & (token < tl.load(num_tokens_ptr + rank))
    ids = ids_ptr + (rank.to(tl.int64) * max_tokens + token) * TOPK
    peer = tl.arange(0, RANKS)
    sends = tl.zeros([token.shape[0], RANKS], tl.int32)
    for choice in range(TOPK):
        expert = tl.load(ids + choice, mask=live, other=-1)
        # Division truncates: without the test -1 would go to rank 0.
        owner = tl.where(expert >= 0, expert // experts_per_rank, -1)
        sends = tl.where(owner[:, None] == peer[None, :], 1, sends)
    return tl.where((peer < WORLD)[None, :], sends, 0)


@triton.jit
def _count(
    ids_ptr, num_tokens_ptr, tile_counts_ptr, max_tokens, tiles_per_rank, experts_per_rank,
    WORLD: tl.constexpr, RANKS: tl.constexpr, TOPK: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    for tile in range(tl.program_id(0), WORLD * tiles_per_rank, tl.num_programs(0)):
        rank, token = _tile(tile, tiles_per_rank, BLOCK_T)
        sends = _sends(ids_ptr, num_tokens_ptr, rank, token, max_tokens, experts_per_rank, WORLD, RANKS, TOPK)
        tl.store(tile_counts_ptr + tile * RANKS + tl.arange(0, RANKS), tl.sum(sends, 0))


@triton.jit
def _sum_counts(tile_counts_ptr, first, stop, RANKS: tl.constexpr, CHUNK: tl.constexpr):
    total = tl.zeros([RANKS], tl.int32)
    for start in range(first, stop, CHUNK):
        tile = start + tl.arange(0, CHUNK)
        counts = tile_counts_ptr + tile[:, None] * RANKS + tl.arange(0, RANKS)[None, :]
        total += tl.sum(tl.load(counts, mask=(tile < stop)[:, None], other=0), 0)
    return total


@triton.jit
def _place(
    ids_ptr, num_tokens_ptr, tile_counts_ptr, recv_counts_ptr, recv_src_ptr, send_rows_ptr,
    max_tokens, tiles_per_rank, capacity, experts_per_rank,
    WORLD: tl.constexpr, RANKS: tl.constexpr, TOPK: tl.constexpr, BLOCK_T: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    peer = tl.arange(0, RANKS)
    for tile in range(tl.program_id(0), WORLD * tiles_per_rank, tl.num_programs(0)):
        rank, token = _tile(tile, tiles_per_rank, BLOCK_T)
        before = _sum_counts(tile_counts_ptr, 0, tile, RANKS, CHUNK)
        if tile % tiles_per_rank == 0:
            of_rank = _sum_counts(tile_counts_ptr, tile, tile + tiles_per_rank, RANKS, CHUNK)
            tl.store(recv_counts_ptr + peer * WORLD + rank, of_rank, mask=peer < WORLD)
        sends = _sends(ids_ptr, num_tokens_ptr, rank, token, max_tokens, experts_per_rank, WORLD, RANKS, TOPK)
        row = before[None, :] + tl.cumsum(sends, 0) - sends
        source = rank * max_tokens + token
        exists = (token < max_tokens)[:, None] & (peer < WORLD)[None, :]
        send_rows = send_rows_ptr + source.to(tl.int64)[:, None] * WORLD + peer[None, :]
        tl.store(send_rows, tl.where(sends != 0, row, -1), mask=exists)
        recv_src = recv_src_ptr + peer[None, :].to(tl.int64) * capacity + row
        tl.store(recv_src, source[:, None], mask=exists & (sends != 0) & (row < capacity))


@triton.jit
def _received(recv_counts_ptr, dst, WORLD: tl.constexpr, RANKS: tl.constexpr):
    peer = tl.arange(0, RANKS)
    return tl.sum(tl.load(recv_counts_ptr + dst * WORLD + peer, mask=peer < WORLD, other=0))


@triton.jit
def _move(src, dst, width, used, BLOCK: tl.constexpr):
    # One row; zeros where the row of the destination is spare.
    for start in range(0, width, BLOCK):
        word = start + tl.arange(0, BLOCK)
        tl.store(dst + word, tl.load(src + word, mask=used & (word < width), other=0), mask=word < width)


@triton.jit
def ep_dispatch_kernel(
    ids_ptr, num_tokens_ptr,
    x_ptr, x_rank_stride, x_token_stride, x_words,
    scale_ptr, scale_rank_stride, scale_token_stride, scale_words,
    recv_ptr, recv_scale_ptr, recv_counts_ptr, recv_src_ptr, send_rows_ptr, tile_counts_ptr,
    max_tokens, tiles_per_rank, capacity, experts_per_rank, words_ptr, max_polls,
    WORLD: tl.constexpr, RANKS: tl.constexpr, TOPK: tl.constexpr,
    BLOCK_T: tl.constexpr, CHUNK: tl.constexpr, BLOCK_X: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Count, place, move: a rank's rows end up ordered by source rank, then by token.

    ``ids`` is contiguous ``[WORLD, max_tokens, TOPK]``; ``tile_counts`` is ``[WORLD * tiles_per_rank, RANKS]`` int32,
    for tiles of BLOCK_T tokens of one rank.  A row beyond the capacity is counted and has its place in ``send_rows``,
    but is not written.
    """
    _count(
        ids_ptr, num_tokens_ptr, tile_counts_ptr, max_tokens, tiles_per_rank, experts_per_rank,
        WORLD, RANKS, TOPK, BLOCK_T,
    )  # fmt: skip
    if grid_barrier(words_ptr, 1, max_polls):
        _place(
            ids_ptr, num_tokens_ptr, tile_counts_ptr, recv_counts_ptr, recv_src_ptr, send_rows_ptr,
            max_tokens, tiles_per_rank, capacity, experts_per_rank, WORLD, RANKS, TOPK, BLOCK_T, CHUNK,
        )  # fmt: skip
        if grid_barrier(words_ptr, 2, max_polls):
            for item in range(tl.program_id(0), WORLD * capacity, tl.num_programs(0)):
                used = item % capacity < _received(recv_counts_ptr, item // capacity, WORLD, RANKS)
                source = tl.load(recv_src_ptr + item, mask=used, other=0)
                tl.store(recv_src_ptr + item, -1, mask=~used)
                rank, token, row = (source // max_tokens).to(tl.int64), source % max_tokens, item.to(tl.int64)
                x = x_ptr + rank * x_rank_stride + token.to(tl.int64) * x_token_stride
                _move(x, recv_ptr + row * x_words, x_words, used, BLOCK_X)
                if scale_ptr is not None:
                    scale = scale_ptr + rank * scale_rank_stride + token.to(tl.int64) * scale_token_stride
                    _move(scale, recv_scale_ptr + row * scale_words, scale_words, used, BLOCK_S)
    grid_leave(words_ptr)


@triton.jit
def ep_combine_kernel(
    rows_ptr, rows_rank_stride, rows_row_stride,
    recv_counts_ptr, send_rows_ptr, exchange_ptr, out_ptr,
    max_tokens, capacity, hidden, words_ptr, max_polls,
    WORLD: tl.constexpr, RANKS: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Publish every rank's rows in the exchange buffer, then add up each token's rows in rank order.

    ``exchange`` is contiguous ``[WORLD, capacity, hidden]``, the memory that peers may read; its spare rows are neither
    written nor read.  A token with a row beyond the capacity becomes NaN.
    """
    for item in range(tl.program_id(0), WORLD * capacity, tl.num_programs(0)):
        dst, row = item // capacity, item % capacity
        if row < _received(recv_counts_ptr, dst, WORLD, RANKS):
            rows = rows_ptr + dst.to(tl.int64) * rows_rank_stride + row.to(tl.int64) * rows_row_stride
            _move(rows, exchange_ptr + item.to(tl.int64) * hidden, hidden, True, BLOCK_H)
    if grid_barrier(words_ptr, 1, max_polls):
        for item in range(tl.program_id(0), WORLD * max_tokens, tl.num_programs(0)):
            send_rows = send_rows_ptr + item.to(tl.int64) * WORLD
            out = out_ptr + item.to(tl.int64) * hidden
            for start in range(0, hidden, BLOCK_H):
                column = start + tl.arange(0, BLOCK_H)
                total = tl.zeros([BLOCK_H], tl.float32)
                for dst in tl.static_range(WORLD):
                    row = tl.load(send_rows + dst)
                    fits = (row >= 0) & (row < capacity)
                    part = exchange_ptr + (dst * capacity + row).to(tl.int64) * hidden + column
                    part = tl.load(part, mask=fits & (column < hidden), other=0.0).to(tl.float32)
                    total += tl.where(row >= capacity, float("nan"), part)
                tl.store(out + column, total.to(out_ptr.dtype.element_ty), mask=column < hidden)
    grid_leave(words_ptr)
