"""Argument checks of ``kernels.ep_dispatch_combine``, all of them before any launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from kernels._ep_launch import DispatchDtype
from kernels._validate import require_dtype, require_rank, require_same_device, require_shape, require_stride

MAX_WORLD = 8
MX_GROUP = 32
#: Elements that share one float32 scale of an FP8 row, where a row has more than one.
FP8_GROUP = 128
IDS = (torch.int32, torch.int64)
_E8M0 = (torch.uint8, torch.float8_e8m0fnu)

# Row type: (dtypes of x, elements a stored element, dtypes of x_scale)
_ROWS: Mapping[DispatchDtype, tuple[tuple[torch.dtype, ...], int, tuple[torch.dtype, ...]]] = {
    DispatchDtype.BF16: ((torch.bfloat16,), 1, ()),
    DispatchDtype.FP8: ((torch.float8_e4m3fn,), 1, (torch.float32,)),
    DispatchDtype.MXFP8: ((torch.float8_e4m3fn,), 1, _E8M0),
    DispatchDtype.FP4: ((torch.uint8,), 2, _E8M0),
}


class CapacityError(ValueError):
    """A rank receives more rows than its buffers hold; ``rank``, rows ``needed`` and ``capacity``."""

    def __init__(self, rank: int, needed: int, capacity: int) -> None:
        super().__init__(f"capacity: rank {rank} receives {needed} rows, its buffers hold {capacity}")
        self.rank = rank
        self.needed = needed
        self.capacity = capacity


def require_count(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Raise TypeError unless ``value`` is an integer, ValueError unless it is from ``least`` to ``most``."""
    wanted = f"at least {least}" if most is None else f"{least} to {most}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: wanted an integer, {wanted}, got {value!r}")
    if value < least or (most is not None and value > most):
        raise ValueError(f"{name}: wanted {wanted}, got {value}")


def dtype_of(dispatch_dtype: DispatchDtype | str) -> DispatchDtype:
    """Return the member that ``dispatch_dtype`` is or names; raises ValueError for anything else."""
    try:
        return DispatchDtype(dispatch_dtype)
    except ValueError:
        known = ", ".join(repr(member.value) for member in DispatchDtype)
        raise ValueError(f"dispatch_dtype: wanted one of {known}, got {dispatch_dtype!r}") from None


def check_dispatch(
    x: torch.Tensor,
    x_scale: torch.Tensor | None,
    num_tokens: torch.Tensor,
    topk_ids: torch.Tensor,
    experts_per_rank: int,
    capacity: int,
    dtype: DispatchDtype,
) -> None:
    """Raise TypeError or ValueError naming the argument that ``ep_dispatch`` does not support."""
    require_dtype("x", x, *_ROWS[dtype][0])
    require_dtype("num_tokens", num_tokens, *IDS)
    require_dtype("topk_ids", topk_ids, *IDS)
    require_rank("x", x, 3, "[world, max_tokens, width]")
    world, max_tokens, width = x.shape
    if not 1 <= world <= MAX_WORLD or width == 0:
        raise ValueError(f"x: wanted 1 to {MAX_WORLD} ranks and rows of at least 1 element, got {list(x.shape)}")
    require_stride("x", x, 2, 1)
    require_shape("num_tokens", num_tokens, (world,), "[world]")
    require_shape("topk_ids", topk_ids, (world, max_tokens, None), "[world, max_tokens, top_k]")
    if topk_ids.shape[2] == 0:
        raise ValueError(f"topk_ids: wanted at least one id a token, got {list(topk_ids.shape)}")
    tensors = {"x": x, "num_tokens": num_tokens, "topk_ids": topk_ids}
    if x_scale is not None:
        tensors["x_scale"] = x_scale
    _check_scale(x, x_scale, dtype)
    require_same_device(tensors)
    require_count("experts_per_rank", experts_per_rank, most=2**31 - 1)
    # Rows and tokens of all ranks are numbered by int32.
    require_count("capacity", capacity, most=(2**31 - 1) // world)
    if world * max_tokens >= 2**31:
        raise ValueError(f"x: wanted fewer than 2**31 tokens, got {list(x.shape)}")


def _check_scale(x: torch.Tensor, x_scale: torch.Tensor | None, dtype: DispatchDtype) -> None:
    _, elements, scale_dtypes = _ROWS[dtype]
    if not scale_dtypes:
        if x_scale is not None:
            raise ValueError(f"x_scale: wanted None for {dtype.value} rows, got {list(x_scale.shape)}")
        return
    require_dtype("x_scale", x_scale, *scale_dtypes)
    world, max_tokens, width = x.shape
    hidden = width * elements
    groups = [1] if dtype is DispatchDtype.FP8 else []
    group = FP8_GROUP if dtype is DispatchDtype.FP8 else MX_GROUP
    if hidden % group == 0:
        groups.append(hidden // group)
    elif dtype is not DispatchDtype.FP8:
        raise ValueError(f"x: wanted rows of a multiple of {group} elements, got {hidden}")
    require_shape("x_scale", x_scale, (world, max_tokens, None), "[world, max_tokens, groups]")
    if x_scale.shape[2] not in groups:
        wanted = " or ".join(str(count) for count in groups)
        raise ValueError(f"x_scale: wanted {wanted} scales a row of {hidden} elements, got {x_scale.shape[2]}")
    require_stride("x_scale", x_scale, 2, 1)


def check_combine(expert_out: torch.Tensor, rows: Sequence[int], device: torch.device) -> None:
    """Raise TypeError or ValueError unless ``expert_out`` on ``device`` has ``rows``, (world, capacity)."""
    require_dtype("expert_out", expert_out, torch.bfloat16, torch.float16, torch.float32)
    require_shape("expert_out", expert_out, (*rows, None), "[world, capacity, hidden]")
    require_stride("expert_out", expert_out, 2, 1)
    if expert_out.device != device:
        raise ValueError(f"expert_out: wanted device {device}, got {expert_out.device}")


def received_rows(topk_ids: torch.Tensor, num_tokens: torch.Tensor, experts_per_rank: int) -> list[int]:
    """Return how many rows each rank receives; waits for the device."""
    world, max_tokens, _ = topk_ids.shape
    position = torch.arange(max_tokens, device=topk_ids.device)
    ids = torch.where((position < num_tokens[:, None])[:, :, None], topk_ids, -1)
    owner = torch.div(ids, experts_per_rank, rounding_mode="floor")
    return torch.stack([(owner == rank).any(dim=2).sum() for rank in range(world)]).tolist()
