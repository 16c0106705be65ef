"""Sparse MLA decode over paged FP8 caches: tensor-core flash decoding, two caches in one softmax, split over tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton

from harness import Capturable, Compiles, Expected, implements
from harness.device.capabilities import has_tensor_memory, has_wgmma
from harness.device.targets import Target
from harness.launch.current import current_target
from kernels._e4m3_words import refused_without_e4m3
from kernels._overlap import can_overlap, overlap_option
from kernels._sparse_mla_arguments import (
    MAX_SPLITS,
    Cache,
    check_devices,
    check_extra_arguments,
    check_queries,
    check_scalars,
    checked_cache,
)
from kernels._sparse_mla_kernels import sparse_mla_decode_kernel
from kernels._sparse_mla_merge import LOG2_E, combine_splits_kernel


@dataclass(frozen=True)
class Tile:
    """One launch configuration: heads and tokens of a program's tile, warps that work on it."""

    block_h: int
    block_t: int
    num_warps: int

    @property
    def warps_along_tokens(self) -> int:
        """Warps that share a row of scores: a matrix product has 16 rows a warp, and NVIDIA's at least 8 columns.

        One for ``AMD``: Triton 3.7 fails on a WMMA layout with fewer than 16 columns.
        """
        return 1 if self == AMD else min(max(1, self.num_warps * 16 // self.block_h), self.block_t // 8)


FEW_HEADS = Tile(16, 32, 4)
#: For targets whose blocks have 99 KiB of shared memory: at most 100,352 of sm_120's 101,376 bytes, no spills.
SOME_HEADS = Tile(32, 32, 8)
MANY_HEADS = Tile(64, 16, 8)
#: Hopper's wgmma takes 64 heads; q and one tile of K take 128 KiB. With a second cache 64 tokens spill up to 32 bytes.
MANY_HEADS_HOPPER = Tile(64, 64, 8)
MANY_HEADS_HOPPER_TWO_CACHES = Tile(64, 32, 8)
#: For AMD: 32 tokens spill on gfx942 with 8 warps and take gfx1250's compiler minutes. gfx1100, whose 16 x 512 sums
#: alone are half of a thread's registers, spills up to 940 bytes even so.
AMD = Tile(16, 16, 4)
#: Tiles whose splits hand over float16 where it holds their numbers. Others have no registers left to look.
PACKED = (FEW_HEADS, SOME_HEADS, MANY_HEADS_HOPPER, MANY_HEADS_HOPPER_TWO_CACHES)
#: Programs that fill a GPU once (SM counts are 78 to 188); a smaller grid is split over tokens up to this.
TARGET_PROGRAMS = 128
#: Numbers that one program, one warp, of the merge loads.
COMBINE_ELEMENTS = 2048
#: Decode by inline PTX where the target can: the portable form has the same bits.
PTX = True
# Tensors of the virtual GPU are the CPU's: its default target.
_VIRTUAL_TARGET = "sm_120"


def _graph(heads: int, rows: int, topk: int, extra: int = 0, *, sink: str = "none", lengths: str = "None") -> str:
    """Return a case of a graph: ``topk`` tokens of one cache, and ``extra`` of a second one, of ``lengths``."""
    second = (
        f", extra=Part(cache=PagedCache(page_size=2, num_tokens=6, page_order=(2, 1, 0)), "
        f"lists=IndexLists(num_rows={rows}, topk={extra}), lengths={lengths})"
    )
    return (
        f"Case(num_heads={heads}, main=Part(cache=PagedCache(page_size=64, num_tokens=130, page_order=(2, 0, 1)), "
        f"lists=IndexLists(num_rows={rows}, topk={topk}))" + (second if extra else "") + f", sink={sink!r})"
    )


# Few heads a tile, some and many; one cache and two, and lengths of one; whole, and in 2, 8 and 32 splits or nearly,
# of one tile and of more.
_FEW = (_graph(33, 1, 128, 512, sink="plain"), _graph(33, 1, 1024))
_SOME = _graph(17, 8, 33, sink="plain")
_MANY = (_graph(33, 16, 96, 200, sink="plain"), _graph(33, 16, 260))
_LENGTHS = _graph(33, 8, 33, 5, sink="plain", lengths="(5, 0, 3, 5, 1, 2, 5, 4)")
_FEWER_SPLITS = (_graph(33, 64, 40, 16, sink="plain"), _graph(33, 64, 130), _graph(33, 128, 65))
_FORCED = Capturable(cases=(*_FEW, *_MANY, _LENGTHS))
_GRAPHS = Capturable(cases=(*_FORCED.cases, _SOME, *_FEWER_SPLITS))


_KNOWN = Compiles(
    expected=(
        refused_without_e4m3("sparse_mla_decode_kernel"),
        Expected(
            verdict="SPILLS",
            targets=("gfx1100",),
            says="bytes stored",
            because="the 16 x 512 sums of the smallest tile are half of the 256 registers of a thread of four waves",
            kernel="sparse_mla_decode_kernel",
        ),
    )
)


def choose_tile(batch: int, num_heads: int, caches: int, target: Target) -> Tile:
    """Return the tile for ``batch`` requests of ``num_heads`` heads over one or two ``caches``.

    Decided from shapes and target only, so that a launch can be captured in a graph. Wide tiles read each token once
    for more heads; narrow ones spread few requests over more programs.
    """
    if target.vendor == "rocm":
        return AMD
    if num_heads <= 16 or batch < 8:
        return FEW_HEADS
    if num_heads <= 32:
        return SOME_HEADS
    if has_wgmma(target):
        return MANY_HEADS_HOPPER if caches == 1 else MANY_HEADS_HOPPER_TWO_CACHES
    # 64 heads are multiplied in tensor memory, and what goes there and comes back spills up to 124 bytes
    return SOME_HEADS if has_tensor_memory(target) else MANY_HEADS


def choose_num_splits(programs: int, tiles: int) -> int:
    """Return how many programs share the ``tiles`` token tiles of a row, given the ``programs`` of an unsplit grid."""
    return max(1, min(tiles, TARGET_PROGRAMS // programs, MAX_SPLITS))


def _cache_arguments(cache: Cache | None) -> tuple[Any, ...]:
    if cache is None:
        return (None, None, 0, 0, None, 0, 0, 0, None, 0)
    return (
        cache.words,
        cache.scales,
        cache.words.stride(0) * cache.words.element_size(),
        cache.num_tokens,
        cache.indices,
        cache.indices.stride(0),
        cache.indices.stride(2),
        cache.topk,
        cache.length,
        0 if cache.length is None else cache.length.stride(0),
    )


@implements("sparse_mla_decode", name="triton", compiles=_KNOWN, capturable=_GRAPHS)
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
    ignored and never dereferenced. A cache has fewer than 2^31 tokens. ``attn_sink`` float32 [H] joins the softmax's
    denominator only. The ``extra_*`` arguments are a second cache, with its own page size, in the same softmax.
    ``softmax_scale`` defaults to 512^-0.5. ``num_splits`` (1 to 64) forces the number of programs that share one row;
    the result is deterministic for each.

    Returns ``out`` bf16 [B, 1, H, head_dim_v], rounded once, and ``lse`` float32 [B, H]: natural logarithm, without
    the sink. A row with no valid token, or with only scores of -inf, gives out 0 and lse -inf. Score products are
    accumulated in float32, the softmax weights enter the second product as bfloat16; one below 2^-125 of the row's sum
    keeps fewer than its 8 bits, or counts for nothing.

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

    topks = [part.topk for part in (cache, extra) if part is not None]
    target = current_target(q.device, _VIRTUAL_TARGET)
    tile = choose_tile(batch, num_heads, len(topks), target)
    programs = batch * triton.cdiv(num_heads, tile.block_h)
    token_tiles = sum(triton.cdiv(topk, tile.block_t) for topk in topks)
    out = torch.empty((batch, 1, num_heads, head_dim_v), dtype=torch.bfloat16, device=q.device)
    lse = torch.empty((batch, num_heads), dtype=torch.float32, device=q.device)
    if batch == 0:
        return out, lse
    splits = choose_num_splits(programs, token_tiles) if num_splits is None else num_splits
    partials: tuple[torch.Tensor | None, ...] = (None,) * 5
    if splits > 1:
        rows = (batch, splits, num_heads)
        wide = torch.empty((*rows, head_dim_v), dtype=torch.float32, device=q.device)
        top, total, unit = (torch.empty(rows, dtype=torch.float32, device=q.device) for _ in range(3))
        partials = (wide, None, None, top, total)
        if tile in PACKED:
            partials = (torch.empty(wide.shape, dtype=torch.float16, device=q.device), wide, unit, top, total)
    overlap = splits > 1 and can_overlap(target)
    sink = (attn_sink, 0 if attn_sink is None else attn_sink.stride(0))
    # Triton launches on the current device, which need not be the tensors'.
    with torch.cuda.device_of(q):
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
            SUMS=tile.warps_along_tokens,
            OVERLAP=overlap,
            ONE_TILE=splits >= token_tiles,
            PTX=PTX,
            num_warps=tile.num_warps,
        )
        if splits > 1:
            block_s = triton.next_power_of_2(splits)
            block_d = max(64, min(512, COMBINE_ELEMENTS // block_s))
            combine_splits_kernel[(batch * num_heads, triton.cdiv(head_dim_v, block_d))](
                *partials,
                *sink,
                out,
                lse,
                num_heads,
                splits,
                HAS_SINK=attn_sink is not None,
                HEAD_DIM_V=head_dim_v,
                BLOCK_S=block_s,
                BLOCK_D=block_d,
                OVERLAP=overlap,
                num_warps=1,
                **overlap_option(q, overlap),
            )
    return out, lse


@implements("sparse_mla_decode", name="split", compiles=_KNOWN, capturable=_FORCED)
def sparse_mla_decode_split(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Run ``sparse_mla_decode`` over three splits, empty ones included."""
    return sparse_mla_decode(*args, **kwargs, num_splits=3)


@implements("sparse_mla_decode", name="single", compiles=_KNOWN, capturable=_FORCED)
def sparse_mla_decode_single(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Run ``sparse_mla_decode`` with every row in one program."""
    return sparse_mla_decode(*args, **kwargs, num_splits=1)
