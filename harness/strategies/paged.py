"""Paged caches: where each token lies, and bytes nobody may look at everywhere else.

A *logical* token is a number counted from 0; a *slot* is the token index a kernel gets:
``physical_page * page_size + offset``.  Two caches in one case are two draws of ``paged_caches``::

    cache = draw(paged_caches(page_sizes=(64,)))
    extra_cache = draw(st.none() | paged_caches(page_sizes=(2, 16)))
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from harness.poison import Poison
from harness.strategies.address_space import uncommitted
from harness.strategies.sizes import sizes
from harness.strategies.spec import Spec, require

PAGE_SIZES = (1, 2, 16, 64, 256)
#: Page 2 of a far pool starts past 2^31 bytes, while the stride itself still fits 32 bits.
FAR_STRIDE = 2**30
FAR_PAGES = 3


@dataclass(frozen=True, kw_only=True, repr=False)
class TokenLayout(Spec):
    """Bytes of one token in a page.

    ``split``: a page is ``[page_size * data_bytes][page_size * scale_bytes][padding]``; otherwise it is
    ``page_size`` records of data and scales.  The last ``pad_bytes`` of a token's scales are never read.
    The stride of a padded page is a multiple of ``page_multiple`` bytes.
    """

    data_bytes: int = 576
    scale_bytes: int = 8
    pad_bytes: int = 1
    page_multiple: int = 576
    split: bool = True

    def __post_init__(self) -> None:
        require(self.data_bytes >= 1, "data_bytes", "at least 1", self.data_bytes)
        require(self.scale_bytes >= 0, "scale_bytes", "at least 0", self.scale_bytes)
        require(0 <= self.pad_bytes <= self.scale_bytes, "pad_bytes", "at most scale_bytes", self.pad_bytes)
        require(self.page_multiple >= 1, "page_multiple", "at least 1", self.page_multiple)

    @property
    def token_bytes(self) -> int:
        """Bytes of one token, data and scales."""
        return self.data_bytes + self.scale_bytes

    def padded(self, size: int) -> int:
        """Return ``size`` rounded up to a multiple of ``page_multiple``."""
        return -(-size // self.page_multiple) * self.page_multiple


#: 448 e4m3 + 64 bf16, then 7 E8M0 scales and a pad byte: 584 bytes, pages of 576 k bytes.
MLA_TOKEN = TokenLayout()


def row_layout(row_bytes: int) -> TokenLayout:
    """Return the plain layout ``[page_size, row_bytes]``, whose pages need no padding."""
    return TokenLayout(data_bytes=row_bytes, scale_bytes=0, pad_bytes=0, page_multiple=1, split=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class PagedCache(Spec):
    """A pool of pages of which logical pages ``0 .. ceil(num_tokens / page_size) - 1`` are used.

    ``page_order[i]`` is the physical page that holds logical page ``i``; it is a permutation of all
    physical pages, so those past the used ones are unused.  ``page_padding`` bytes end each page.
    ``far``: pages lie ``FAR_STRIDE`` bytes apart.  ``dtype`` is that of the view.
    """

    page_size: int
    num_tokens: int
    page_order: tuple[int, ...]
    page_padding: int = 0
    far: bool = False
    dtype: torch.dtype = torch.uint8
    token: TokenLayout = MLA_TOKEN

    def __post_init__(self) -> None:
        require(self.page_size >= 1, "page_size", "at least 1", self.page_size)
        require(
            sorted(self.page_order) == list(range(len(self.page_order))) and bool(self.page_order),
            "page_order",
            "a permutation of at least one page",
            self.page_order,
        )
        require(0 <= self.num_tokens <= self.pool, "num_tokens", f"at most {self.pool} tokens", self.num_tokens)
        require(self.page_padding >= 0, "page_padding", "at least 0 bytes", self.page_padding)
        require(self.dtype in (torch.uint8, torch.float8_e4m3fn), "dtype", "uint8 or float8_e4m3fn", self.dtype)

    @property
    def num_pages(self) -> int:
        """Pages in the pool, unused ones included."""
        return len(self.page_order)

    @property
    def pool(self) -> int:
        """Slots in the pool: the first index that is invalid for being too large."""
        return self.num_pages * self.page_size

    @property
    def page_bytes(self) -> int:
        """Bytes from one page to the next: ``stride(0)`` of the view."""
        packed = self.page_size * self.token.token_bytes + self.page_padding
        return max(packed, self.token.padded(FAR_STRIDE)) if self.far else packed

    def slot(self, token: int) -> int:
        """Return the slot of logical ``token``, which is what a kernel is given to find it."""
        return self.page_order[token // self.page_size] * self.page_size + token % self.page_size


@st.composite
def _paged_caches(
    draw: st.DrawFn,
    page_sizes: tuple[int, ...],
    token_layout: TokenLayout,
    max_pages: int,
    min_tokens: int,
    dtypes: tuple[torch.dtype, ...],
    far: bool,
) -> PagedCache:
    is_far = far and draw(st.sampled_from((False,) * 7 + (True,)))
    page_size = draw(st.sampled_from(page_sizes))
    fewest = FAR_PAGES if is_far else max(1, -(-min_tokens // page_size))
    num_pages = draw(st.integers(fewest, max(fewest, FAR_PAGES + 1) if is_far else max_pages))
    # the simplest far cache uses its last page first: the pages that matter are those past 2^31
    pages = range(num_pages - 1, -1, -1) if is_far else range(num_pages)
    page_order = draw(st.permutations(pages))
    pool = num_pages * page_size
    num_tokens = draw(sizes(tile=page_size, min_size=min_tokens, max_size=pool))
    dense = page_size * token_layout.token_bytes
    normal = token_layout.padded(dense) - dense
    return PagedCache(
        page_size=page_size,
        num_tokens=num_tokens,
        page_order=tuple(page_order),
        page_padding=draw(st.sampled_from(sorted({0, normal, normal + token_layout.padded(64)}))),
        far=is_far,
        dtype=draw(st.sampled_from(dtypes)),
        token=token_layout,
    )


def paged_caches(
    *,
    page_sizes: Sequence[int] = PAGE_SIZES,
    token_layout: TokenLayout = MLA_TOKEN,
    max_pages: int = 4,
    min_tokens: int = 1,
    dtypes: Sequence[torch.dtype] = (torch.uint8, torch.float8_e4m3fn),
    far: bool = True,
) -> st.SearchStrategy[PagedCache]:
    """Caches of up to ``max_pages`` pages (up to four for far ones) that hold at least ``min_tokens`` tokens.

    Reaches shuffled and unused pages, a partial last page, dense, padded and strided pages, and, with
    ``far``, pools whose byte offsets pass 2^31.  Shrinks to one dense page in order.
    Raises ValueError on impossible arguments.
    """
    require(bool(page_sizes) and min(page_sizes) >= 1, "page_sizes", "sizes of at least 1", page_sizes)
    require(max_pages >= 1, "max_pages", "at least 1", max_pages)
    room = min(page_sizes) * (min(max_pages, FAR_PAGES) if far else max_pages)
    require(0 <= min_tokens <= room, "min_tokens", f"at most {room}, the room in the smallest pool", min_tokens)
    require(bool(dtypes), "dtypes", "at least one dtype", dtypes)
    for dtype in dtypes:
        require(dtype in (torch.uint8, torch.float8_e4m3fn), "dtypes", "uint8 or float8_e4m3fn", dtype)
    return _paged_caches(tuple(page_sizes), token_layout, max_pages, min_tokens, tuple(dtypes), far)


def build_cache(
    spec: PagedCache,
    token_bytes: torch.Tensor,
    poison: Poison,
    device: torch.device | str = "cpu",
    *,
    referenced: Collection[int] | None = None,
) -> torch.Tensor:
    """Return the cache ``[num_pages, page_size, 1, token.token_bytes]`` of ``spec.dtype``; stride(0) is ``page_bytes``.

    ``token_bytes`` is uint8 ``[num_tokens, token.token_bytes]``: data, then scales, of each logical token.
    Tokens outside ``referenced`` (default: all are in it) are poison too.  Regions: "unused pages",
    "unreferenced tokens", "page padding", "token pad bytes".  A far pool is only touched in its pages
    and costs a CPU nothing but address space (a GPU its full size): never clone or fill its storage.
    Raises ValueError where ``token_bytes`` or ``referenced`` does not belong to ``spec``.
    """
    wanted = (spec.num_tokens, spec.token.token_bytes)
    require(tuple(token_bytes.shape) == wanted, "token_bytes", f"uint8 {wanted}", tuple(token_bytes.shape))
    require(token_bytes.dtype == torch.uint8, "token_bytes", "torch.uint8", token_bytes.dtype)
    chosen = sorted(range(spec.num_tokens) if referenced is None else referenced)
    known = not chosen or (chosen[0] >= 0 and chosen[-1] < spec.num_tokens)
    require(known, "referenced", f"tokens of {spec.num_tokens}", referenced)
    slots = torch.tensor([spec.slot(token) for token in chosen], dtype=torch.int64)
    return write_slots(spec, slots, token_bytes[chosen], poison, device=device)


def write_slots(
    spec: PagedCache,
    slots: torch.Tensor,
    token_bytes: torch.Tensor,
    poison: Poison,
    *,
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """Return the cache of ``build_cache`` with ``token_bytes[i]`` in slot ``slots[i]`` and poison elsewhere."""
    token, page_size, packed = spec.token, spec.page_size, spec.page_size * spec.token.token_bytes
    occupied = torch.zeros(spec.num_pages, page_size, dtype=torch.bool)
    occupied.view(-1)[slots] = True
    content = torch.zeros(spec.num_pages, page_size, token.token_bytes, dtype=torch.uint8)
    unused = ~occupied.any(dim=1)
    regions = {"unused pages": unused[:, None] & ~occupied, "unreferenced tokens": ~unused[:, None] & ~occupied}
    content.view(-1, token.token_bytes)[slots] = token_bytes.cpu()
    if token.pad_bytes and slots.numel():
        poison.fill_(content[:, :, -token.pad_bytes :], "token pad bytes")
    for region, mask in regions.items():
        if mask.any():
            content[mask] = poison.fill_(torch.empty(token.token_bytes, dtype=torch.uint8), region)

    reach, size = packed + spec.page_padding, spec.num_pages * spec.page_bytes
    # only the bytes written below cost memory, which is what makes a far pool affordable
    storage = uncommitted(size, torch.uint8, device) if spec.far else content.new_empty(size, device=device)
    pages = storage.as_strided((spec.num_pages, reach), (spec.page_bytes, 1))
    if token.split:
        data = content[:, :, : token.data_bytes].reshape(spec.num_pages, -1)
        scales = content[:, :, token.data_bytes :].reshape(spec.num_pages, -1)
        content = torch.cat([data, scales], dim=1)
    pages[:, :packed].copy_(content.reshape(spec.num_pages, packed))
    if spec.page_padding:
        poison.fill_(pages[:, packed:], "page padding")
    shape = (spec.num_pages, page_size, 1, token.token_bytes)
    return storage.as_strided(shape, (spec.page_bytes, token.token_bytes, token.token_bytes, 1)).view(spec.dtype)


def alone(cache: torch.Tensor) -> torch.Tensor:
    """Return ``cache``, and of a pool of one page a view whose stride of pages is 1: nobody may use it."""
    return cache.as_strided(cache.shape, (1, *cache.stride()[1:])) if len(cache) == 1 else cache
