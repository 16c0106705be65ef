"""Faults planted in ``ep_dispatch_combine``: counting, placing, moving, adding up; and in how it is launched.

``FAULTS`` are killed by the contract, ``LAUNCH_FAULTS`` by the check of ``tests.unit.ep_checks`` that they name.
"""

from tests.teeth.planting import Planted

EP = "ep_dispatch_combine"
DEVICE = "_ep_kernels"
LAUNCH = "_ep_launch"


def _ep(name: str, file: str, old: str, new: str, check: str, count: int = 1) -> Planted:
    return Planted(name, file, old, new, check, EP, "triton", count)


FAULTS = (
    _ep(
        "negative id sent to rank 0",
        DEVICE,
        "tl.where(expert >= 0, expert // experts_per_rank, -1)",
        "expert // experts_per_rank",
        "oracle:recv",
    ),
    _ep(
        "id narrowed to 32 bits",
        DEVICE,
        "expert = tl.load(ids + choice, mask=live, other=-1)",
        "expert = tl.load(ids + choice, mask=live, other=-1).to(tl.int32)",
        "oracle:recv",
    ),
    _ep("rank past the last wrapped", DEVICE, "expert // experts_per_rank, -1)",
        "expert // experts_per_rank % WORLD, -1)", "oracle:recv"),
    _ep("row sent once for each expert", DEVICE, "sends = tl.where(owner[:, None] == peer[None, :], 1, sends)",
        "sends += (owner[:, None] == peer[None, :]).to(tl.int32)", "oracle:recv_counts"),
    _ep("rows that are no tokens sent", DEVICE, "(token < max_tokens) & (token < tl.load(num_tokens_ptr + rank))",
        "(token < max_tokens) & (tl.load(num_tokens_ptr + rank) != 0)", "oracle:recv_counts"),
    _ep("counts off by one", DEVICE, "tl.store(recv_counts_ptr + peer * WORLD + rank, of_rank,",
        "tl.store(recv_counts_ptr + peer * WORLD + rank, of_rank + 1,", "oracle:recv_counts"),
    _ep("counts by source, then destination", DEVICE, "recv_counts_ptr + peer * WORLD + rank,",
        "recv_counts_ptr + rank * WORLD + peer,", "oracle:recv_counts"),
    _ep("rows of one tile over those of the one before", DEVICE,
        "row = before[None, :] + tl.cumsum(sends, 0) - sends", "row = tl.cumsum(sends, 0) - sends", "oracle:send_rows"),
    _ep("spare rows keep what they held", DEVICE, "mask=word < width)\n", "mask=used & (word < width))\n", "written"),
    _ep("scale row of the token before", DEVICE, "rank * scale_rank_stride + token.to(tl.int64) * scale_token_stride",
        "rank * scale_rank_stride + tl.maximum(token - 1, 0).to(tl.int64) * scale_token_stride", "oracle:recv_scale"),
    _ep("scale rows not moved", DEVICE, "_move(scale, recv_scale_ptr + row * scale_words, scale_words, used, BLOCK_S)",
        "_move(scale, recv_scale_ptr + row * scale_words, scale_words, False, BLOCK_S)", "oracle:recv_scale"),
    _ep("fp4 rows as long as they have elements", EP, "x_words, *x_words.stride()[:2], x_words.shape[2],",
        "x_words, *x_words.stride()[:2], x_words.shape[2] * (2 if dtype is DispatchDtype.FP4 else 1),", "memory"),
    _ep("gap between rows not skipped", EP, "x_words, *x_words.stride()[:2], x_words.shape[2],",
        "x_words, x_words.stride(0), x_words.shape[2], x_words.shape[2],", "memory"),
    _ep("rows moved as floats", EP, "    return rows.view(word), received.view(word)\n",
        "    return rows, received\n", "raises"),
    _ep("sum in the rows' dtype", DEVICE, "total += tl.where(row >= capacity, float(\"nan\"), part)",
        "total = (total + tl.where(row >= capacity, float(\"nan\"), part)).to(out_ptr.dtype.element_ty).to(tl.float32)",
        "oracle:out"),
    _ep("sum from the last rank", DEVICE, "                    row = tl.load(send_rows + dst)\n",
        "                    row = tl.load(send_rows + WORLD - 1 - dst)\n", "oracle:out"),
    _ep("blocks asked for ignored", LAUNCH, "replace(found, block_num=block_num, auto=False)",
        "replace(found, auto=False)", "launch"),
    _ep("warps asked for ignored", LAUNCH, "replace(found, warp_num_per_block=warp_num_per_block)", "replace(found)",
        "launch"),
    _ep("no blocks accepted", EP, 'require_count("block_num", block_num)', "pass", "rejects:no blocks"),
    _ep("row of a rank that got none added", DEVICE, "fits = (row >= 0) & (row < capacity)", "fits = row < capacity",
        "memory"),
    _ep("last token of a rank not summed", DEVICE, "tl.program_id(0), WORLD * max_tokens, tl.num_programs(0)",
        "tl.program_id(0), WORLD * max_tokens - 1, tl.num_programs(0)", "written"),
    _ep("capacity unchecked", EP, "capacity < world * max_tokens and not _capturing(x.device)", "False",
        "rejects:one row too many"),
    _ep("capacity checked one too high", EP, "if needed > capacity:", "if needed > capacity + 1:",
        "rejects:one row too many"),
    _ep("scales of fp4 not checked", "_ep_arguments", "if x_scale.shape[2] not in groups:",
        "if x_scale.shape[2] not in groups and dtype is not DispatchDtype.FP4:", "rejects:"),
)  # fmt: skip

#: What a case must have to show a fault that few cases show.
NEEDS = {
    "id narrowed to 32 bits": "id past 32 bits",
    "rows that are no tokens sent": "fewer tokens than rows",
    "scale row of the token before": "fp4 rows",
    "scale rows not moved": "mxfp8 rows",
    "fp4 rows as long as they have elements": "fp4 rows",
    "gap between rows not skipped": "x padded_rows",
    "rows of one tile over those of the one before": "several ranks",
    "sum in the rows' dtype": "token sent to three",
    "sum from the last rank": "token sent to three",
}

LAUNCH_FAULTS = (
    _ep("clamp bypassed in combine", EP, "kernel[(shape.block_num,)](",
        "kernel[(128 if name == 'ep_combine' else shape.block_num,)](", "both_directions_are_clamped_by_default"),
    _ep("clamp bypassed in dispatch", EP, "kernel[(shape.block_num,)](",
        "kernel[(wished.block_num if name == 'ep_dispatch' else shape.block_num,)](",
        "both_directions_are_clamped_by_default"),
    _ep("units held by others counted on", LAUNCH, "place.where, num_sms=num_sms)", "place.where, num_sms=place.units)",
        "both_directions_are_clamped_by_default"),
    _ep("nothing reserved", LAUNCH, "reserve=RESERVED_UNITS", "reserve=0", "both_directions_are_clamped_by_default"),
    _ep("clamp by the number of units", LAUNCH, "block_num=safe.grid,", "block_num=min(blocks, num_sms),",
        "a_block_that_no_unit_holds_is_refused"),
    _ep("a grid where no block fits", LAUNCH, "    safe: SafeGrid = barrier_safe_grid(",
        "    resources = replace(resources, shared_dynamic=min(resources.shared_dynamic, 65536))\n"
        "    safe: SafeGrid = barrier_safe_grid(", "a_block_that_no_unit_holds_is_refused"),
    _ep("the first device asked for all", LAUNCH, "if found.index == index:", "if found.index >= 0:",
        "every_device_is_asked_for_itself"),
    _ep("units kept by product, without the partition", LAUNCH, "    return Described(place.units)\n",
        "    return _KEPT.setdefault(place.where, Described(place.units))\n\n\n_KEPT = {}\n",
        "partitions_of_one_device_are_not_mixed_up"),
    _ep("fp4 limit off by one", LAUNCH, "max_tokens < FEW_TOKENS", "max_tokens <= FEW_TOKENS",
        "defaults_are_those_of_the_row_type"),
    _ep("warps rounded up", LAUNCH, "1 << (wished.warp_num_per_block.bit_length() - 1)",
        "1 << (wished.warp_num_per_block - 1).bit_length()", "defaults_are_those_of_the_row_type"),
    _ep("any kernel type within a node", LAUNCH, "if kernel_type is not EpKernelType.INTRA_NODE:",
        "if kernel_type is EpKernelType.INTER_NODE:", "only_one_enum_decides_intranode"),
    _ep("launch logged without its reason", LAUNCH, "shape.warp_num_per_block, shape.reason)",
        "shape.warp_num_per_block, asked)", "the_launch_is_returned_and_logged"),
    _ep("no barrier before rows are moved", DEVICE, "if grid_barrier(words_ptr, 2, max_polls):", "if True:",
        "no_row_is_used_before_it_is_there"),
    _ep("second barrier counted as the first", DEVICE, "if grid_barrier(words_ptr, 2, max_polls):",
        "if grid_barrier(words_ptr, 1, max_polls):", "no_row_is_used_before_it_is_there"),
    _ep("first tiles only counted", DEVICE, "for start in range(first, stop, CHUNK):",
        "for start in range(first, first + 1, CHUNK):", "many_tiles_are_placed_in_order"),
    _ep("row past the capacity written", DEVICE, "mask=exists & (sends != 0) & (row < capacity))",
        "mask=exists & (sends != 0))", "an_overflow_in_a_graph_is_loud"),
    _ep("row past the capacity added as nothing", DEVICE, "tl.where(row >= capacity, float(\"nan\"), part)", "part",
        "an_overflow_in_a_graph_is_loud"),
    _ep("overflow not looked for afterwards", EP, "_require_room(self.recv_counts.sum(dim=1).tolist(), ",
        "_require_room([], ", "an_overflow_in_a_graph_is_loud"),
)  # fmt: skip
