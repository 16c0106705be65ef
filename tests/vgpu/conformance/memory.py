"""Atomics without contention, tensor descriptors at and beyond the edges, and random numbers."""

from functools import partial

import numpy as np
import triton
import triton.language as tl

from tests.vgpu.conformance.cases import Case, In, Out, add
from tests.vgpu.conformance.values import BLOCK, TYPES, every, pairs, random_bits


@triton.jit
def atomic(memory_ptr, x_ptr, old_ptr, F: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(old_ptr + lane, F(memory_ptr + lane, tl.load(x_ptr + lane)))


@triton.jit
def exchange_if_equal(memory_ptr, expected_ptr, x_ptr, old_ptr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    old = tl.atomic_cas(memory_ptr + lane, tl.load(expected_ptr + lane), tl.load(x_ptr + lane))
    tl.store(old_ptr + lane, old)


@triton.jit
def random_values(offset_ptr, out_ptr, seed, F: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, F(seed, tl.load(offset_ptr + lane)))


@triton.jit
def first_of_four(seed, offset):
    a, b, c, d = tl.randint4x(seed, offset)
    return a ^ (b + c * 3) ^ d


@triton.jit
def last_of_four(seed, offset):
    _, _, _, last = tl.rand4x(seed, offset)
    return last


@triton.jit
def few_rounds(seed, offset):
    return tl.randint(seed, offset, n_rounds=6)


@triton.jit
def uniform(bits_ptr, out_ptr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, tl.random.uint_to_uniform_float(tl.load(bits_ptr + lane)))


@triton.jit
def descriptor_load(
    x_ptr, out_ptr, Y: tl.constexpr, X: tl.constexpr, H: tl.constexpr, W: tl.constexpr, PAD: tl.constexpr
):
    described = tl.make_tensor_descriptor(x_ptr, [H, W], [W, 1], [16, 32], padding_option=PAD)
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(out_ptr + at, described.load([Y, X]))


@triton.jit
def descriptor_store(x_ptr, out_ptr, Y: tl.constexpr, X: tl.constexpr, H: tl.constexpr, W: tl.constexpr):
    described = tl.make_tensor_descriptor(out_ptr, [H, W], [W, 1], [16, 32])
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    described.store([Y, X], tl.load(x_ptr + at))


@triton.jit
def descriptor_combine(
    x_ptr, out_ptr, NAME: tl.constexpr, Y: tl.constexpr, X: tl.constexpr, H: tl.constexpr, W: tl.constexpr
):
    described = tl.make_tensor_descriptor(out_ptr, [H, W], [W, 1], [16, 32])
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    x = tl.load(x_ptr + at)
    if NAME == "add":
        described.atomic_add([Y, X], x)
    elif NAME == "max":
        described.atomic_max([Y, X], x)
    elif NAME == "min":
        described.atomic_min([Y, X], x)
    elif NAME == "and":
        described.atomic_and([Y, X], x)
    elif NAME == "or":
        described.atomic_or([Y, X], x)
    else:
        described.atomic_xor([Y, X], x)


ATOMICS = {
    "add": (tl.atomic_add, np.add, "int32 uint32 int64 uint64 fp32 fp64 fp16 bf16"),
    "max": (tl.atomic_max, np.maximum, "int32 uint32 int64 uint64 fp32 fp64"),
    "min": (tl.atomic_min, np.minimum, "int32 uint32 int64 uint64 fp32 fp64"),
    "and": (tl.atomic_and, np.bitwise_and, "int32 uint32 int64"),
    "or": (tl.atomic_or, np.bitwise_or, "int32 uint32 int64"),
    "xor": (tl.atomic_xor, np.bitwise_xor, "int32 uint32 int64"),
    "xchg": (tl.atomic_xchg, lambda held, x: x, "int32 int64 fp32 fp64"),
}
# corner of the block, in a tensor of 40 by 64
CORNERS = {"inside": (8, 16), "below": (32, 32), "right": (0, 48), "outside": (64, 0), "negative": (-4, -8)}


def _leaving(function):
    return lambda held, x: (function(held, x), held)


def _exchanged(held, expected, x):
    return np.where(held == expected, x, held), held


def _box(x, row, column):
    padded = np.pad(x, 128)
    return padded[128 + row : 144 + row, 128 + column : 160 + column]


def _left_alone(x, held):
    return held


def _atomics():
    for name, (function, plain, types) in ATOMICS.items():
        predict = _leaving(plain)
        for type in types.split():
            x, y = (np.resize(v, 4096) if TYPES[type][1] == 2 else v for v in pairs(type))
            operands = (Out(type, x.shape, x), In(type, y), Out(type, x.shape))
            grid = (x.size // BLOCK,)
            add(Case(f"atomic_{name}/{type}", atomic, operands, {"F": function, "BLOCK": BLOCK}, grid, predict))
    for type in ("int32", "int64", "uint32"):
        x = every(type)
        expected = np.where(np.arange(x.size) % 3 == 0, x, x ^ x.dtype.type(1))
        operands = (Out(type, x.shape, x), In(type, expected), In(type, x[::-1].copy()), Out(type, x.shape))
        grid = (x.size // BLOCK,)
        add(Case(f"atomic_cas/{type}", exchange_if_equal, operands, {"BLOCK": BLOCK}, grid, _exchanged))


def _random():
    offsets = np.concatenate([np.arange(512), [2**31 - 1, 2**31, 2**32 - 1], random_bits(80, 509, 4)]).astype(np.uint32)
    for name, function, out in (
        ("randint", tl.randint, "uint32"),
        ("rand", tl.rand, "fp32"),
        ("randn", tl.randn, "fp32"),
        ("randint4x", first_of_four, "uint32"),
        ("rand4x", last_of_four, "fp32"),
        ("randint_6_rounds", few_rounds, "uint32"),
    ):
        for seed in (0, 2**40 + 12345):
            operands = (In("int32", offsets), Out(out, offsets.shape))
            add(Case(f"{name}/seed{seed}", random_values, operands, {"seed": seed, "F": function, "BLOCK": BLOCK}))
    wide = every("int64")[:BLOCK]
    operands = (In("int64", wide), Out("uint32", wide.shape))
    add(Case("randint/offset64", random_values, operands, {"seed": 7, "F": tl.randint, "BLOCK": BLOCK}))
    for type in ("uint32", "int32"):
        x = every(type)
        operands = (In(type, x), Out("fp32", x.shape))
        add(Case(f"uniform/{type}", uniform, operands, {"BLOCK": BLOCK}, (x.size // BLOCK,)))


def _descriptors():
    for type in ("fp32", "bf16", "fp16", "fp8e4nv", "fp8e5", "int8", "int32"):
        width = TYPES[type][1]
        x = random_bits(81, 40 * 64, width).reshape(40, 64)
        block = random_bits(82, 16 * 32, width).reshape(16, 32)
        for name, (row, column) in CORNERS.items():
            constants = {"Y": row, "X": column, "H": 40, "W": 64}
            for pad in ("zero",) if "int" in type else ("zero", "nan"):
                operands = (In(type, x), Out(type, (16, 32)))
                id = f"descriptor_load/{type}/{name}/{pad}"
                predict = partial(_box, row=row, column=column)
                add(Case(id, descriptor_load, operands, {**constants, "PAD": pad}, (1,), predict))
            operands = (In(type, block), Out(type, (40, 64), x))
            add(Case(f"descriptor_store/{type}/{name}", descriptor_store, operands, constants, (1,), _left_alone))
    for type, names in (
        ("int32", "add max min and or xor"),
        ("uint32", "add max min"),
        ("fp32", "add"),
        ("bf16", "add max min"),
        ("fp16", "add max min"),
    ):
        width = TYPES[type][1]
        left, right = pairs(type)
        x, block = left[: 40 * 64].reshape(40, 64), right[: 16 * 32].reshape(16, 32)
        for name in names.split():
            constants = {"NAME": name, "Y": 32, "X": 48, "H": 40, "W": 64}
            operands = (In(type, block), Out(type, (40, 64), x))
            add(Case(f"descriptor_{name}/{type}", descriptor_combine, operands, constants, (1,), _left_alone))


_atomics()
_random()
_descriptors()
