"""Oracle for ``kernels.ep_dispatch_combine``."""

import torch


def ep_dispatch_combine(
    x: torch.Tensor,
    x_scale: torch.Tensor | None,
    num_tokens: torch.Tensor,
    topk_ids: torch.Tensor,
    expert_out: torch.Tensor,
    *,
    experts_per_rank: int,
    capacity: int,
    dispatch_dtype: str,
    block_num: int | None = None,
    warp_num_per_block: int | None = None,
) -> dict[str, torch.Tensor]:
    """Return what every rank receives, and what comes back to every token, whatever grid is asked for.

    ``x [world, max_tokens, width]`` and ``x_scale [world, max_tokens, groups]`` hold one row a token, already in
    ``dispatch_dtype``; None stands for no scales.  The first ``num_tokens[r]`` rows of rank r are tokens.  An id e of
    ``topk_ids [world, max_tokens, top_k]`` belongs to rank ``e // experts_per_rank``; below 0 or past the last rank it
    belongs to nobody.  ``expert_out [world, capacity, hidden]`` is what each rank computed from the row it received at
    the same place.  Raises ValueError where a rank receives more than ``capacity`` rows.

    ``recv [world, capacity, width]`` and ``recv_scale [world, capacity, groups]`` have the bits of the sent rows, by
    source rank, then by token, then zeros; without scales ``groups`` is 0 and the dtype uint8.  ``recv_counts [world,
    world]`` int32: rows that rank d (axis 0) received of rank s.  ``recv_src [world, capacity]`` int32: ``s *
    max_tokens + t`` of each row, -1 past the last.  ``send_rows [world, max_tokens, world]`` int32: the row of a token
    at each rank, -1 where it was not sent.  ``out [world, max_tokens, hidden]``: from 0, the rows of a token added in
    rank order, in float32 or wider, and cast once to the dtype of ``expert_out``; zeros for a token sent nowhere.
    """
    world, max_tokens, _ = x.shape
    groups = torch.zeros(world, max_tokens, 0, dtype=torch.uint8, device=x.device) if x_scale is None else x_scale
    sent = _sent(topk_ids, num_tokens, experts_per_rank, world)
    received = sent.sum(dim=(0, 1))
    for rank in range(world):
        if received[rank] > capacity:
            raise ValueError(f"capacity: rank {rank} receives {int(received[rank])} rows, there is room for {capacity}")

    send_rows = torch.full((world, max_tokens, world), -1, dtype=torch.int32, device=x.device)
    recv_src = torch.full((world, capacity), -1, dtype=torch.int32, device=x.device)
    recv = torch.zeros(world, capacity, x.shape[2], dtype=x.dtype, device=x.device)
    recv_scale = torch.zeros(world, capacity, groups.shape[2], dtype=groups.dtype, device=x.device)
    wide = torch.promote_types(expert_out.dtype, torch.float32)
    total = torch.zeros(world, max_tokens, expert_out.shape[2], dtype=wide, device=x.device)
    for dst in range(world):
        source, token = sent[:, :, dst].nonzero(as_tuple=True)
        rows = torch.arange(len(source), dtype=torch.int32, device=x.device)
        send_rows[source, token, dst] = rows
        recv_src[dst, : len(rows)] = (source * max_tokens + token).int()
        _bytes(recv)[dst, : len(rows)] = _bytes(x)[source, token]
        _bytes(recv_scale)[dst, : len(rows)] = _bytes(groups)[source, token]
        # each token has one row of a rank, so the sum of a token is taken rank by rank
        total[source, token] += expert_out[dst, : len(rows)].to(wide)
    return {
        "recv": recv,
        "recv_scale": recv_scale,
        "recv_counts": sent.sum(dim=1).T.int().contiguous(),
        "recv_src": recv_src,
        "send_rows": send_rows,
        "out": total.to(expert_out.dtype),
    }


def _sent(topk_ids: torch.Tensor, num_tokens: torch.Tensor, experts_per_rank: int, world: int) -> torch.Tensor:
    """Return bool ``[world, max_tokens, world]``: whether token t of rank s goes to rank d."""
    position = torch.arange(topk_ids.shape[1], device=topk_ids.device)
    is_token = position[None, :] < num_tokens[:, None]
    owned = []
    for rank in range(world):
        first = rank * experts_per_rank
        owned.append(((topk_ids >= first) & (topk_ids < first + experts_per_rank)).any(dim=2) & is_token)
    return torch.stack(owned, dim=2)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    # indexing does not know every 8-bit float
    return tensor.view(torch.uint8)
