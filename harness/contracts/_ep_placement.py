"""Where rows go in expert parallelism, and the same exchange with its ranks and tokens under other numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from harness.compare import INTEGER_OF_SIZE
from harness.contract import Inputs, Outputs

#: (rank, token)
Source = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """Which tokens go to which ranks.  ``ids[rank][token]`` are expert ids; ``live[rank]`` of its rows are tokens."""

    ids: Sequence[Sequence[Sequence[int]]]
    live: Sequence[int]
    experts_per_rank: int

    @property
    def world(self) -> int:
        """Number of ranks."""
        return len(self.ids)

    def destinations(self, rank: int, token: int) -> frozenset[int]:
        """Return the ranks that get the token's row: none for a row that is no token."""
        if token >= self.live[rank]:
            return frozenset()
        owners = {expert // self.experts_per_rank for expert in self.ids[rank][token]}
        return frozenset(owners & set(range(self.world)))

    def received(self, dst: int) -> list[Source]:
        """Return the source of each row that ``dst`` receives, in order."""
        return [
            (rank, token)
            for rank, tokens in enumerate(self.ids)
            for token in range(len(tokens))
            if dst in self.destinations(rank, token)
        ]

    @property
    def needed(self) -> int:
        """The most rows that a rank receives."""
        return max(len(self.received(dst)) for dst in range(self.world))


@dataclass(frozen=True, kw_only=True)
class Renaming:
    """Rank ``r`` of ``exchange`` becomes ``ranks[r]``, its token ``t`` becomes ``tokens[r][t]``."""

    exchange: Exchange
    ranks: Sequence[int]
    tokens: Sequence[Sequence[int]]

    def inputs(self, old: Inputs) -> Inputs:
        """Return the same exchange's arguments under the new numbers."""
        per_rank = self.exchange.experts_per_rank
        ids = old["topk_ids"].clone()
        valid = (ids >= 0) & (ids < per_rank * self.exchange.world)
        owner = torch.where(valid, ids, 0) // per_rank
        ids = torch.where(valid, ids + (torch.tensor(self.ranks)[owner.cpu()].to(ids) - owner) * per_rank, ids)
        by_token = {name: tensor for name, tensor in old.items() if name in ("x", "x_scale") and tensor is not None}
        moved = {name: self._tokens(tensor) for name, tensor in (by_token | {"topk_ids": ids}).items()}
        counts = torch.empty_like(old["num_tokens"])
        counts[list(self.ranks)] = old["num_tokens"]
        return {**old, **moved, "num_tokens": counts, "expert_out": self._rows(old["expert_out"], old["expert_out"])}

    def outputs(self, old: Outputs) -> dict[str, torch.Tensor]:
        """Return what the renamed exchange must give, every bit of it."""
        ranks = list(self.ranks)
        counts, send_rows = torch.empty_like(old["recv_counts"]), torch.full_like(old["send_rows"], -1)
        recv_src = torch.full_like(old["recv_src"], -1)
        max_tokens = send_rows.shape[1]
        counts[torch.tensor(ranks)[:, None], torch.tensor(ranks)[None, :]] = old["recv_counts"]
        for dst in range(self.exchange.world):
            for row, (rank, token) in enumerate(self._received(dst)):
                recv_src[ranks[dst], row] = rank * max_tokens + token
                send_rows[rank, token, ranks[dst]] = row
        return {
            "recv": self._rows(old["recv"], torch.zeros_like(old["recv"])),
            "recv_scale": self._rows(old["recv_scale"], torch.zeros_like(old["recv_scale"])),
            "recv_counts": counts,
            "recv_src": recv_src,
            "send_rows": send_rows,
            "out": self._tokens(old["out"]),
        }

    def _new(self, source: Source) -> Source:
        rank, token = source
        return self.ranks[rank], self.tokens[rank][token]

    def _received(self, dst: int) -> list[Source]:
        """Return the new sources of the rows of the rank that was ``dst``, in their new order."""
        return sorted(map(self._new, self.exchange.received(dst)))

    def _tokens(self, old: torch.Tensor) -> torch.Tensor:
        """Move axes 0 and 1, ranks and tokens."""
        new = torch.empty_like(old, memory_format=torch.contiguous_format)
        for rank, tokens in enumerate(self.tokens):
            _bits(new)[self.ranks[rank], list(tokens)] = _bits(old)[rank]
        return new

    def _rows(self, old: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
        """Move axes 0 and 1, ranks and received rows; spare rows are those of ``rest``."""
        new = rest.clone(memory_format=torch.contiguous_format)
        for dst in range(self.exchange.world):
            before = [self._new(source) for source in self.exchange.received(dst)]
            order = [before.index(source) for source in self._received(dst)]
            _bits(new)[self.ranks[dst]] = _bits(rest)[self.ranks[dst]]
            _bits(new)[self.ranks[dst], : len(order)] = _bits(old)[dst, order]
        return new


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    # indexing does not know every 8-bit float
    return tensor.view(INTEGER_OF_SIZE[tensor.element_size()])
