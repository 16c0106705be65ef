"""One paged FP8 cache of a sparse MLA decode, and the tokens that are read of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from harness.strategies.ids import INT32_MIN, WRAPPING, WRAPS_TO_ZERO
from harness.strategies.indices import IndexLists, Lengths, index_lists, lengths, logical_ids, referenced_tokens
from harness.strategies.paged import PAGE_SIZES, PagedCache, paged_caches
from harness.strategies.sizes import sizes
from harness.strategies.spec import Spec, require


@dataclass(frozen=True, kw_only=True, repr=False)
class Part(Spec):
    """One paged cache, and the lanes that each row reads of it."""

    cache: PagedCache
    lists: IndexLists
    lengths: Lengths = None

    def __post_init__(self) -> None:
        given = self.lengths is None or len(self.lengths) == self.lists.num_rows
        require(given, "lengths", f"None or {self.lists.num_rows} lengths", self.lengths)

    @property
    def referenced(self) -> tuple[int, ...]:
        """The logical tokens that some row reads, in order."""
        return tuple(sorted(referenced_tokens(self.lists, self.cache, self.lengths)))

    @property
    def rows(self) -> list[list[int]]:
        """The ids in the lanes that count, row by row: logical tokens, and invalid ids as they stand."""
        ids = logical_ids(self.lists, self.cache).tolist()
        limits = self.lengths or (self.lists.topk,) * len(ids)
        return [row[: max(limit, 0)] for row, limit in zip(ids, limits, strict=True)]


@st.composite
def parts(draw: st.DrawFn, *, batch: int, max_pages: int, long_lists: tuple[int, ...] = ()) -> Part:
    """Parts of up to ``max_pages`` pages with 1 to 33 lanes a row, or one of ``long_lists``."""
    dtypes = (torch.float8_e4m3fn, torch.uint8)
    cache = draw(paged_caches(page_sizes=PAGE_SIZES, max_pages=max_pages, dtypes=dtypes))
    short_lists = sizes(tile=16, min_size=1, max_size=33)
    topk = draw(short_lists | st.sampled_from(long_lists) if long_lists else short_lists)
    lists = draw(index_lists(cache=cache, num_rows=batch, topk=topk))
    return Part(cache=cache, lists=lists, lengths=draw(lengths(num_rows=batch, topk=topk)))


def part_features(part: Part) -> set[str]:
    """Name what is special about ``part``; one token of a dense FP8 page has nothing."""
    cache, limits = part.cache, part.lengths or ()
    counted = [index for row in part.rows for index in row]
    tags = {
        "invalid index -1": -1 in counted,
        "index >= pool": any(cache.pool <= index < WRAPS_TO_ZERO for index in counted),
        "index INT32_MIN": INT32_MIN in counted,
        "index past 32 bits": not set(counted).isdisjoint(WRAPPING),
        "int64 indices": part.lists.dtype == torch.int64,
        "duplicates": any(len(set(row)) < len(row) for row in ([i for i in r if i >= 0] for r in part.rows)),
        "topk_length": part.lengths is not None,
        "length < topk": any(0 < limit < part.lists.topk for limit in limits),
        "length <= 0": any(limit <= 0 for limit in limits),
        "length > topk": any(limit > part.lists.topk for limit in limits),
        "uint8 cache": cache.dtype == torch.uint8,
        "page padding": cache.page_padding > 0 and not cache.far,
        "far pages": cache.far,
        "pages out of order": cache.page_order != tuple(range(cache.num_pages)) and not cache.far,
    }
    return {tag for tag, present in tags.items() if present}
