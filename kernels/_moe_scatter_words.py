"""Device code of ``kernels.moe_scatter`` for narrow weights on targets with wgmma: weights decoded in registers.

Weights come as 32-bit words and are the left operand of the product, which reads it from registers; slots are its
columns.  A thread finds the codes that it decodes where the instruction wants their values if columns are multiplied in
*stored order* (see ``kernels._mxfp4_words``), into which the hidden states are put once, by a launch of their own.
"""

import triton
import triton.language as tl

from kernels._fp4 import GROUP
from kernels._moe_scatter_kernels import e4m3_to_bfloat16, slot_tile
from kernels._mxfp4_words import on_nvidia, to_stored_order, weights_of
from kernels._wgmma import registers_free

_GROUP = tl.constexpr(GROUP)
#: Groups of 32 whose columns are stored together, at most: a thread of a matrix instruction owns 16 bytes of E2M1
#: codes of each of four groups, or of E4M3 codes of each half of two.
MOST_QUADS = 4
_PAIRS = tl.constexpr(1)

# $0..$3: the codes of the word $4, from its lowest byte on, as bfloat16.  Two codes a register, each in the high byte
# of a half: sign, and four places lower exponent and fraction, make the value times 2^-120.  Adding -0 keeps the sign
# of a zero.  The codes that are no numbers would be 480, the largest number is 448: times 2^119 x 1.09375 only the
# former overflow, and infinity times 0 is NaN.
_DECODE = """{
.reg .b32 pair, low, other, two120, large, zero, minus;
mov.b32 two120, 0x7B807B80;
mov.b32 large, 0x7B0C7B0C;
mov.b32 minus, 0x80008000;
mov.b32 zero, 0;
FIRST
SECOND
}"""
_PAIR = """prmt.b32 pair, $4, zero, SELECT;
shr.u32 low, pair, 4;
and.b32 low, low, 0x07F007F0;
lop3.b32 pair, pair, minus, low, 0xEA;
fma.rn.bf16x2 pair, pair, two120, minus;
fma.rn.bf16x2 other, pair, large, minus;
fma.rn.bf16x2 pair, other, zero, pair;
mov.b32 {HALVES}, pair;"""
_PTX = tl.constexpr(
    _DECODE.replace("FIRST", _PAIR.replace("SELECT", "0x1404").replace("HALVES", "$0, $1")).replace(
        "SECOND", _PAIR.replace("SELECT", "0x3424").replace("HALVES", "$2, $3")
    )
)
_CONSTRAINTS = tl.constexpr("=h,=h,=h,=h,r")


@triton.jit
def _e4m3_of(words, NUMBER: tl.constexpr):
    return e4m3_to_bfloat16(((words.to(tl.uint32, bitcast=True) >> (8 * NUMBER)) & 0xFF).to(tl.uint8))


@triton.jit
def e4m3_weights_of(words, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, QUADS: tl.constexpr, PTX: tl.constexpr):
    """bfloat16 values ``[BLOCK_N, BLOCK_K]`` in stored order of E4M3 codes, int32 ``words`` ``[BLOCK_N, BLOCK_K / 4]``.

    Exact; 0x7F and 0xFF are NaN.  Without PTX, and on everything but NVIDIA, the same by portable operations.
    """
    if PTX and on_nvidia():
        c0, c1, c2, c3 = tl.inline_asm_elementwise(
            _PTX, _CONSTRAINTS, [words], dtype=(tl.bfloat16,) * 4, is_pure=True, pack=1
        )
    else:
        c0, c1, c2, c3 = _e4m3_of(words, 0), _e4m3_of(words, 1), _e4m3_of(words, 2), _e4m3_of(words, 3)
    codes = tl.join(tl.join(c0, c1), tl.join(c2, c3))
    return _e4m3_stored(codes, BLOCK_N, BLOCK_K, QUADS)


@triton.jit
def _e4m3_stored(codes, ROWS: tl.constexpr, BLOCK_K: tl.constexpr, QUADS: tl.constexpr):
    # [.., thread, word, code % 2, code / 2]: of each 16 columns of the instruction, thread t has 2t, 2t + 1, 2t + 8 and
    # 2t + 9.
    split = tl.reshape(codes, (ROWS, BLOCK_K // (QUADS * 16), 4, QUADS, 2, 2))
    return tl.reshape(tl.permute(split, (0, 1, 3, 5, 2, 4)), (ROWS, BLOCK_K))


@triton.jit
def _owners(ids_ptr, first, num_slots, num_experts, CHUNK: tl.constexpr):
    # (CHUNK slots from ``first`` on, which of them there are, their experts: num_experts for an id that is none).
    slot = first + tl.arange(0, CHUNK)
    there = slot < num_slots
    ids = tl.load(ids_ptr + slot, mask=there, other=0)
    return slot, there, tl.where((ids >= 0) & (ids < num_experts), ids, num_experts).to(tl.int32)


@triton.jit
def _sort_slots(
    own, ids_ptr, num_slots, num_experts, order_ptr, tiles_ptr, num_tiles,
    EXPERTS: tl.constexpr, CHUNK: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    # What ``kernels._moe_routing.group_by_expert`` makes, by one launch: the slots and tiles of expert number ``own``,
    # and, by the first, the tiles that nobody uses.
    counts = tl.zeros((EXPERTS,), tl.int32)
    for first in range(0, num_slots, CHUNK):
        _, there, owners = _owners(ids_ptr, first, num_slots, num_experts, CHUNK)
        counts += tl.histogram(owners, EXPERTS, mask=there)
    expert = tl.arange(0, EXPERTS)
    tiles = (counts + BLOCK_M - 1) // BLOCK_M
    start = tl.sum(tl.where(expert < own, counts, 0), 0)
    stop = start + tl.sum(tl.where(expert == own, counts, 0), 0)
    entry = tiles_ptr + tl.sum(tl.where(expert < own, tiles, 0), 0) * 3
    for begin in range(start, stop, BLOCK_M):
        tl.store(entry, own)
        tl.store(entry + 1, begin)
        tl.store(entry + 2, tl.minimum(begin + BLOCK_M, stop))
        entry += 3
    if own == 0:
        for unused in range(tl.sum(tiles, 0), num_tiles):
            tl.store(tiles_ptr + unused * 3, -1)
            tl.store(tiles_ptr + unused * 3 + 1, 0)
            tl.store(tiles_ptr + unused * 3 + 2, 0)
    place = order_ptr + start
    for first in range(0, num_slots, CHUNK):
        slot, there, owners = _owners(ids_ptr, first, num_slots, num_experts, CHUNK)
        mine = (there & (owners == own)).to(tl.int32)
        tl.store(place + tl.cumsum(mine, 0) - 1, slot, mask=mine != 0)
        place += tl.sum(mine, 0)


@triton.jit
def scatter_prepare_kernel(
    ids_ptr, num_slots, num_experts, order_ptr, tiles_ptr, num_tiles,
    hidden_ptr, hidden_stride, column_stride, stored_ptr, num_tokens,
    K: tl.constexpr, FORMAT: tl.constexpr, BLOCK_K: tl.constexpr, QUADS: tl.constexpr,
    EXPERTS: tl.constexpr, CHUNK: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Sort slots by expert into tiles, those without an expert last, and put hidden states into stored order.

    Grid: (max(num_experts + 1, tokens K / BLOCK_K),).  ``order`` int32 ``[S]``, ``tiles`` int32 ``[num_tiles, 3]``, of
    which there are as many as ``kernels._moe_routing.group_by_expert`` makes; ``stored`` ``[M, K]``.  EXPERTS is a
    power of two > num_experts.
    """
    program = tl.program_id(0)
    if program <= num_experts:
        _sort_slots(program, ids_ptr, num_slots, num_experts, order_ptr, tiles_ptr, num_tiles, EXPERTS, CHUNK, BLOCK_M)
    if program < num_tokens * (K // BLOCK_K):
        _store_order(
            program // (K // BLOCK_K), program % (K // BLOCK_K), hidden_ptr, hidden_stride, column_stride, stored_ptr,
            K, FORMAT, BLOCK_K, QUADS,
        )  # fmt: skip


@triton.jit
def _store_order(
    token, block, hidden_ptr, hidden_stride, column_stride, stored_ptr,
    K: tl.constexpr, FORMAT: tl.constexpr, BLOCK_K: tl.constexpr, QUADS: tl.constexpr,
):  # fmt: skip
    # stored[token] = hidden[token] in stored order, BLOCK_K columns of it.
    token = token.to(tl.int64)
    column = block * BLOCK_K + tl.arange(0, BLOCK_K)[None, :]
    values = tl.load(hidden_ptr + token * hidden_stride + column.to(tl.int64) * column_stride)
    if FORMAT == "e4m3":
        # [.., thread, word, code / 2, code % 2]
        codes = tl.reshape(values, (1, BLOCK_K // (QUADS * 16), 4, QUADS, 2, 2))
        stored = _e4m3_stored(tl.permute(codes, (0, 1, 2, 3, 5, 4)), 1, BLOCK_K, QUADS)
    else:
        stored = to_stored_order(values, 1, BLOCK_K, QUADS, _PAIRS)
    tl.store(stored_ptr + token * K + column, stored)


@triton.jit
def moe_scatter_words_kernel(
    order_ptr, tiles_ptr, num_slots, num_experts,
    stored_ptr,
    words_ptr, words_expert_stride, words_row_stride,
    scale_ptr, scale_expert_stride, scale_row_stride,
    out_ptr,
    TOPK: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FORMAT: tl.constexpr, PTX: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, QUADS: tl.constexpr,
):  # fmt: skip
    """out[slot] = w[expert of slot] . hidden[token of slot], one tile a program; ``stored`` is ``[M, K]``.

    Grid: (tiles * ceil(N / BLOCK_N),), columns first.  ``words``: int32 ``[E, N, K / 4]`` for "e4m3", ``[E, N, K / 8]``
    for "e2m1".  ``out`` is ``[M * TOPK, N]``.
    """
    blocks: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    number = tl.program_id(0)
    expert, slots, live, real = slot_tile(order_ptr, tiles_ptr, number // blocks, num_slots, num_experts, BLOCK_M)
    row = number % blocks * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = row < N
    tokens = tl.where(live, slots // TOPK, 0).to(tl.int64)
    x_ptrs = stored_ptr + tokens[:, None] * K
    # int64: expert * stride passes 2**31 at 512 experts of 2,048 rows of 2,048 words.
    own = expert.to(tl.int64)
    rows = row.to(tl.int64)
    word_ptrs = words_ptr + own * words_expert_stride + (rows * words_row_stride)[:, None]
    scale_ptrs = scale_ptr + own * scale_expert_stride + rows * scale_row_stride
    CODES: tl.constexpr = 4 if FORMAT == "e4m3" else 8

    acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for k in range(0, tl.where(real, K, 0), BLOCK_K):
        registers_free(True)
        column = k + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptrs + column[None, :], mask=live[:, None] & (column < K)[None, :], other=0.0)
        word = k // CODES + tl.arange(0, BLOCK_K // CODES)
        within = inside[:, None] & (word < K // CODES)[None, :]
        words = tl.load(word_ptrs + word[None, :], mask=within, other=0)
        if FORMAT == "e4m3":
            w = e4m3_weights_of(words, BLOCK_N, BLOCK_K, QUADS, PTX)
        else:
            group = k // _GROUP + tl.arange(0, BLOCK_K // _GROUP)
            has_scale = inside[:, None] & (group < K // _GROUP)[None, :]
            scale = tl.load(scale_ptrs[:, None] + group[None, :], mask=has_scale, other=0)
            w = weights_of(words, scale.to(tl.int32), BLOCK_N, BLOCK_K, QUADS, _PAIRS, True, PTX)
        acc = tl.dot(w, tl.trans(x), acc)
    if FORMAT == "e4m3":
        acc *= tl.load(scale_ptrs, mask=inside & real, other=0.0)[:, None]
    out_ptrs = out_ptr + slots.to(tl.int64)[None, :] * N + row[:, None]
    tl.store(out_ptrs, acc.to(tl.bfloat16), mask=live[None, :] & inside[:, None])
