"""What a CUDA graph of a case is replayed with: cases that differ from it in content alone, one of them half empty."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.contracts._mla_parts import Part
from harness.strategies.moe import Routing


def routed(case: Any) -> tuple[Any, ...]:
    """Other experts for the tokens of a case with a ``routing``; then no expert for the later half of them."""
    routing: Routing = case.routing
    others = replace(routing, rows=tuple(_moved(row, routing) for row in reversed(routing.used_rows or routing.rows)))
    live = routing.num_tokens // 2
    padded = [routing.ids(token) if token < live else (-1,) * routing.top_k for token in range(routing.num_tokens)]
    fewer = replace(routing, rows=tuple(padded) or routing.rows)
    return tuple(replace(case, routing=changed, seed=_next(case)) for changed in (others, fewer))


def _moved(row: tuple[int, ...], routing: Routing) -> tuple[int, ...]:
    return tuple((expert + 1) % routing.num_experts if routing.is_valid(expert) else expert for expert in row)


def exchanged(case: Any) -> tuple[Any, ...]:
    """As ``routed``, then fewer tokens of every rank, if as many rows fit: the capacity is an argument."""
    fewer = replace(case, live=tuple(max(live, 0) // 2 for live in case.live), seed=_next(case))
    return tuple(other for other in (*routed(case), fewer) if other.capacity == case.capacity)


def merged(case: Any) -> tuple[Any, ...]:
    """Other empty parts for each row of a case of ``merge_attn_states``; then the later half of the rows empty."""
    rows = len(case.empty)
    everything = tuple(range(case.num_parts))
    fewer = tuple(parts if row < rows // 2 else everything for row, parts in enumerate(case.empty))
    return tuple(replace(case, empty=empty, seed=_next(case)) for empty in (case.empty[::-1], fewer))


def paged(case: Any) -> tuple[Any, ...]:
    """Shorter sequences on other pages for a case with a ``table``; then all sequences but the longest empty."""
    table = case.table
    size, order = table.page_size, table.page_order
    shorter = tuple((length - 1) // size * size + 1 if length else 0 for length in table.seq_lens)
    longest = max(range(len(table.seq_lens)), key=table.seq_lens.__getitem__, default=0)
    alone = tuple(length if row == longest else 0 for row, length in enumerate(table.seq_lens))
    return tuple(
        # entries that named no page may not be owned any more
        replace(case, table=replace(table, seq_lens=lengths, page_order=order[1:] + order[:1]), planted=(), seed=seed)
        for lengths, seed in ((shorter, _next(case)), (alone, case.seed))
    )


def attended(case: Any) -> tuple[Any, ...]:
    """Other tokens on other pages for a case with a ``main`` part; then half of the lanes, in half of the rows."""

    def both(change: Any) -> Any:
        extra = None if case.extra is None else change(case.extra)
        return replace(case, main=change(case.main), extra=extra, seed=_next(case))

    return both(_elsewhere), both(_emptier)


def _elsewhere(part: Part) -> Part:
    order = part.cache.page_order
    lists = replace(part.lists, shuffle=part.lists.shuffle + 1, planted=())
    return replace(part, cache=replace(part.cache, page_order=order[1:] + order[:1]), lists=lists)


def _emptier(part: Part) -> Part:
    rows, topk = part.lists.num_rows, part.lists.topk
    fewer = tuple(topk // 2 if row % 2 == 0 else 0 for row in range(rows))
    if part.lengths is not None:
        return replace(part, lengths=fewer)
    return replace(part, lists=replace(part.lists, filled=fewer))


def _next(case: Any) -> int:
    number: int = (case.seed + 1) % 2**16
    return number
