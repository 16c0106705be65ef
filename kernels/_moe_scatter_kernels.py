"""Device code of ``kernels.moe_scatter``: one tile of a grouped product, by descriptors or by pointers.

A tile is at most BLOCK_M slots of one expert and BLOCK_N of its weight rows.  Slots whose id is no expert have tiles
of their own, which multiply nothing and write zeros.  A slot's row is computed the same way whatever stands in the
others.
"""

import triton
import triton.language as tl

from kernels._fp4 import GROUP, code_offsets, e8m0_to_bfloat16, unpack_e2m1

_GROUP = tl.constexpr(GROUP)
_TWO_120 = tl.constexpr(2.0**120)


@triton.jit
def e4m3_to_bfloat16(codes):
    """Values of uint8 E4M3 ``codes``, any shape, exact; 0x7F and 0xFF are NaN."""
    # From the bits, because before sm_89 there is no conversion.  Exponent and fraction stand where bfloat16 has its
    # low exponent and high fraction bits: read so, the value is 2^-120 times too small, subnormals included.
    bits = codes.to(tl.uint16)
    magnitude = bits & 0x7F
    value = (((bits & 0x80) << 8) | (magnitude << 4)).to(tl.uint16).to(tl.bfloat16, bitcast=True) * _TWO_120
    return tl.where(magnitude == 0x7F, float("nan"), value).to(tl.bfloat16)


@triton.jit
def _decoded(packed, scale, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    # E2M1 weights [BLOCK_N, BLOCK_K].  Scaled after the reshape: where a reshape is the last thing before the product,
    # Triton 3.6 wants the pairs of codes in shared memory as they are and finds no layout for them on sm_90.
    low, high = unpack_e2m1(packed)
    factor = e8m0_to_bfloat16(scale)[:, :, None]
    factor = tl.reshape(tl.broadcast_to(factor, (BLOCK_N, BLOCK_K // _GROUP, _GROUP)), (BLOCK_N, BLOCK_K))
    return tl.reshape(tl.join(low, high), (BLOCK_N, BLOCK_K)) * factor


@triton.jit
def slot_tile(order_ptr, tiles_ptr, tile, num_slots, num_experts, BLOCK_M: tl.constexpr):
    """Return (expert, slots ``[BLOCK_M]``, which of them are there, whether the expert is one) of tile number ``tile``.

    An unused tile has no slot; the tiles of slots without an expert have number ``num_experts``.
    """
    entry = tiles_ptr + tile * 3
    expert = tl.load(entry)
    position = tl.load(entry + 1) + tl.arange(0, BLOCK_M)
    live = position < tl.load(entry + 2)
    slots = tl.load(order_ptr + position, mask=live, other=num_slots)
    return expert, slots, live, (expert >= 0) & (expert < num_experts)


@triton.jit
def _group_scales(scale_ptrs, row_stride, column, k, N: tl.constexpr, K: tl.constexpr, BLOCK_N: tl.constexpr,
                  BLOCK_K: tl.constexpr):  # fmt: skip
    # E8M0 bytes [BLOCK_N, BLOCK_K / 32] of the weight rows from ``column`` on.
    row = column + tl.arange(0, BLOCK_N)
    group = k // _GROUP + tl.arange(0, BLOCK_K // _GROUP)
    inside = (row < N)[:, None] & (group < K // _GROUP)[None, :]
    return tl.load(scale_ptrs + (row.to(tl.int64) * row_stride)[:, None] + group[None, :], mask=inside, other=0)


@triton.jit
def _scaled(acc, scale_ptrs, row_stride, column, real, FORMAT: tl.constexpr, N: tl.constexpr, BLOCK_N: tl.constexpr):
    # E4M3 weights have one float32 factor a row, applied to the sum.
    if FORMAT == "e4m3":
        row = column + tl.arange(0, BLOCK_N)
        acc *= tl.load(scale_ptrs + row.to(tl.int64) * row_stride, mask=(row < N) & real, other=0.0)[None, :]
    return acc


@triton.jit
def _store_rows(out_ptr, values, slots, live, column, N: tl.constexpr, BLOCK_N: tl.constexpr):
    # int64: slot * N passes 2**31 at 400,000 slots of 6,144 columns.
    row = column + tl.arange(0, BLOCK_N)
    out_ptrs = out_ptr + slots.to(tl.int64)[:, None] * N + row[None, :]
    tl.store(out_ptrs, values, mask=live[:, None] & (row < N)[None, :])


@triton.jit
def moe_scatter_persistent_kernel(
    order_ptr, tiles_ptr, num_tiles, num_slots, num_experts, num_tokens,
    hidden_desc, w_desc,
    scale_ptr, scale_expert_stride, scale_row_stride,
    out,
    TOPK: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FORMAT: tl.constexpr, SCATTERS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out[slot] = w[expert of slot] . hidden[token of slot]: every program takes each num_programs-th tile.

    Any grid of one axis.  ``hidden_desc``: rows of ``[M, K]``; ``w_desc``: ``[E, N, K]`` or, for "e2m1", bytes
    ``[E, N, K / 2]``.  ``out``: with SCATTERS a descriptor of single rows of ``[M * TOPK, N]``, else a pointer.
    """
    tl.static_assert(N % 8 == 0, "rows of the descriptors are whole 16 bytes")
    columns: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    for index in range(tl.program_id(0), num_tiles * columns, tl.num_programs(0)):
        expert, slots, live, real = slot_tile(order_ptr, tiles_ptr, index // columns, num_slots, num_experts, BLOCK_M)
        column = index % columns * BLOCK_N
        # A row past the end: a gather gives zeros for it, a scatter drops it.
        tokens = tl.where(live, slots // TOPK, num_tokens)
        scale_ptrs = scale_ptr
        if FORMAT != "bf16":
            scale_ptrs += expert.to(tl.int64) * scale_expert_stride

        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, tl.where(real, K, 0), BLOCK_K):
            x = hidden_desc.gather(tokens, k)
            if FORMAT == "e2m1":
                packed = w_desc.load([expert, column, k // 2])
                packed = packed.reshape(BLOCK_N, BLOCK_K // _GROUP, _GROUP // 2)
                scale = _group_scales(scale_ptrs, scale_row_stride, column, k, N, K, BLOCK_N, BLOCK_K)
                w = _decoded(packed, scale, BLOCK_N, BLOCK_K)
            else:
                w = w_desc.load([expert, column, k]).reshape(BLOCK_N, BLOCK_K)
                if FORMAT == "e4m3":
                    w = e4m3_to_bfloat16(w)
            acc = tl.dot(x, w.T, acc)
        values = _scaled(acc, scale_ptrs, scale_row_stride, column, real, FORMAT, N, BLOCK_N).to(tl.bfloat16)
        if SCATTERS:
            out.scatter(values, slots, column)
        else:
            _store_rows(out, values, slots, live, column, N, BLOCK_N)


@triton.jit
def moe_scatter_kernel(
    order_ptr, tiles_ptr, num_slots, num_experts,
    hidden_ptr, hidden_stride,
    w_ptr, w_expert_stride, w_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    out_ptr,
    TOPK: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FORMAT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out[slot] = w[expert of slot] . hidden[token of slot], one tile a program, by pointers.

    Grid: (tiles * ceil(N / BLOCK_N),), columns first, so that programs beside each other read the same hidden states.
    ``out`` is ``[M * TOPK, N]``.
    """
    columns: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    number = tl.program_id(0)
    expert, slots, live, real = slot_tile(order_ptr, tiles_ptr, number // columns, num_slots, num_experts, BLOCK_M)
    column = number % columns * BLOCK_N
    row = column + tl.arange(0, BLOCK_N)
    inside = row < N
    tokens = tl.where(live, slots // TOPK, 0).to(tl.int64)
    x_ptrs = hidden_ptr + tokens[:, None] * hidden_stride
    # int64: expert * stride passes 2**31 at 512 experts of 2,048 rows of 2,048 bytes.
    own = expert.to(tl.int64)
    w_ptrs = w_ptr + own * w_expert_stride
    scale_ptrs = scale_ptr
    if FORMAT != "bf16":
        scale_ptrs += own * scale_expert_stride

    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, tl.where(real, K, 0), BLOCK_K):
        depth = k + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptrs + depth[None, :], mask=live[:, None] & (depth < K)[None, :], other=0.0)
        rows = row.to(tl.int64) * w_row_stride
        if FORMAT == "e2m1":
            byte = k // 2 + code_offsets(BLOCK_K)
            packed = tl.load(w_ptrs + rows[:, None, None] + byte, mask=inside[:, None, None] & (byte < K // 2), other=0)
            scale = _group_scales(scale_ptrs, scale_row_stride, column, k, N, K, BLOCK_N, BLOCK_K)
            w = _decoded(packed, scale, BLOCK_N, BLOCK_K)
        else:
            w = tl.load(w_ptrs + rows[:, None] + depth[None, :], mask=inside[:, None] & (depth < K)[None, :], other=0)
            if FORMAT == "e4m3":
                w = e4m3_to_bfloat16(w)
        acc = tl.dot(x, w.T, acc)
    values = _scaled(acc, scale_ptrs, scale_row_stride, column, real, FORMAT, N, BLOCK_N).to(tl.bfloat16)
    _store_rows(out_ptr, values, slots, live, column, N, BLOCK_N)
