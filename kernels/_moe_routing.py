"""Which slots are computed together: slots that share an expert share one pass over its weights.

A *slot* is one (token, choice) pair, numbered ``token * topk + choice``.  A *group* is a vector of BLOCK_T slots of one
expert, -1 where there is none.  A slot whose id is not an expert is in no group.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _led_slots(slot, ids_ptr, num_slots, num_experts, BLOCK_T: tl.constexpr, WINDOW: tl.constexpr):
    # The group that slot number ``slot`` leads.  Slots are grouped in order within aligned windows, so that the search
    # for companions has a bounded width; the first slot of a group leads it.
    own = tl.load(ids_ptr + slot)
    index = slot // WINDOW * WINDOW + tl.arange(0, WINDOW)
    # Only ids >= 0 lead, so the fill joins no group.
    ids = tl.load(ids_ptr + index, mask=index < num_slots, other=-1)
    same = (ids == own).to(tl.int32)
    rank = tl.cumsum(same, 0) - same
    own_rank = tl.sum(tl.where(index < slot, same, 0), 0)
    wanted = own_rank + tl.arange(0, BLOCK_T)
    member = (same[None, :] != 0) & (rank[None, :] == wanted[:, None])
    slots = tl.max(tl.where(member, index[None, :], -1), 1)
    leads = (own >= 0) & (own < num_experts) & (own_rank % BLOCK_T == 0)
    return tl.where(leads, own, -1).to(tl.int64), slots


@triton.jit
def _tile_slots(number, order_ptr, tiles_ptr, BLOCK_T: tl.constexpr):
    # The group of tile ``number`` of group_by_expert.
    tile = tiles_ptr + number * 3
    expert = tl.load(tile).to(tl.int64)
    row = tl.load(tile + 1) + tl.arange(0, BLOCK_T)
    return expert, tl.load(order_ptr + row, mask=row < tl.load(tile + 2), other=-1)


@triton.jit
def group_slots(group, ids_ptr, tiles_ptr, num_slots, num_experts, BLOCK_T: tl.constexpr, WINDOW: tl.constexpr):
    """Return ``(expert, slots [BLOCK_T])`` of group number ``group``; expert -1: nothing to do.

    Without tiles (None): ``ids_ptr`` is the flat topk_ids, there is one group a slot, and the ids alone decide, on the
    device, which slot leads.  With tiles: ``ids_ptr`` and ``tiles_ptr`` are ``group_by_expert``'s order and tiles,
    there is one group a tile.
    """
    if tiles_ptr is None:
        expert, slots = _led_slots(group, ids_ptr, num_slots, num_experts, BLOCK_T, WINDOW)
    else:
        expert, slots = _tile_slots(group, ids_ptr, tiles_ptr, BLOCK_T)
    return expert, slots


def most_tiles(num_slots: int, num_experts: int, block_t: int) -> int:
    """Return how many tiles of at most ``block_t`` slots of one expert there can be."""
    return num_slots // block_t + min(num_experts, num_slots)


def group_by_expert(ids: torch.Tensor, num_experts: int, block_t: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sort slots by expert and cut them into tiles of at most ``block_t`` slots of one expert.

    ``ids``: flat topk_ids ``[S]``, int32 or int64, S and ``num_experts`` at least 1.  Returns ``order`` int32 ``[S]``,
    the slots by expert with invalid ones last, and ``tiles`` int32 ``[T, 3]``: expert (-1: unused tile), first and
    one-past-last position in ``order``.  T depends on shapes only and nothing waits for the device, so this can be
    captured in a graph.
    """
    num_slots = ids.numel()
    # what is no expert comes behind the last one
    behind = torch.where(ids < 0, num_experts, ids).clamp(max=num_experts)
    keys, order = torch.sort(behind.to(torch.int32), stable=True)
    experts = torch.arange(num_experts + 1, dtype=torch.int32, device=ids.device)
    bounds = torch.searchsorted(keys, experts, out_int32=True)
    tile_counts = (bounds[1:] - bounds[:-1] + block_t - 1) // block_t
    tile_stops = torch.cumsum(tile_counts, 0, dtype=torch.int32)

    # Only the last tile of an expert is partial, and only experts that have a slot have a tile.
    tiles = torch.arange(most_tiles(num_slots, num_experts, block_t), dtype=torch.int32, device=ids.device)
    expert = torch.searchsorted(tile_stops, tiles, right=True, out_int32=True)
    used = expert < num_experts
    owner = torch.where(used, expert, 0)
    start = bounds[owner] + (tiles - (tile_stops - tile_counts)[owner]) * block_t
    stop = torch.where(used, torch.minimum(start + block_t, bounds[owner + 1]), start)
    return order.to(torch.int32), torch.stack((torch.where(used, expert, -1), start, stop), 1).to(torch.int32)
