"""What is special about a routing, as the features of a case name it."""

from __future__ import annotations

import torch

from harness.poison import INT32_MAX
from harness.strategies.ids import INT32_MIN, WRAPPING
from harness.strategies.moe import Routing, unrouted_experts


def routing_features(routing: Routing) -> dict[str, bool]:
    """Return name -> whether ``routing`` has it; one valid id of one expert in int32 has nothing."""
    rows = [routing.ids(token) for token in range(routing.num_tokens)]
    invalid = [expert for row in rows for expert in row if not routing.is_valid(expert)]
    return {
        "no tokens": routing.num_tokens == 0,
        "invalid id -1": -1 in invalid,
        "id >= num_experts": any(routing.num_experts <= expert <= INT32_MAX for expert in invalid),
        "id INT32_MIN": INT32_MIN in invalid,
        "id past 32 bits": not set(invalid).isdisjoint(WRAPPING),
        "padded token": any(not any(map(routing.is_valid, row)) for row in rows),
        "one expert twice": any(len(set(row)) < len(row) for row in rows),
        "unrouted expert": bool(unrouted_experts(routing)),
        "int64 ids": routing.dtype == torch.int64,
    }
