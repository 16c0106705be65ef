"""Expert parallelism within a node: rows to the ranks that own their experts, and the results back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
import triton

from harness import Capturable, Interleavings, implements
from harness.launch.grid_barrier import MAX_POLLS, check_grid_barriers
from kernels._ep_arguments import CapacityError, check_combine, check_dispatch, dtype_of, received_rows, require_count
from kernels._ep_kernels import ep_combine_kernel, ep_dispatch_kernel
from kernels._ep_launch import (
    MAX_WARPS,
    DispatchDtype,
    EpKernelType,
    LaunchShape,
    Place,
    Wish,
    launching,
    options_of,
    place_of,
    plan,
    resources_of,
    warps_of,
    wish,
)

__all__ = [
    "CapacityError",
    "Combined",
    "DispatchDtype",
    "Dispatched",
    "EpKernelType",
    "LaunchShape",
    "Place",
    "ep_combine",
    "ep_dispatch",
    "ep_dispatch_combine",
]

# Tokens of one rank that are counted and placed together, and tiles of them whose counts are added up at a time.
_BLOCK_T = 32
_CHUNK = 64
# Words or elements of a row that a warp moves or adds up at a time: 16 bytes a thread where a word has 4.
_WARP_ROW = 128
# Moving integers keeps every bit; a row is moved as the widest that fit it.
_WORDS = (torch.int32, torch.int16, torch.uint8)


_RANKS = "num_experts=8, rows=((0, 5), (7, 3), (2, -1)))"
# Room for all rows and for those that come, which is counted on the host unless captured; few FP4 tokens and many.
_GRAPHS = Capturable(
    cases=(
        f"Case(routing=Routing(num_tokens=132, {_RANKS}, live=(33, 30, 0, 40), max_tokens=33, experts_per_rank=2, "
        "hidden_size=96, out_size=40, spare=None)",
        f"Case(routing=Routing(num_tokens=20, {_RANKS}, live=(5, 3, 0, 5), max_tokens=5, experts_per_rank=2, "
        "hidden_size=128, dispatch_dtype='fp8', scale_type='block', spare=1)",
        *(
            f"Case(routing=Routing(num_tokens={2 * tokens}, {_RANKS}, live=({tokens}, 5), max_tokens={tokens}, "
            "experts_per_rank=4, hidden_size=64, dispatch_dtype='fp4', scale_type='e8m0', spare=None)"
            for tokens in (127, 128)
        ),
        *(
            f"Case(routing=Routing(num_tokens=20, {_RANKS}, live=(5, 3, 0, 5), max_tokens=5, experts_per_rank=2, "
            f"hidden_size=7168, out_size=7168, dispatch_dtype={dtype!r}, scale_type={scale!r}, spare=None)"
            for dtype, scale in (("bf16", "row"), ("fp8", "block"), ("fp4", "uint8"))
        ),
        f"Case(routing=Routing(num_tokens=256, {_RANKS}, live=(128, 5), max_tokens=128, experts_per_rank=4, "
        "hidden_size=7168, out_size=7168, dispatch_dtype='fp4', scale_type='uint8', spare=None)",
    )
)


@dataclass(frozen=True, kw_only=True)
class Dispatched:
    """What ``ep_dispatch`` returns, as said there; ``launch`` is None where nothing was launched."""

    recv: torch.Tensor
    recv_scale: torch.Tensor | None
    recv_counts: torch.Tensor
    recv_src: torch.Tensor
    send_rows: torch.Tensor
    dtype: DispatchDtype = field(repr=False)
    kernel_type: EpKernelType = field(repr=False)
    launch: LaunchShape | None

    def check(self) -> None:
        """Wait for the device and look at what no launch waits for: needed after the replay of a graph.

        Raises CapacityError where rows had no room, GridBarrierTimeout where blocks did not come.
        """
        check_grid_barriers(self.recv.device)
        _require_room(self.recv_counts.sum(dim=1).tolist(), self.recv.shape[1])


@dataclass(frozen=True, kw_only=True)
class Combined:
    """What ``ep_combine`` returns.  ``launch`` is None where nothing was launched."""

    out: torch.Tensor
    launch: LaunchShape | None


def ep_dispatch(
    x: torch.Tensor,
    x_scale: torch.Tensor | None,
    num_tokens: torch.Tensor,
    topk_ids: torch.Tensor,
    *,
    experts_per_rank: int,
    capacity: int,
    dispatch_dtype: DispatchDtype | str = DispatchDtype.BF16,
    kernel_type: EpKernelType = EpKernelType.INTRA_NODE,
    block_num: int | None = None,
    warp_num_per_block: int | None = None,
    place: Place | None = None,
) -> Dispatched:
    """Send each token's row, and its scales, once to every rank that owns one of its experts.

    Ranks are the first axis of every tensor, 1 to 8 of them, all on one device.  Rows arrive quantised: dispatch moves
    the bits it is given and changes none.  ``dispatch_dtype`` says what they are:

    - "bf16": ``x [world, max_tokens, hidden]`` bfloat16, ``x_scale`` None;
    - "fp8": ``x`` float8_e4m3fn, ``x_scale [world, max_tokens, groups]`` float32, one a row or one for 128 elements;
    - "mxfp8": ``x`` float8_e4m3fn, ``x_scale`` E8M0 (uint8 or float8_e8m0fnu), one for 32 elements;
    - "fp4": ``x [world, max_tokens, hidden / 2]`` uint8, two E2M1 codes a byte, ``x_scale`` E8M0, one for 32 elements.

    The last axis has stride 1, others any.  ``num_tokens [world]`` int32 or int64: how many rows of each rank are
    tokens (more than ``max_tokens`` counts as all); the others may hold anything.  ``topk_ids [world, max_tokens,
    top_k]`` int32 or int64: expert e belongs to rank ``e // experts_per_rank``; an id below 0 or of a rank that does
    not exist is dropped.

    Returns ``recv [world, capacity, width]`` and ``recv_scale`` (None for bf16) like ``x`` and ``x_scale``, rows by
    source rank, then by token; spare rows are zero bytes.  ``recv_counts [world, world]`` int32: rows that rank d
    (axis 0) has of rank s.  ``recv_src [world, capacity]`` int32: ``s * max_tokens + t`` of each row, -1 for a spare
    one.  ``send_rows [world, max_tokens, world]`` int32: where each token's row is at each rank, -1 where it is not.

    ``capacity`` is never exceeded in silence.  Up to ``world * max_tokens`` rows can come to a rank; with less room the
    routing is counted on the host first, which waits for the device, and CapacityError is raised before any launch.
    While a graph is being captured nothing can be counted: the rows that fit arrive, ``recv_counts`` says how many were
    sent, ``Dispatched.check`` raises, and ``ep_combine`` makes a token NaN that has a row without room.

    ``block_num`` and ``warp_num_per_block`` ask for a grid (default: 80 x 16; fp4 225 x 5 below 128 tokens a rank, else
    256 x 16); the launched one is in ``Dispatched.launch`` and in the log, with the reason: never more blocks than are
    resident together on the tensors' device, less ``RESERVED_UNITS`` units.  Warps are rounded down to a power of two.
    ``place`` plans for another device, on the virtual GPU.

    Raises TypeError or ValueError naming the argument before any launch, DoesNotFit where not even one block fits.
    """
    dtype = dtype_of(dispatch_dtype)
    check_dispatch(x, x_scale, num_tokens, topk_ids, experts_per_rank, capacity, dtype)
    _check_shape(block_num, warp_num_per_block)
    world, max_tokens, width = x.shape
    wished = wish(dtype, kernel_type, max_tokens, block_num, warp_num_per_block)
    if capacity < world * max_tokens and not _capturing(x.device):
        _require_room(received_rows(topk_ids, num_tokens, experts_per_rank), capacity)

    def empty(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=x.device)

    result = Dispatched(
        recv=empty(world, capacity, width, dtype=x.dtype),
        recv_scale=None if x_scale is None else empty(world, capacity, x_scale.shape[2], dtype=x_scale.dtype),
        recv_counts=empty(world, world),
        recv_src=empty(world, capacity),
        send_rows=empty(world, max_tokens, world),
        dtype=dtype,
        kernel_type=kernel_type,
        launch=None,
    )
    if max_tokens == 0:
        for spare in (result.recv, result.recv_counts, *([] if x_scale is None else [result.recv_scale])):
            spare.zero_()
        result.recv_src.fill_(-1)
        return result

    tiles_per_rank = triton.cdiv(max_tokens, _BLOCK_T)
    ranks = triton.next_power_of_2(world)
    x_words, recv_words = _as_words(x, result.recv)
    scale_words, recv_scale_words = (None, None) if x_scale is None else _as_words(x_scale, result.recv_scale)
    scale_strides = (0, 0, 0) if scale_words is None else (*scale_words.stride()[:2], scale_words.shape[2])
    arguments = (
        topk_ids.contiguous(), num_tokens.contiguous(),
        x_words, *x_words.stride()[:2], x_words.shape[2],
        scale_words, *scale_strides,
        recv_words, recv_scale_words, result.recv_counts, result.recv_src, result.send_rows,
        empty(world * tiles_per_rank, ranks),
        max_tokens, tiles_per_rank, capacity, experts_per_rank,
    )  # fmt: skip
    constants = {
        "WORLD": world, "RANKS": ranks, "TOPK": topk_ids.shape[2], "BLOCK_T": _BLOCK_T,
        "CHUNK": min(_CHUNK, triton.next_power_of_2(world * tiles_per_rank)),
        "BLOCK_X": _block(x_words.shape[2], wished), "BLOCK_S": _block(scale_strides[2], wished),
    }  # fmt: skip
    launch = _launch(ep_dispatch_kernel, "ep_dispatch", x.device, place, wished, world * capacity, arguments, constants)
    return replace(result, launch=launch)


def ep_combine(
    expert_out: torch.Tensor,
    dispatched: Dispatched,
    *,
    block_num: int | None = None,
    warp_num_per_block: int | None = None,
    place: Place | None = None,
) -> Combined:
    """Add up, for every token, the rows that the ranks computed from what they received of it.

    ``expert_out [world, capacity, hidden]`` bfloat16, float16 or float32, last stride 1: row by row as in
    ``dispatched.recv``, spare rows may hold anything; router weights are applied.  Returns ``out [world, max_tokens,
    hidden]`` of the same dtype: from 0, in rank order, in float32, cast once; zeros for what was sent nowhere.

    Workspace: as much as ``expert_out``, into which every rank copies its rows first: peers read only what is shared.
    Grid as in ``ep_dispatch``, bounded by this kernel's own resources.

    Raises TypeError or ValueError naming the argument before any launch, DoesNotFit where not even one block fits.
    """
    check_combine(expert_out, dispatched.recv.shape[:2], dispatched.recv.device)
    _check_shape(block_num, warp_num_per_block)
    world, max_tokens, _ = dispatched.send_rows.shape
    capacity, hidden = expert_out.shape[1:]
    wished = wish(dispatched.dtype, dispatched.kernel_type, max_tokens, block_num, warp_num_per_block)
    out = torch.empty(world, max_tokens, hidden, dtype=expert_out.dtype, device=expert_out.device)
    if out.numel() == 0:
        return Combined(out=out, launch=None)
    exchange = torch.empty(world, capacity, hidden, dtype=expert_out.dtype, device=expert_out.device)
    arguments = (
        expert_out, *expert_out.stride()[:2],
        dispatched.recv_counts, dispatched.send_rows, exchange, out,
        max_tokens, capacity, hidden,
    )  # fmt: skip
    constants = {"WORLD": world, "RANKS": triton.next_power_of_2(world), "BLOCK_H": _block(hidden, wished)}
    rows = world * max(capacity, max_tokens)
    launch = _launch(ep_combine_kernel, "ep_combine", out.device, place, wished, rows, arguments, constants)
    return Combined(out=out, launch=launch)


# A barrier without release or acquire, or a row read before it was moved, is a race in any order of the blocks.
_TURNS = Interleavings(seeds=1, everywhere=True)


@implements("ep_dispatch_combine", name="triton", capturable=_GRAPHS, interleavings=_TURNS)
def ep_dispatch_combine(
    x: torch.Tensor,
    x_scale: torch.Tensor | None,
    num_tokens: torch.Tensor,
    topk_ids: torch.Tensor,
    expert_out: torch.Tensor,
    *,
    experts_per_rank: int,
    capacity: int,
    dispatch_dtype: DispatchDtype | str,
    kernel_type: EpKernelType = EpKernelType.INTRA_NODE,
    block_num: int | None = None,
    warp_num_per_block: int | None = None,
) -> dict[str, torch.Tensor]:
    """``ep_dispatch``, then ``ep_combine`` of an ``expert_out`` that is known beforehand; every tensor of both.

    ``recv_scale`` of bf16 rows is uint8 ``[world, capacity, 0]``.
    """
    dtype = dtype_of(dispatch_dtype)
    check_dispatch(x, x_scale, num_tokens, topk_ids, experts_per_rank, capacity, dtype)
    check_combine(expert_out, (x.shape[0], capacity), x.device)
    sent = ep_dispatch(
        x, x_scale, num_tokens, topk_ids,
        experts_per_rank=experts_per_rank, capacity=capacity, dispatch_dtype=dtype,
        kernel_type=kernel_type, block_num=block_num, warp_num_per_block=warp_num_per_block,
    )  # fmt: skip
    no_scale = torch.empty(x.shape[0], capacity, 0, dtype=torch.uint8, device=x.device)
    return {
        "recv": sent.recv,
        "recv_scale": no_scale if sent.recv_scale is None else sent.recv_scale,
        "recv_counts": sent.recv_counts,
        "recv_src": sent.recv_src,
        "send_rows": sent.send_rows,
        "out": ep_combine(expert_out, sent, block_num=block_num, warp_num_per_block=warp_num_per_block).out,
    }


def _launch(kernel, name, device, place, wished, rows, arguments, constants):
    # Both directions come through here: no grid is launched that is not planned for its own kernel and device.
    place = place or place_of(device)
    options = constants | options_of(wished, place)
    with launching(name, device, place) as barrier:
        arguments = (*arguments, barrier.words, MAX_POLLS)
        resources = resources_of(kernel, arguments, options, place)
        shape = plan(name, wished, rows, resources, place, barrier.num_sms)
        kernel[(shape.block_num,)](*arguments, **options)
    return shape


def _check_shape(block_num: int | None, warp_num_per_block: int | None) -> None:
    if block_num is not None:
        require_count("block_num", block_num)
    if warp_num_per_block is not None:
        require_count("warp_num_per_block", warp_num_per_block, most=MAX_WARPS)


def _require_room(received: list[int], capacity: int) -> None:
    for rank, needed in enumerate(received):
        if needed > capacity:
            raise CapacityError(rank, needed, capacity)


def _capturing(device: torch.device) -> bool:
    if device.type != "cuda":
        return False
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()


def _as_words(rows: torch.Tensor, received: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """View both as the widest integers in which every row begins and ends on a whole one."""
    size = rows.element_size()
    places = [rows.data_ptr(), *(size * step for step in (*rows.stride()[:2], rows.shape[2]))]
    word = next(word for word in _WORDS if word.itemsize == size or all(place % word.itemsize == 0 for place in places))
    return rows.view(word), received.view(word)


def _block(width: int, wished: Wish) -> int:
    return min(triton.next_power_of_2(max(width, 1)), _WARP_ROW * warps_of(wished))
