"""Operations on whole blocks: reductions, scans, sorting, histograms, gathers and changes of shape."""

from functools import partial

import numpy as np
import torch

from tests.vgpu.conformance.block_kernels import (
    argmax_rows,
    argmin_rows,
    block,
    block_and_index,
    cat,
    cumprod,
    cumsum,
    cumsum_columns,
    cumsum_reverse,
    flip,
    fold_rows,
    gathered,
    histogram,
    histogram_masked,
    interleave,
    join,
    max_all,
    max_and_index,
    max_and_last_index,
    max_columns,
    max_rows,
    min_and_index,
    min_rows,
    multiply_rows,
    or_rows,
    permute,
    scan_larger,
    scan_larger_reverse,
    softmax,
    sort,
    sort_descending,
    split_sum,
    stretch,
    sum_all,
    sum_columns,
    sum_rows,
    topk,
    transpose,
    two_blocks,
    whole,
    xor_rows,
)
from tests.vgpu.conformance.cases import Case, In, Out, add
from tests.vgpu.conformance.values import TYPES, moderate, random_bits

ROWS, COLS = 32, 64


def narrowed(values, type):
    """Bits of float32 ``values`` in ``type``; infinity is NaN where there is none, whatever this torch makes of it."""
    width = TYPES[type][1]
    values = np.asarray(values, np.float32)
    bits = torch.from_numpy(values).to(TYPES[type][0]).view(getattr(torch, f"int{8 * width}")).numpy().view(f"u{width}")
    if type == "fp8e4nv":
        bits = np.where(np.isinf(values), np.where(values > 0, np.uint8(0x7F), np.uint8(0xFF)), bits)
    return bits


def tile(type, rows=ROWS, nan=True):
    """A tile whose first rows hold signed zeros, ties, subnormals, overflow, infinities and NaN; the rest is random."""
    if "int" in type:
        width = TYPES[type][1]
        x = random_bits(50, rows * COLS, width).reshape(rows, COLS).copy()
        x[: rows // 2] &= x.dtype.type(7)
        return x
    x = np.resize(moderate(51, rows * COLS, -3, 3), (rows, COLS)).view(np.float32).copy()
    tiny, big = {"fp16": (6e-8, 6e4)}.get(type, (1e-40, 3e38))
    x[0], x[0, ::3] = 0.0, -0.0
    x[1], x[1, 5::7] = -1.0, 2.5
    x[2] = np.arange(1, COLS + 1) * np.float32(tiny)
    x[3, ::2] = big
    x[4, 9], x[4, 40] = np.inf, np.inf
    x[5] = -0.0
    if nan:
        x[6, 20], x[6, 3] = np.nan, -np.inf
        x[7] = np.nan
        x[8, 0], x[9, COLS - 1] = np.nan, np.nan
        x[10, 1::2] = np.nan
    return narrowed(x, type)


def _by_rows(function):
    return lambda x: function(np.asarray(x, np.float64) if x.dtype.kind == "f" else x)


def _gathered(x, index, axis):
    return np.take_along_axis(x, index.astype(np.int64), axis)


def _case(function, type, size, out=None, kernel=block, bits=None, name=None, predict=None, growth=None):
    bits = tile(type) if bits is None else bits
    constants = {"F": function, "ROWS": bits.shape[0], "COLS": bits.shape[1]}
    if kernel is block:
        constants["SIZE"] = size
    shape = (size,)
    results = [Out(out or type, shape)]
    if kernel is block_and_index:
        results.append(Out("int32", shape))
    id = f"{name or function.__name__}/{type}"
    add(Case(id, kernel, (In(type, bits), *results), constants, (1,), predict, growth=growth))


def _register():
    for type in ("fp32", "bf16", "fp16", "fp64", "int32", "int64", "uint32", "int8", "int16"):
        wide = {"int8": "int32", "int16": "int32"}.get(type, type)
        _case(sum_rows, type, ROWS, wide, predict=_by_rows(lambda x: x.sum(1)))
        _case(sum_columns, type, COLS, wide, predict=_by_rows(lambda x: x.sum(0)))
        _case(sum_all, type, 1, wide, whole, predict=_by_rows(lambda x: x.sum()))
        for function in (max_rows, min_rows):
            _case(function, type, ROWS)
        _case(max_columns, type, COLS)
        _case(max_all, type, 1, None, whole)
        for function in (argmax_rows, argmin_rows):
            _case(function, type, ROWS, "int32")
        for function in (max_and_index, min_and_index, max_and_last_index):
            _case(function, type, ROWS, None, block_and_index)
    for type in ("int32", "int64", "uint32", "int8"):
        _case(xor_rows, type, ROWS)
        _case(or_rows, type, ROWS)
    few = {type: tile(type, 16) for type in ("fp32", "bf16", "fp16", "fp64", "int32", "int64")}
    for type, bits in few.items():
        _case(
            multiply_rows,
            type,
            ROWS,
            predict=_by_rows(lambda x: x.prod(1)),
            growth=_by_rows(lambda x: np.fmax(x, 1).prod(1)),
        )
        _case(fold_rows, type, ROWS)
        for function, plain in (
            (cumsum, lambda x: x.cumsum(1)),
            (cumsum_columns, lambda x: x.cumsum(0)),
            (cumsum_reverse, lambda x: x[:, ::-1].cumsum(1)[:, ::-1]),
            (cumprod, lambda x: x.cumprod(1)),
            (scan_larger, lambda x: np.fmax.accumulate(x, axis=1)),
            (scan_larger_reverse, None),
        ):
            predict = plain and _by_rows(plain)
            growth = _by_rows(lambda x: np.fmax(x, 1).cumprod(1)) if function is cumprod else None
            _case(function, type, bits.size, None, block, bits, predict=predict, growth=growth)
    for type in ("fp32", "fp16", "bf16", "int32", "int64", "uint8", "int8"):
        bits = tile(type, 16, nan=False)
        for function, size, plain in (
            (sort, bits.size, lambda x: np.sort(x, axis=1)),
            (sort_descending, bits.size, lambda x: np.sort(x, axis=1)[:, ::-1]),
            (topk, 16 * 8, lambda x: np.sort(x, axis=1)[:, :-9:-1]),
        ):
            _case(function, type, size, None, block, bits, predict=plain)
        if "int" not in type:
            for function, size in ((sort, bits.size), (topk, 16 * 8)):
                _case(function, type, size, None, block, tile(type, 16), f"{function.__name__}_of_nan")
    _case(softmax, "fp32", ROWS * COLS)
    for type in ("fp32", "bf16", "int32", "int8"):
        size = ROWS * COLS
        for function, count, plain in (
            (flip, size, lambda x: x[:, ::-1]),
            (transpose, size, np.transpose),
            (permute, size, lambda x: x.reshape(4, 8, 64).transpose(2, 0, 1)),
            (split_sum, size // 2, lambda x: x[:, ::2] - x[:, 1::2]),
            (stretch, size, None),
        ):
            _case(function, type, count, predict=plain)
        x, y = tile(type).ravel()[:512], tile(type).ravel()[512:1024]
        for function in (join, interleave, cat):
            operands = (In(type, x), In(type, y), Out(type, (1024,)))
            add(Case(f"{function.__name__}/{type}", two_blocks, operands, {"F": function, "N": 512, "SIZE": 1024}))
        for axis, length in ((0, ROWS), (1, COLS)):
            index = (random_bits(52 + axis, size, 4) % np.uint32(length)).reshape(ROWS, COLS)
            operands = (In(type, tile(type)), In("int32", index), Out(type, (ROWS, COLS)))
            constants = {"AXIS": axis, "ROWS": ROWS, "COLS": COLS}
            predict = partial(_gathered, axis=axis)
            add(Case(f"gather/{type}/axis{axis}", gathered, operands, constants, (1,), predict))
    counted = random_bits(54, 1024, 4) % np.uint32(61)
    for kernel in (histogram, histogram_masked):
        operands = (In("int32", counted), Out("int32", (64,)))
        add(Case(kernel.__name__, kernel, operands, {"N": 1024, "BINS": 64}))


_register()
