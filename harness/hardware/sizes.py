"""Real sizes of a contract: its workloads, and what DeepSeek-V4 and long contexts make of some of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.contract import Contract, Implementation

#: Contract and implementation -> the workloads of a profile that has no time for all: each way through the launch
#: functions of a contract (``harness.graphs.reach``) is among them once.  Where nothing is said, the first workload.
FIRST: dict[tuple[str, str], tuple[int, ...]] = {
    ("ep_dispatch_combine", "triton"): (0, 1, 2, 3),
    ("mega_moe", "auto"): (0, 1, 2, 3),
    ("merge_attn_states", "triton"): (0, 3),
    ("moe_scatter", "auto"): (0, 1, 2, 3, 4, 5, 6, 8),
    ("moe_scatter", "non-persistent"): (0, 1, 2, 4, 5),
    # of narrow weights, which are what it decodes
    ("moe_scatter", "words"): (3, 6),
    ("mxfp4_moe", "auto"): (0, 1, 2, 5),
    ("paged_mqa_logits", "triton"): (0, 1),
    ("sparse_mla_decode", "single"): (0, 1, 3, 4),
    ("sparse_mla_decode", "split"): (0, 1, 3, 4),
    ("sparse_mla_decode", "triton"): (0, 1, 2, 3, 4, 5),
}


def first_sizes(contract: Contract[Any], implementation: Implementation) -> tuple[int, ...]:
    """Return the numbers of the real sizes that every profile runs: ``FIRST``, and what is not a workload."""
    workloads = range(len(contract.workloads))
    chosen = FIRST.get((contract.name, implementation.name), (0,))
    more = range(max(1, len(workloads)), len(real_sizes(contract)))
    return (*(number for number in chosen if number in workloads), *more)


def real_sizes(contract: Contract[Any]) -> tuple[Any, ...]:
    """Return the cases, the smallest workload first."""
    more = _MORE.get(contract.name)
    return contract.workloads if more is None else (*contract.workloads, *more(contract.workloads))


def _attention(workloads: tuple[Any, ...]) -> tuple[Any, ...]:
    """128 heads; lists of 2048 tokens; both over a pool of more than 2^31 bytes."""
    both = workloads[0]
    # enough rows for every split, few enough to be made in seconds
    alone = next(case for case in workloads if case.extra is None and case.batch > 1)
    far = 2**31 // alone.main.cache.page_bytes + 2
    return (
        replace(both, num_heads=128),
        replace(alone, num_heads=128, main=_listed(alone.main, 2048)),
        replace(alone, num_heads=128, main=_listed(alone.main, 2048, pool=far)),
    )


def _listed(part: Any, topk: int, pool: int = 0) -> Any:
    """Return ``part`` with longer lists, its tokens in the last pages of a pool of ``pool`` pages or more."""
    page_size = part.cache.page_size
    used = max(part.cache.num_pages, -(-topk // page_size))
    order = tuple(reversed(range(max(used, pool))))
    cache = replace(part.cache, num_tokens=used * page_size, page_order=order)
    return replace(part, cache=cache, lists=replace(part.lists, topk=topk))


def _logits(workloads: tuple[Any, ...]) -> tuple[Any, ...]:
    """The first workload in the last pages of a pool of more than 2^31 bytes."""
    case = workloads[0]
    order = tuple(reversed(range(2**31 // (case.table.page_size * 132) + 2)))
    return (replace(case, table=replace(case.table, page_order=order)),)


_MORE: dict[str, Callable[[tuple[Any, ...]], tuple[Any, ...]]] = {
    "sparse_mla_decode": _attention,
    "paged_mqa_logits": _logits,
}
