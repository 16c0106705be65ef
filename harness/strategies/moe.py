"""Which experts each token goes to, illegal ids included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from harness.poison import Poison
from harness.strategies.ids import ID_DTYPES, invalid_ids
from harness.strategies.spec import Spec, derived_seed, require

#: Different rows of ids in one case: enough for tiles of mixed content, few enough to read.
MAX_ROWS = 8


@dataclass(frozen=True, kw_only=True, repr=False)
class Routing(Spec):
    """Expert ids of ``num_tokens`` tokens: token ``t`` has ``rows[t % len(rows)]``.

    Ids outside ``[0, num_experts)`` are invalid.  Repeating a few rows keeps a case of 129 tokens readable.
    """

    num_tokens: int
    num_experts: int
    rows: tuple[tuple[int, ...], ...]
    dtype: torch.dtype = torch.int32

    def __post_init__(self) -> None:
        require(self.num_tokens >= 0, "num_tokens", "at least 0", self.num_tokens)
        require(self.num_experts >= 0, "num_experts", "at least 0", self.num_experts)
        require(self.dtype in ID_DTYPES, "dtype", "torch.int32 or torch.int64", self.dtype)
        require(bool(self.rows) and bool(self.rows[0]), "rows", "at least one row of at least one id", self.rows)
        require(len({len(row) for row in self.rows}) == 1, "rows", "rows of one length", self.rows)
        limits = torch.iinfo(self.dtype)
        for row in self.rows:
            for expert in row:
                require(limits.min <= expert <= limits.max, "rows", f"ids that fit {self.dtype}", expert)

    @property
    def top_k(self) -> int:
        """Slots of one token."""
        return len(self.rows[0])

    @property
    def used_rows(self) -> tuple[tuple[int, ...], ...]:
        """The rows that some token has."""
        return self.rows[: self.num_tokens]

    def ids(self, token: int) -> tuple[int, ...]:
        """Return the expert ids of ``token``."""
        return self.rows[token % len(self.rows)]

    def is_valid(self, expert: int) -> bool:
        """Whether ``expert`` names one of the experts."""
        return 0 <= expert < self.num_experts


@st.composite
def _routings(
    draw: st.DrawFn, num_tokens: int, num_experts: int, top_k: int, invalid: bool, dtypes: tuple[torch.dtype, ...]
) -> Routing:
    dtype = draw(st.sampled_from(dtypes))
    num_rows = draw(st.integers(1, max(1, min(num_tokens, MAX_ROWS))))
    # the last one second: a fault at the last expert then shrinks to few experts
    experts = [0, *range(num_experts - 1, 0, -1)]
    to_one = draw(st.sampled_from((False,) * 5 + (True,)))
    expert = st.sampled_from([draw(st.sampled_from(experts))] if to_one else experts)
    rows = [[draw(expert) for _ in range(top_k)] for _ in range(num_rows)]
    if invalid:
        # planted afterwards, so that a shrunk case has an invalid id only where the fault needs it
        some_row = st.integers(0, num_rows - 1)
        for row in draw(st.lists(some_row, max_size=2)):
            rows[row] = [-1] * top_k
        nowhere = invalid_ids(limit=num_experts, dtype=dtype)
        # the last one again: for int64 it is the id that half of all draws, those of int32, cannot have
        entries = st.tuples(some_row, st.integers(0, top_k - 1), st.sampled_from([*nowhere, nowhere[-1]]))
        for row, slot, index in draw(st.lists(entries, max_size=6)):
            rows[row][slot] = index
    return Routing(num_tokens=num_tokens, num_experts=num_experts, rows=tuple(tuple(row) for row in rows), dtype=dtype)


def routings(
    *,
    num_tokens: int,
    num_experts: int,
    top_k: int,
    invalid: bool = True,
    dtypes: Sequence[torch.dtype] = ID_DTYPES,
) -> st.SearchStrategy[Routing]:
    """Routings of ``num_tokens`` tokens to ``top_k`` of ``num_experts`` experts.

    Reaches duplicates in a token, experts without tokens, all tokens to one expert, and, unless
    ``invalid`` is False, slots with an invalid id (``ids.invalid_ids``) and padded tokens (all -1).
    Shrinks to expert 0.  Raises ValueError on impossible arguments.
    """
    require(num_tokens >= 0, "num_tokens", "at least 0", num_tokens)
    require(num_experts >= 1, "num_experts", "at least 1", num_experts)
    require(top_k >= 1, "top_k", "at least 1", top_k)
    require(bool(dtypes), "dtypes", "at least one dtype", dtypes)
    for dtype in dtypes:
        require(dtype in ID_DTYPES, "dtypes", "torch.int32 or torch.int64", dtype)
    return _routings(num_tokens, num_experts, top_k, invalid, tuple(dtypes))


def routing_tensors(
    spec: Routing, poison: Poison, seed: int, device: torch.device | str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``topk_ids [num_tokens, top_k]`` of ``spec.dtype`` and ``topk_weights``, float32 of the same shape.

    Weights lie in [1/8, 1); those of invalid slots are poison, under the name "invalid slot weights".
    """
    ids = [spec.ids(token) for token in range(spec.num_tokens)]
    topk_ids = torch.tensor(ids, dtype=spec.dtype).reshape(spec.num_tokens, spec.top_k)
    generator = torch.Generator().manual_seed(derived_seed(seed, "topk_weights"))
    topk_weights = torch.rand(topk_ids.shape, generator=generator) * 0.875 + 0.125
    invalid = (topk_ids < 0) | (topk_ids >= spec.num_experts)
    if invalid.any():
        junk = poison.fill_(torch.empty_like(topk_weights), "invalid slot weights")
        topk_weights = torch.where(invalid, junk, topk_weights)
    return topk_ids.to(device), topk_weights.to(device)


def unrouted_experts(spec: Routing) -> tuple[int, ...]:
    """Return the experts that no token goes to, in order: their weights and scales may hold anything."""
    routed = {expert for row in spec.used_rows for expert in row}
    return tuple(expert for expert in range(spec.num_experts) if expert not in routed)
