"""Block tables: which pages each sequence owns, for caches addressed by table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from harness.poison import Poison
from harness.strategies.paged import FAR_PAGES, PagedCache, TokenLayout, write_slots
from harness.strategies.spec import Spec, require


@dataclass(frozen=True, kw_only=True, repr=False)
class BlockTable(Spec):
    """Pages of ``len(seq_lens)`` sequences in a pool of ``len(page_order)`` pages.

    Sequences take logical pages one after the other, in order; each after the first starts with the first
    ``shared_pages`` full pages of sequence 0, as far as both have them.  ``page_order`` maps logical to
    physical pages and is a permutation; pages that no sequence took are unused.  ``extra_columns`` table
    entries follow the longest row.  ``far``: the pool passes 2^31 bytes.
    """

    seq_lens: tuple[int, ...]
    page_size: int
    page_order: tuple[int, ...]
    shared_pages: int = 0
    extra_columns: int = 0
    far: bool = False

    def __post_init__(self) -> None:
        require(self.page_size >= 1, "page_size", "at least 1", self.page_size)
        require(all(length >= 0 for length in self.seq_lens), "seq_lens", "lengths of at least 0", self.seq_lens)
        require(self.shared_pages >= 0, "shared_pages", "at least 0", self.shared_pages)
        require(self.extra_columns >= 0, "extra_columns", "at least 0", self.extra_columns)
        permutation = sorted(self.page_order) == list(range(len(self.page_order)))
        enough = len(self.page_order) >= max(1, _distinct_pages(self.seq_lens, self.page_size, self.shared_pages))
        require(permutation and enough, "page_order", "a permutation with a page for every owned page", self.page_order)

    @property
    def pages(self) -> tuple[tuple[int, ...], ...]:
        """The physical pages of each sequence, in order."""
        table: list[tuple[int, ...]] = []
        taken = 0
        for seq, length in enumerate(self.seq_lens):
            count = -(-length // self.page_size)
            shared = _shared(self.seq_lens, self.page_size, self.shared_pages, seq)
            table.append((*(table[0][:shared] if shared else ()), *self.page_order[taken : taken + count - shared]))
            taken += count - shared
        return tuple(table)

    def cache(self, *, token: TokenLayout, page_padding: int = 0, dtype: torch.dtype = torch.uint8) -> PagedCache:
        """Return the pool as a ``PagedCache``, for its geometry."""
        return PagedCache(
            page_size=self.page_size,
            num_tokens=0,
            page_order=self.page_order,
            page_padding=page_padding,
            far=self.far,
            dtype=dtype,
            token=token,
        )

    def slots(self, seq: int) -> tuple[int, ...]:
        """Return the slot of each token of sequence ``seq``."""
        pages = self.pages[seq]
        return tuple(
            pages[position // self.page_size] * self.page_size + position % self.page_size
            for position in range(self.seq_lens[seq])
        )


def _shared(seq_lens: Sequence[int], page_size: int, shared_pages: int, seq: int) -> int:
    """Return how many pages sequence ``seq`` shares with sequence 0: full pages of both."""
    return min(shared_pages, seq_lens[0] // page_size, seq_lens[seq] // page_size) if seq else 0


def _distinct_pages(seq_lens: Sequence[int], page_size: int, shared_pages: int) -> int:
    return sum(
        -(-length // page_size) - _shared(seq_lens, page_size, shared_pages, seq) for seq, length in enumerate(seq_lens)
    )


@st.composite
def _block_tables(
    draw: st.DrawFn, seq_lens: tuple[int, ...], page_size: int, unused: int, extra_columns: int, far: bool
) -> BlockTable:
    is_far = far and draw(st.sampled_from((False,) * 7 + (True,)))
    most_shared = max((_shared(seq_lens, page_size, max(seq_lens), seq) for seq in range(len(seq_lens))), default=0)
    shared_pages = draw(st.integers(0, most_shared))
    owned = _distinct_pages(seq_lens, page_size, shared_pages)
    num_pages = max(FAR_PAGES if is_far else 1, owned + draw(st.integers(0, unused)))
    pages = range(num_pages - 1, -1, -1) if is_far else range(num_pages)
    return BlockTable(
        seq_lens=seq_lens,
        page_size=page_size,
        page_order=tuple(draw(st.permutations(pages))),
        shared_pages=shared_pages,
        extra_columns=draw(st.integers(0, extra_columns)),
        far=is_far,
    )


def block_tables(
    *, seq_lens: Sequence[int], page_size: int, unused: int = 2, extra_columns: int = 2, far: bool = True
) -> st.SearchStrategy[BlockTable]:
    """Tables for sequences of the given lengths (tokens; 0 is legal) with up to ``unused`` pages nobody owns.

    Reaches shuffled, shared and unused pages, entries past the last page of a row (unowned), and, with
    ``far``, pools that pass 2^31 bytes.  Shrinks to pages in order.  Raises ValueError on impossible arguments.
    """
    require(all(length >= 0 for length in seq_lens), "seq_lens", "lengths of at least 0", seq_lens)
    require(page_size >= 1, "page_size", "at least 1", page_size)
    require(unused >= 0, "unused", "at least 0", unused)
    require(extra_columns >= 0, "extra_columns", "at least 0", extra_columns)
    return _block_tables(tuple(seq_lens), page_size, unused, extra_columns, far)


def block_table_tensor(
    spec: BlockTable, poison: Poison, *, dtype: torch.dtype = torch.int32, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Return ``[num_seqs, max_blocks_per_seq]`` of ``dtype``; entries past the pages of a row are poison.

    Region: "unowned table entries".
    """
    pages = spec.pages
    width = max((len(row) for row in pages), default=0) + spec.extra_columns
    table = torch.empty(len(pages), width, dtype=dtype)
    for seq, row in enumerate(pages):
        table[seq, : len(row)] = torch.tensor(row, dtype=dtype)
        if len(row) < width:
            poison.fill_(table[seq, len(row) :], "unowned table entries")
    return table.to(device)


def build_block_cache(
    spec: BlockTable,
    token_bytes: Sequence[torch.Tensor],
    poison: Poison,
    *,
    cache: PagedCache,
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """Return the cache of ``build_cache`` with ``token_bytes[s]``, uint8 ``[seq_lens[s], token_bytes]``, in its pages.

    ``cache`` is ``spec.cache(...)``.  Tokens of shared pages come from sequence 0.
    """
    shapes = [(length, cache.token.token_bytes) for length in spec.seq_lens]
    require([tuple(t.shape) for t in token_bytes] == shapes, "token_bytes", f"uint8 tensors {shapes}", token_bytes)
    # slot -> the first token that is written there, counted over all sequences
    written: dict[int, int] = {}
    for place, slot in enumerate(slot for seq in range(len(spec.seq_lens)) for slot in spec.slots(seq)):
        written.setdefault(slot, place)
    slots = torch.tensor(list(written), dtype=torch.int64)
    content = torch.cat(list(token_bytes)) if written else torch.empty(0, cache.token.token_bytes)
    if len(written) < len(content):
        content = content[torch.tensor(list(written.values()))]
    return write_slots(cache, slots, content.to(torch.uint8), poison, device=device)
