"""Which tokens of a paged cache each row attends to: token indices, lengths and block tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from harness.poison import Poison
from harness.strategies.ids import ID_DTYPES, invalid_ids
from harness.strategies.paged import PagedCache
from harness.strategies.spec import Spec, derived_seed, require

Lengths = tuple[int, ...] | None


@dataclass(frozen=True, kw_only=True, repr=False)
class IndexLists(Spec):
    """``topk`` token indices for each of ``num_rows`` rows.

    Lane ``j`` of row ``r`` names logical token ``(r + j) % num_tokens`` for ``shuffle`` 0 and a random one
    (seeded by ``shuffle``) otherwise; ``filled[r]`` lanes are so filled (None: all) and the rest are -1.
    ``planted`` holds (row, lane, id) exceptions: an id below ``num_tokens`` is a logical token, any other
    is an invalid index as it stands.
    """

    num_rows: int
    topk: int
    shuffle: int = 0
    filled: tuple[int, ...] | None = None
    planted: tuple[tuple[int, int, int], ...] = ()
    dtype: torch.dtype = torch.int32

    def __post_init__(self) -> None:
        require(self.num_rows >= 0, "num_rows", "at least 0", self.num_rows)
        require(self.topk >= 0, "topk", "at least 0", self.topk)
        require(self.dtype in ID_DTYPES, "dtype", "torch.int32 or torch.int64", self.dtype)
        if self.filled is not None:
            require(len(self.filled) == self.num_rows, "filled", f"{self.num_rows} counts", self.filled)
        limits = torch.iinfo(self.dtype)
        for row, lane, index in self.planted:
            inside = 0 <= row < self.num_rows and 0 <= lane < self.topk
            require(inside, "planted", f"places in [{self.num_rows}, {self.topk}]", (row, lane))
            require(limits.min <= index <= limits.max, "planted", f"ids that fit {self.dtype}", index)


def _edge_tokens(cache: PagedCache) -> list[int]:
    """Return the tokens in use at the edges: the first and last logical ones, and those in the first and last slot."""
    in_first_slot = cache.page_order.index(0) * cache.page_size
    in_last_slot = (cache.page_order.index(cache.num_pages - 1) + 1) * cache.page_size - 1
    edges = (0, cache.num_tokens - 1, in_first_slot, in_last_slot)
    return list(dict.fromkeys(token for token in edges if token < cache.num_tokens))


@st.composite
def _index_lists(
    draw: st.DrawFn, cache: PagedCache, num_rows: int, topk: int, dtypes: tuple[torch.dtype, ...], invalid: bool
) -> IndexLists:
    dtype = draw(st.sampled_from(dtypes))
    filled: tuple[int, ...] | None = None
    planted: list[tuple[int, int, int]] = []
    if num_rows and topk:
        ids = [st.sampled_from(_edge_tokens(cache))] if cache.num_tokens else []
        if invalid:
            filled = draw(st.none() | st.tuples(*[st.integers(0, topk)] * num_rows))
            # the last one again: for int64 it is the id that half of all draws, those of int32, cannot have
            common, *rare = invalid_ids(limit=cache.pool, dtype=dtype)
            ids.append(st.sampled_from([common, common, common, *rare, rare[-1]]))
        if ids:
            entries = st.tuples(st.integers(0, num_rows - 1), st.integers(0, topk - 1), st.one_of(ids))
            planted = draw(st.lists(entries, max_size=6, unique_by=lambda entry: entry[:2]))
    return IndexLists(
        num_rows=num_rows,
        topk=topk,
        shuffle=draw(st.integers(0, 7)),
        filled=filled,
        planted=tuple(sorted(planted)),
        dtype=dtype,
    )


def index_lists(
    *,
    cache: PagedCache,
    num_rows: int,
    topk: int,
    dtypes: Sequence[torch.dtype] = ID_DTYPES,
    invalid: bool = True,
) -> st.SearchStrategy[IndexLists]:
    """Index lists into ``cache``: duplicates, first and last token, and, with ``invalid``, ids outside the pool.

    Invalid ids are those of ``ids.invalid_ids``, -1 most often, single or as the tail of a row.
    Shrinks to the tokens in order.  Raises ValueError on impossible arguments.
    """
    require(num_rows >= 0, "num_rows", "at least 0", num_rows)
    require(topk >= 0, "topk", "at least 0", topk)
    require(bool(dtypes) and set(dtypes) <= set(ID_DTYPES), "dtypes", "torch.int32 or torch.int64", dtypes)
    enough = invalid or cache.num_tokens > 0 or num_rows * topk == 0
    require(enough, "cache", "a token to refer to, since invalid is False", cache)
    return _index_lists(cache, num_rows, topk, tuple(dtypes), invalid)


def lengths(*, num_rows: int, topk: int) -> st.SearchStrategy[Lengths]:
    """None, or how many lanes count in each row: topk (the simplest), partial, 1, 0, negative, topk + 1."""
    require(num_rows >= 0, "num_rows", "at least 0", num_rows)
    require(topk >= 0, "topk", "at least 0", topk)
    corners = [topk, *dict.fromkeys(size for size in (topk - 1, topk // 2, 1, 0) if 0 <= size < topk), -1, topk + 1]
    return st.none() | st.tuples(*[st.sampled_from(corners)] * num_rows)


def logical_ids(spec: IndexLists, cache: PagedCache) -> torch.Tensor:
    """Return int64 ``[num_rows, topk]``: logical tokens, and invalid ids as they stand.

    Raises ValueError for a planted id that names a slot of ``cache`` without a token: neither valid nor invalid.
    """
    shape, num_tokens = (spec.num_rows, spec.topk), cache.num_tokens
    if num_tokens == 0:
        ids = torch.full(shape, -1, dtype=torch.int64)
    elif spec.shuffle == 0:
        ids = (torch.arange(spec.num_rows)[:, None] + torch.arange(spec.topk)[None, :]) % num_tokens
    else:
        generator = torch.Generator().manual_seed(derived_seed(spec.shuffle, "indices"))
        ids = torch.randint(num_tokens, shape, generator=generator)
    for row, count in enumerate(spec.filled or ()):
        ids[row, count:] = -1
    for row, lane, index in spec.planted:
        require(not num_tokens <= index < cache.pool, "planted", f"a token of {num_tokens} or an invalid id", index)
        ids[row, lane] = index
    return ids


def _counted(spec: IndexLists, lengths: Lengths) -> torch.Tensor:
    """Return bool ``[num_rows, topk]``: lanes that lie before the length of their row."""
    if lengths is None:
        return torch.ones(spec.num_rows, spec.topk, dtype=torch.bool)
    require(len(lengths) == spec.num_rows, "lengths", f"{spec.num_rows} lengths", lengths)
    return torch.arange(spec.topk)[None, :] < torch.tensor(lengths, dtype=torch.int64)[:, None]


def referenced_tokens(spec: IndexLists, cache: PagedCache, lengths: Lengths = None) -> frozenset[int]:
    """Return the logical tokens that some row names in a lane before its length: what ``build_cache`` must hold."""
    ids = logical_ids(spec, cache)
    named = _counted(spec, lengths) & (ids >= 0) & (ids < cache.num_tokens)
    return frozenset(ids[named].tolist())


def index_tensor(
    spec: IndexLists,
    cache: PagedCache,
    poison: Poison,
    *,
    lengths: Lengths = None,
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """Return ``[num_rows, topk]`` of ``spec.dtype``: slots of ``cache``; lanes past the length of a row are poison.

    Region: "index lanes past the length".
    """
    ids = logical_ids(spec, cache)
    valid = (ids >= 0) & (ids < cache.num_tokens)
    tokens = torch.where(valid, ids, 0)
    pages = torch.tensor(cache.page_order)[tokens // cache.page_size]
    slots = torch.where(valid, pages * cache.page_size + tokens % cache.page_size, ids).to(spec.dtype)
    beyond = ~_counted(spec, lengths)
    if beyond.any():
        slots[beyond] = poison.fill_(torch.empty((), dtype=spec.dtype), "index lanes past the length")
    return slots.to(device)


def length_tensor(lengths: Lengths, *, device: torch.device | str = "cpu") -> torch.Tensor | None:
    """Return int32 ``[num_rows]``, or None for None."""
    return None if lengths is None else torch.tensor(lengths, dtype=torch.int32, device=device)
