"""Small cases of the shipped contracts, with what most entries of the corpus have in common."""

from __future__ import annotations

from typing import Any

import torch

from harness.contracts import (
    ep_dispatch_combine,
    mega_moe,
    merge_attn_states,
    moe_scatter,
    mxfp4_moe,
    paged_mqa_logits,
    sparse_mla_decode,
)
from harness.contracts._mla_parts import Part
from harness.strategies.block_tables import BlockTable
from harness.strategies.indices import IndexLists
from harness.strategies.moe import Routing
from harness.strategies.paged import PagedCache


def part(
    *,
    page_size: int = 2,
    pages: int = 2,
    used: int | None = None,
    padding: int = 0,
    far: bool = False,
    rows: int = 1,
    topk: int = 3,
    lengths: tuple[int, ...] | None = None,
    **lists: Any,
) -> Part:
    """Part of a cache of uint8 pages in reverse order; ``lists`` are fields of ``IndexLists``."""
    cache = PagedCache(
        page_size=page_size,
        num_tokens=page_size * pages if used is None else used,
        page_order=tuple(reversed(range(pages))),
        page_padding=padding,
        far=far,
    )
    return Part(cache=cache, lists=IndexLists(num_rows=rows, topk=topk, **lists), lengths=lengths)


def mla(*, heads: int = 1, extra: Part | None = None, main: Part | None = None, **fields: Any) -> Any:
    """Case of ``sparse_mla_decode``; what is no field of it is one of ``part``."""
    own = {name for name in sparse_mla_decode.Case.__dataclass_fields__ if name in fields}
    given = {name: fields.pop(name) for name in own}
    return sparse_mla_decode.Case(num_heads=heads, main=main or part(**fields), extra=extra, **given)


def merge(*empty: tuple[int, ...], parts: int = 2, dim: int = 3, **fields: Any) -> Any:
    """Case of ``merge_attn_states`` with one row for each of ``empty``."""
    return merge_attn_states.Case(num_parts=parts, empty=empty, head_dim=dim, **fields)


def logits(*seq_lens: int, heads: int = 2, unused: int = 0, room: int | None = None, far: bool = False, **fields: Any):
    """Case of ``paged_mqa_logits``: pages in reverse order, logits as wide as the longest sequence."""
    pages = sum(-(-length // 64) for length in seq_lens) + unused
    order = tuple(reversed(range(max(1, pages))))
    table = BlockTable(
        seq_lens=seq_lens, page_size=64, page_order=order, far=far, extra_columns=fields.pop("extra_columns", 0)
    )
    width = max(seq_lens) if room is None else room
    return paged_mqa_logits.Case(num_heads=heads, table=table, max_seq_len=width, **fields)


def routing(*rows: tuple[int, ...], tokens: int | None = None, experts: int = 4, dtype: torch.dtype = torch.int32):
    """Routing of one token a row, or of ``tokens``."""
    return Routing(num_tokens=len(rows) if tokens is None else tokens, num_experts=experts, rows=rows, dtype=dtype)


def _moe(case: Any, rows: tuple[tuple[int, ...], ...], fields: dict[str, Any]) -> Any:
    route = {name: fields.pop(name) for name in ("tokens", "experts") if name in fields}
    sizes = {"hidden_size": fields.pop("hidden", 32), "intermediate_size": fields.pop("inter", 32)}
    return case(routing=routing(*rows, **route), **sizes, **fields)


def moe(*rows: tuple[int, ...], **fields: Any) -> Any:
    """Case of ``mxfp4_moe`` with byte scales: K and I of 32."""
    return _moe(mxfp4_moe.Case, rows, {"scale_type": "uint8"} | fields)


def mega(*rows: tuple[int, ...], **fields: Any) -> Any:
    """Case of ``mega_moe`` with byte scales: K and I of 32, two blocks."""
    return _moe(mega_moe.Case, rows, {"scale_type": "uint8", "max_blocks": 2} | fields)


def scatter(*rows: tuple[int, ...], hidden: int = 32, out: int = 8, **fields: Any) -> Any:
    """Case of ``moe_scatter``: K of 32, N of 8."""
    route = {name: fields.pop(name) for name in ("tokens", "experts") if name in fields}
    return moe_scatter.Case(routing=routing(*rows, **route), hidden_size=hidden, output_size=out, **fields)


def ep(*rows: tuple[int, ...], live: tuple[int, ...], tokens: int, per_rank: int = 1, **fields: Any) -> Any:
    """Case of ``ep_dispatch_combine``: ``live`` of ``tokens`` rows of each rank are tokens."""
    world = len(live)
    route = routing(*rows, tokens=world * tokens, experts=world * per_rank)
    return ep_dispatch_combine.Case(routing=route, live=live, max_tokens=tokens, experts_per_rank=per_rank, **fields)
