"""Argument checks of ``sparse_mla_decode``, all made before the first allocation and launch."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels._validate import (
    require_dtype,
    require_number,
    require_same_device,
    require_shape,
    require_stride,
)

#: Width of a row of Q, K and V: 448 dequantised "nope" dimensions and 64 bfloat16 "rope" dimensions.
HEAD_DIM = 512
#: Bytes of one token: 576 of data, 7 scales and their pad byte.
TOKEN_BYTES = 584
#: Splits beyond this only make the merge longer: it holds one row of every split in registers.
MAX_SPLITS = 64


@dataclass(frozen=True)
class Cache:
    """One paged cache and what is read from it: two views of the same bytes, and the token indices."""

    words: torch.Tensor
    scales: torch.Tensor
    indices: torch.Tensor
    length: torch.Tensor | None

    @property
    def page_size(self) -> int:
        """Tokens in a page."""
        return self.words.shape[1]

    @property
    def num_tokens(self) -> int:
        """Tokens in the pool: valid indices are below it."""
        return self.words.shape[0] * self.page_size

    @property
    def topk(self) -> int:
        """Index lanes of each request."""
        return self.indices.shape[2]


def check_queries(q: torch.Tensor, attn_sink: torch.Tensor | None) -> None:
    """Raise TypeError or ValueError unless ``q`` is bf16 [B, 1, H, 512] and ``attn_sink`` None or float32 [H]."""
    require_dtype("q", q, torch.bfloat16)
    require_shape("q", q, (None, 1, None, HEAD_DIM), "[B, 1, H, 512]")
    if q.shape[2] == 0:
        raise ValueError(f"q: wanted at least one head, got shape {list(q.shape)}")
    require_stride("q", q, 3, 1)
    if attn_sink is not None:
        require_dtype("attn_sink", attn_sink, torch.float32)
        require_shape("attn_sink", attn_sink, (q.shape[2],), "[H]")


def check_scalars(head_dim_v: int, softmax_scale: float | None, num_splits: int | None) -> float:
    """Return the softmax scale to use; raises TypeError or ValueError for a number outside its range."""
    for name, value, limit in (("head_dim_v", head_dim_v, HEAD_DIM), ("num_splits", num_splits, MAX_SPLITS)):
        if name == "num_splits" and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name}: wanted an int, got {type(value).__name__}")
        if not 1 <= value <= limit:
            raise ValueError(f"{name}: wanted 1 to {limit}, got {value}")
    return HEAD_DIM**-0.5 if softmax_scale is None else require_number("softmax_scale", softmax_scale)


def _check_pages(name: str, k_cache: torch.Tensor) -> None:
    require_dtype(name, k_cache, torch.float8_e4m3fn, torch.uint8)
    require_shape(name, k_cache, (None, None, 1, TOKEN_BYTES), "[num_pages, page_size, 1, 584]")
    num_pages, page_size = k_cache.shape[:2]
    if page_size == 0:
        raise ValueError(f"{name}: wanted at least one token in a page, got shape {list(k_cache.shape)}")
    if num_pages * page_size >= 2**31:
        raise ValueError(f"{name}: wanted fewer than 2^31 tokens, got {num_pages * page_size}")
    require_stride(name, k_cache, 3, 1)
    require_stride(name, k_cache, 1, TOKEN_BYTES)
    page_bytes = k_cache.stride(0)
    # A token's eight scale bytes are fetched as one word.
    if num_pages > 1 and (page_bytes < page_size * TOKEN_BYTES or page_bytes % 8):
        raise ValueError(
            f"{name}: wanted stride(0), the bytes of a page, a multiple of 8 and at least page_size * {TOKEN_BYTES} = "
            f"{page_size * TOKEN_BYTES}, got {page_bytes}"
        )
    if k_cache.data_ptr() % 8:
        raise ValueError(f"{name}: wanted an address that is a multiple of 8, got one {k_cache.data_ptr() % 8} past it")


def checked_cache(
    prefix: str,
    batch: int,
    k_cache: torch.Tensor,
    indices: torch.Tensor,
    topk_length: torch.Tensor | None,
) -> Cache:
    """Check one cache with its indices and lengths; ``prefix`` (``"extra_"``) completes the arguments' names.

    Raises TypeError for a dtype and ValueError for a shape, stride or alignment that the kernel does not support.
    """
    _check_pages(f"{prefix}k_cache", k_cache)
    require_dtype(f"{prefix}indices", indices, torch.int32, torch.int64)
    require_shape(f"{prefix}indices", indices, (batch, 1, None), "[B, 1, topk]")
    if topk_length is not None:
        require_dtype(f"{prefix}topk_length", topk_length, torch.int32, torch.int64)
        require_shape(f"{prefix}topk_length", topk_length, (batch,), "[B]")
    # A size of 1 may come with any stride; the views below need one that the wider types divide.
    pages, page_size = k_cache.shape[:2]
    strides = (k_cache.stride(0) if pages > 1 else page_size * TOKEN_BYTES, TOKEN_BYTES, TOKEN_BYTES, 1)
    plain = k_cache.as_strided(k_cache.shape, strides)
    return Cache(
        words=plain.view(torch.int32),
        scales=plain.view(torch.int64),
        indices=indices,
        length=topk_length,
    )


def check_extra_arguments(
    extra_k_cache: torch.Tensor | None, extra_indices: torch.Tensor | None, extra_topk_length: torch.Tensor | None
) -> None:
    """Raise ValueError unless the second cache comes with its indices, and neither part without the other."""
    if extra_k_cache is None and extra_indices is not None:
        raise ValueError("extra_k_cache: wanted a cache for extra_indices, got None")
    if extra_k_cache is not None and extra_indices is None:
        raise ValueError("extra_indices: wanted indices into extra_k_cache, got None")
    if extra_topk_length is not None and extra_k_cache is None:
        raise ValueError("extra_topk_length: wanted None without extra_k_cache, got a tensor")


def check_devices(q: torch.Tensor, attn_sink: torch.Tensor | None, caches: dict[str, Cache]) -> None:
    """Raise ValueError unless every tensor lies on the device of ``q``."""
    tensors = {"q": q}
    if attn_sink is not None:
        tensors["attn_sink"] = attn_sink
    for prefix, cache in caches.items():
        tensors[f"{prefix}k_cache"] = cache.words
        tensors[f"{prefix}indices"] = cache.indices
        if cache.length is not None:
            tensors[f"{prefix}topk_length"] = cache.length
    require_same_device(tensors)
