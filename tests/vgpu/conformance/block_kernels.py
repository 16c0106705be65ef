"""Kernels of one block, and the operations on a block that they are given."""

import triton
import triton.language as tl


@triton.jit
def block(x_ptr, out_ptr, F: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, SIZE: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :])
    tl.store(out_ptr + tl.arange(0, SIZE), tl.reshape(F(x), (SIZE,)))


@triton.jit
def whole(x_ptr, out_ptr, F: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :])
    tl.store(out_ptr, F(x))


@triton.jit
def block_and_index(x_ptr, out_ptr, index_ptr, F: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :])
    found, index = F(x)
    tl.store(out_ptr + tl.arange(0, ROWS), found)
    tl.store(index_ptr + tl.arange(0, ROWS), index)


@triton.jit
def two_blocks(x_ptr, y_ptr, out_ptr, F: tl.constexpr, N: tl.constexpr, SIZE: tl.constexpr):
    lane = tl.arange(0, N)
    tl.store(out_ptr + tl.arange(0, SIZE), tl.reshape(F(tl.load(x_ptr + lane), tl.load(y_ptr + lane)), (SIZE,)))


@triton.jit
def gathered(x_ptr, index_ptr, out_ptr, AXIS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(out_ptr + at, tl.gather(tl.load(x_ptr + at), tl.load(index_ptr + at), AXIS))


@triton.jit
def histogram(x_ptr, out_ptr, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BINS), tl.histogram(tl.load(x_ptr + tl.arange(0, N)), BINS))


@triton.jit
def histogram_masked(x_ptr, out_ptr, N: tl.constexpr, BINS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr + tl.arange(0, BINS), tl.histogram(x, BINS, mask=x < 40))


@triton.jit
def product_of(a, b):
    return a * b


@triton.jit
def larger_magnitude(a, b):
    return tl.where(tl.abs(a) >= tl.abs(b), a, b)


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def sum_rows(x):
    return tl.sum(x, axis=1)


@triton.jit
def sum_columns(x):
    return tl.sum(x, axis=0)


@triton.jit
def sum_all(x):
    return tl.sum(x)


@triton.jit
def max_rows(x):
    return tl.max(x, axis=1)


@triton.jit
def max_columns(x):
    return tl.max(x, axis=0)


@triton.jit
def min_rows(x):
    return tl.min(x, axis=1)


@triton.jit
def max_all(x):
    return tl.max(x)


@triton.jit
def argmax_rows(x):
    return tl.argmax(x, axis=1)


@triton.jit
def argmin_rows(x):
    return tl.argmin(x, axis=1)


@triton.jit
def max_and_index(x):
    return tl.max(x, axis=1, return_indices=True)


@triton.jit
def min_and_index(x):
    return tl.min(x, axis=1, return_indices=True)


@triton.jit
def max_and_last_index(x):
    return tl.max(x, axis=1, return_indices=True, return_indices_tie_break_left=False)


@triton.jit
def xor_rows(x):
    return tl.xor_sum(x, axis=1)


@triton.jit
def or_rows(x):
    return tl.reduce_or(x, axis=1)


@triton.jit
def multiply_rows(x):
    return tl.reduce(x, 1, product_of)


@triton.jit
def fold_rows(x):
    return tl.reduce(x, 1, larger_magnitude)


@triton.jit
def cumsum(x):
    return tl.cumsum(x, axis=1)


@triton.jit
def cumsum_columns(x):
    return tl.cumsum(x, axis=0)


@triton.jit
def cumsum_reverse(x):
    return tl.cumsum(x, axis=1, reverse=True)


@triton.jit
def cumprod(x):
    return tl.cumprod(x, axis=1)


@triton.jit
def scan_larger(x):
    return tl.associative_scan(x, 1, larger)


@triton.jit
def scan_larger_reverse(x):
    return tl.associative_scan(x, 1, larger_magnitude, reverse=True)


@triton.jit
def sort(x):
    return tl.sort(x)


@triton.jit
def sort_descending(x):
    return tl.sort(x, descending=True)


@triton.jit
def topk(x):
    return tl.topk(x, 8)


@triton.jit
def flip(x):
    return tl.flip(x, 1)


@triton.jit
def softmax(x):
    return tl.softmax(x)


@triton.jit
def transpose(x):
    return tl.trans(x)


@triton.jit
def permute(x):
    return tl.permute(tl.reshape(x, (4, 8, 64)), (2, 0, 1))


@triton.jit
def split_sum(x):
    even, odd = tl.split(tl.reshape(x, (32, 32, 2)))
    return even - odd


@triton.jit
def stretch(x):
    return tl.broadcast_to(tl.expand_dims(tl.max(x, axis=1), 1), (32, 64))


@triton.jit
def join(x, y):
    return tl.join(x, y)


@triton.jit
def interleave(x, y):
    return tl.interleave(x, y)


@triton.jit
def cat(x, y):
    return tl.cat(x, y, can_reorder=True)
