"""Sparse MLA decode over paged FP8 caches: tensor-core flash decoding, two caches in one softmax, split over tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton

from harness import implements
from harness.device.capabilities import has_tensor_memory, has_wgmma
from harness.device.targets import Target
from harness.launch.current import current_target
from kernels._sparse_mla_arguments import (
    MAX_SPLITS,
    Cache,
    check_devices,
    check_extra_arguments,
    check_queries,
    check_scalars,
    checked_cache,
)
from kernels._sparse_mla_kernels import LOG2_E, combine_splits_kernel, sparse_mla_decode_kernel


@dataclass(frozen=True)
class Tile:
    """One launch configuration: heads and tokens of a program's tile, warps that work on it."""

    block_h: int
    block_t: int
    num_warps: int


#: Every configuration that is launched: at most 90,112 of the 101,376 bytes of shared memory of an sm_120 block, and no
#: spills on NVIDIA's targets.  There, 4 warps on 16 heads spill up to 144 bytes a thread.
FEW_HEADS = Tile(16, 32, 8)
MANY_HEADS = Tile(32, 32, 8)
#: For targets without wgmma or tcgen05, where 32 tokens spill up to 80 bytes a thread.
MANY_HEADS_SYNCHRONOUS = Tile(32, 16, 8)
#: For AMD, whose waves have more registers.
FEW_HEADS_AMD = Tile(16, 32, 4)
#: Programs that fill a GPU once (SM counts are 78 to 188); a smaller grid is split over tokens up to this.
TARGET_PROGRAMS = 128
#: Columns of one program of the merge.
COMBINE_BLOCK_D = 128
# Tensors of the virtual GPU are the CPU's: its default target.
_VIRTUAL_TARGET = "sm_120"


def choose_tile(batch: int, num_heads: int, target: Target) -> Tile:
    """Return the tile for ``batch`` requests of ``num_heads`` heads.

    Decided from shapes and target only, so that a launch can be captured in a graph. Wide tiles read each token once
    for more heads; narrow ones spread few requests over more programs.
    """
    if num_heads <= 16 or batch < 8:
        return FEW_HEADS if target.vendor == "cuda" else FEW_HEADS_AMD
    asynchronous = has_wgmma(target) or has_tensor_memory(target)
    return MANY_HEADS if asynchronous or target.vendor == "rocm" else MANY_HEADS_SYNCHRONOUS


def choose_num_splits(programs: int, tiles: int) -> int:
    """Return how many programs share the ``tiles`` token tiles of a row, given the ``programs`` of an unsplit grid."""
    return max(1, min(tiles, TARGET_PROGRAMS // programs, MAX_SPLITS))


def _cache_arguments(cache: Cache | None) -> tuple[Any, ...]:
    if cache is None:
        return (None, None, None, 0, 0, 0, 0, None, 0, 0, 0, None, 0)
    return (
        cache.codes,
        cache.rope,
        cache.scales,
        cache.codes.stride(0),
        cache.rope.stride(0),
        cache.scales.stride(0),
        cache.num_tokens,
        cache.indices,
        cache.indices.stride(0),
        cache.indices.stride(2),
        cache.topk,
        cache.length,
        0 if cache.length is None else cache.length.stride(0),
    )


@implements("sparse_mla_decode", name="triton")
def sparse_mla_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    indices: torch.Tensor,
    *,
    topk_length: torch.Tensor | None = None,
    attn_sink: torch.Tensor | None = None,
    head_dim_v: int = 512,
    softmax_scale: float | None = None,
    extra_k_cache: torch.Tensor | None = None,
    extra_indices: torch.Tensor | None = None,
    extra_topk_length: torch.Tensor | None = None,
    num_splits: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend one query token of every request to the cached tokens that ``indices`` name.

    ``q`` bf16 [B, 1, H, 512]. ``k_cache`` float8_e4m3fn or uint8, a view [num_pages, page_size, 1, 584] whose
    stride(0) is the bytes of a page: ``page_size * 576`` data bytes (448 e4m3, then 64 bf16 for each token), then
    ``page_size * 8`` scale bytes (7 UE8M0 and a pad byte). ``indices`` int32/int64 [B, 1, topk] are
    ``page * page_size + offset``; an index outside the pool, or at a position from ``topk_length`` [B] on, is
    ignored and never dereferenced. ``attn_sink`` float32 [H] joins the softmax's denominator only. The ``extra_*``
    arguments are a second cache, with its own page size, in the same softmax. ``softmax_scale`` defaults to
    512^-0.5. ``num_splits`` (1 to 64) forces the number of programs that share one row; the result is
    deterministic for each.

    Returns ``out`` bf16 [B, 1, H, head_dim_v], rounded once, and ``lse`` float32 [B, H]: natural logarithm, without
    the sink. A row with no valid token, or with only scores of -inf, gives out 0 and lse -inf. Score products are
    accumulated in float32, the softmax weights enter the second product as bfloat16.

    Raises TypeError or ValueError naming the argument before any allocation or launch.
    """
    check_queries(q, attn_sink)
    scale = check_scalars(head_dim_v, softmax_scale, num_splits)
    check_extra_arguments(extra_k_cache, extra_indices, extra_topk_length)
    batch, _, num_heads, _ = q.shape
    cache = checked_cache("", batch, k_cache, indices, topk_length)
    extra = None
    if extra_k_cache is not None and extra_indices is not None:
        extra = checked_cache("extra_", batch, extra_k_cache, extra_indices, extra_topk_length)
    check_devices(q, attn_sink, {"": cache} if extra is None else {"": cache, "extra_": extra})

    tile = choose_tile(batch, num_heads, current_target(q.device, _VIRTUAL_TARGET))
    programs = batch * triton.cdiv(num_heads, tile.block_h)
    token_tiles = sum(triton.cdiv(part.topk, tile.block_t) for part in (cache, extra) if part is not None)
    out = torch.empty((batch, 1, num_heads, head_dim_v), dtype=torch.bfloat16, device=q.device)
    lse = torch.empty((batch, num_heads), dtype=torch.float32, device=q.device)
    if batch == 0:
        return out, lse
    splits = choose_num_splits(programs, token_tiles) if num_splits is None else num_splits
    partials: tuple[torch.Tensor | None, ...] = (None, None, None)
    if splits > 1:
        rows = (batch, splits, num_heads)
        partials = tuple(
            torch.empty(shape, dtype=torch.float32, device=q.device) for shape in ((*rows, head_dim_v), rows, rows)
        )
    sink = (attn_sink, 0 if attn_sink is None else attn_sink.stride(0))
    sparse_mla_decode_kernel[(programs, splits)](
        q,
        q.stride(0),
        q.stride(2),
        *_cache_arguments(cache),
        *_cache_arguments(extra),
        *sink,
        out,
        lse,
        *partials,
        scale * LOG2_E.value,
        num_heads,
        splits,
        triton.cdiv(token_tiles, splits),
        HAS_LENGTH=cache.length is not None,
        HAS_EXTRA=extra is not None,
        HAS_EXTRA_LENGTH=extra is not None and extra.length is not None,
        HAS_SINK=attn_sink is not None,
        IS_SPLIT=splits > 1,
        PAGE_SIZE=cache.page_size,
        EXTRA_PAGE_SIZE=cache.page_size if extra is None else extra.page_size,
        HEAD_DIM_V=head_dim_v,
        BLOCK_H=tile.block_h,
        BLOCK_T=tile.block_t,
        num_warps=tile.num_warps,
    )
    if splits > 1:
        combine_splits_kernel[(batch * num_heads, triton.cdiv(head_dim_v, COMBINE_BLOCK_D))](
            *partials,
            *sink,
            out,
            lse,
            num_heads,
            splits,
            HAS_SINK=attn_sink is not None,
            HEAD_DIM_V=head_dim_v,
            BLOCK_S=triton.next_power_of_2(splits),
            BLOCK_D=COMBINE_BLOCK_D,
            num_warps=4,
        )
    return out, lse


@implements("sparse_mla_decode", name="split")
def sparse_mla_decode_split(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Run ``sparse_mla_decode`` over three splits, empty ones included."""
    return sparse_mla_decode(*args, **kwargs, num_splits=3)


@implements("sparse_mla_decode", name="single")
def sparse_mla_decode_single(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Run ``sparse_mla_decode`` with every row in one program."""
    return sparse_mla_decode(*args, **kwargs, num_splits=1)
