"""Operators: arithmetic, comparisons, extremes, clamps, fused products; integers with their overflow and shifts."""

import numpy as np
import triton
import triton.language as tl

from tests.vgpu.conformance.cases import elementwise
from tests.vgpu.conformance.functions import by_float64
from tests.vgpu.conformance.values import INTEGERS, TYPES, every, pairs, triples


@triton.jit
def plus(x, y):
    return x + y


@triton.jit
def minus(x, y):
    return x - y


@triton.jit
def times(x, y):
    return x * y


@triton.jit
def divide(x, y):
    return x / y


@triton.jit
def floor_divide(x, y):
    return x // y


@triton.jit
def modulo(x, y):
    return x % y


@triton.jit
def less(x, y):
    return (x < y).to(tl.int8)


@triton.jit
def less_equal(x, y):
    return (x <= y).to(tl.int8)


@triton.jit
def greater(x, y):
    return (x > y).to(tl.int8)


@triton.jit
def greater_equal(x, y):
    return (x >= y).to(tl.int8)


@triton.jit
def equal(x, y):
    return (x == y).to(tl.int8)


@triton.jit
def not_equal(x, y):
    return (x != y).to(tl.int8)


@triton.jit
def choose(x, y):
    return tl.where(x < y, x, y)


@triton.jit
def maximum(x, y):
    return tl.maximum(x, y)


@triton.jit
def minimum(x, y):
    return tl.minimum(x, y)


@triton.jit
def maximum_nan(x, y):
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum_nan(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def and_(x, y):
    return x & y


@triton.jit
def or_(x, y):
    return x | y


@triton.jit
def xor(x, y):
    return x ^ y


@triton.jit
def left(x, y):
    return x << y


@triton.jit
def right(x, y):
    return x >> y


@triton.jit
def invert(x):
    return ~x


@triton.jit
def negate(x):
    return -x


@triton.jit
def clamp(x, low, high):
    return tl.clamp(x, low, high)


@triton.jit
def clamp_nan(x, low, high):
    return tl.clamp(x, low, high, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def clamp_symmetric(x):
    return tl.clamp(x, -2.0, 2.0)


@triton.jit
def clamp_symmetric_nan(x):
    return tl.clamp(x, -2.0, 2.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def times_plus(x, y, z):
    return x * y + z


@triton.jit
def minus_times(x, y, z):
    return z - x * y


@triton.jit
def fma_negated(x, y, z):
    return tl.fma(-x, y, z)


COMPARISONS = (less, less_equal, greater, greater_equal, equal, not_equal)
PLAIN = {
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
}
FLOAT_BINARY = (
    (plus, np.add),
    (minus, np.subtract),
    (times, np.multiply),
    (divide, np.divide),
    (modulo, lambda x, y: np.where(np.isinf(y), x, x - np.trunc(x / y).astype(np.float64) * y)),
    (maximum, np.fmax),
    (minimum, np.fmin),
    (maximum_nan, np.maximum),
    (minimum_nan, np.minimum),
    (choose, lambda x, y: np.where(x < y, x, y)),
)


def _name(function):
    return function.__name__.strip("_")


def _floats():
    for type in ("fp32", "bf16", "fp16", "fp64"):
        for function, plain in FLOAT_BINARY:
            # fp16 and bf16 sums of two are the same through float64 and float32: both hold them exactly, or nearly
            elementwise(f"{_name(function)}/{type}", function, type, pairs(type), predict=plain)
        for function in COMPARISONS:
            elementwise(f"{_name(function)}/{type}", function, type, pairs(type), "int8", PLAIN[_name(function)])
        for function in (clamp, clamp_nan):
            elementwise(f"{_name(function)}/{type}", function, type, triples(type), predict=_clamp)
        for function in (clamp_symmetric, clamp_symmetric_nan):
            elementwise(f"{_name(function)}/{type}", function, type, [every(type)], predict=lambda x: x.clip(-2, 2))
        for function, plain in (
            (times_plus, lambda x, y, z: x * y + z),
            (minus_times, lambda x, y, z: z - x * y),
            (tl.fma, lambda x, y, z: x * y + z),
            (fma_negated, lambda x, y, z: z - x * y),
        ):
            id = f"{function.__name__}/{type}"
            elementwise(id, function, type, triples(type), predict=by_float64(plain))
    for name in ("fdiv", "div_rn"):
        elementwise(f"{name}/fp32", getattr(tl, name), "fp32", pairs("fp32"), predict=by_float64(np.divide))
    for type in ("fp8e4nv", "fp8e5"):
        for function, plain in FLOAT_BINARY[:3]:
            elementwise(f"{_name(function)}/{type}", function, type, pairs(type), predict=plain)
        for function in (less, equal):
            elementwise(f"{_name(function)}/{type}", function, type, pairs(type), "int8", PLAIN[_name(function)])


def _integers():
    for type in INTEGERS:
        x, y = pairs(type)
        bits = 8 * TYPES[type][1]
        for function, plain in (
            (plus, np.add),
            (minus, np.subtract),
            (times, np.multiply),
            (maximum, np.maximum),
            (minimum, np.minimum),
            (and_, np.bitwise_and),
            (or_, np.bitwise_or),
            (xor, np.bitwise_xor),
        ):
            elementwise(f"{_name(function)}/{type}", function, type, (x, y), predict=plain)
        for function in (less, less_equal, equal):
            elementwise(f"{_name(function)}/{type}", function, type, (x, y), "int8", PLAIN[_name(function)])
        ones = y.dtype.type((1 << bits) - 1)
        smallest = x.dtype.type(1 << (bits - 1))
        # the quotient that overflows is a case of its own, as is division by zero
        regular = np.where((y == 0) | ((y == ones) & (x == smallest)), y.dtype.type(3), y)
        signless = type.removeprefix("u")
        plain_divide, plain_modulo = (np.floor_divide, np.mod) if type != signless else (_truncated, np.fmod)
        elementwise(f"floor_divide/{type}", floor_divide, type, (x, regular), predict=plain_divide)
        elementwise(f"modulo/{type}", modulo, type, (x, regular), predict=plain_modulo)
        zero = np.zeros_like(every(type))
        elementwise(f"floor_divide/{type}/by_zero", floor_divide, type, (every(type), zero))
        elementwise(f"modulo/{type}/by_zero", modulo, type, (every(type), zero))
        amount = y % y.dtype.type(bits)
        beyond = amount + y.dtype.type(bits)
        for function, plain in ((left, np.left_shift), (right, np.right_shift)):
            elementwise(f"{_name(function)}/{type}", function, type, (x, amount), predict=plain)
            elementwise(f"{_name(function)}/{type}/beyond", function, type, (x, beyond), predict=_nothing)
        for function, plain in ((negate, np.negative), (invert, np.invert)):
            if function is negate and type != signless:
                continue
            elementwise(f"{_name(function)}/{type}", function, type, [every(type)], predict=plain)
        if type == signless:
            elementwise(f"abs/{type}", tl.abs, type, [every(type)], predict=np.abs)
            overflow = np.full_like(every(type), smallest)
            elementwise(f"floor_divide/{type}/overflow", floor_divide, type, (overflow, np.full_like(overflow, ones)))
            elementwise(f"modulo/{type}/overflow", modulo, type, (overflow, np.full_like(overflow, ones)))
        if bits >= 32:
            elementwise(f"umulhi/{type}", tl.umulhi, type, (x, y), predict=_umulhi)
    for type in ("int32", "uint32", "int64"):
        elementwise(f"divide/{type}", divide, type, pairs(type), "fp32", by_float64(np.divide))


def _clamp(x, low, high):
    return np.fmin(np.fmax(x, low), high)


def _umulhi(x, y):
    bits = 8 * x.itemsize
    pairs = zip(x.view(f"u{x.itemsize}").tolist(), y.view(f"u{y.itemsize}").tolist(), strict=True)
    return np.array([a * b >> bits for a, b in pairs], f"u{x.itemsize}")


def _nothing(x, y):
    return np.zeros_like(x)


def _truncated(x, y):
    with np.errstate(all="ignore"):
        quotient = x // y
        return quotient + ((quotient < 0) & (quotient * y != x))


_floats()
_integers()
