"""The language's own functions of one number, over float32, float64, and through float32 over all 16-bit codes."""

import numpy as np
import torch
import triton
import triton.language as tl

from tests.vgpu.conformance.cases import elementwise, map1_by_float32
from tests.vgpu.conformance.values import every


def by_float64(function):
    def predict(*operands):
        return function(*(np.asarray(x, np.float64) for x in operands))

    return predict


def _erf(x):
    return torch.special.erf(torch.from_numpy(x)).numpy()


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


@triton.jit
def negate(x):
    return -x


@triton.jit
def sigmoid(x):
    return tl.sigmoid(x)


@triton.jit
def silu_by_exp(x):
    return x / (1 + tl.exp(-x))


@triton.jit
def reciprocal(x):
    return 1.0 / x


@triton.jit
def is_nan(x):
    return (x != x).to(tl.int8)


# name: function, what it is in float64, types
FUNCTIONS = {
    "exp": (tl.exp, np.exp, "fp32 fp64"),
    "exp2": (tl.exp2, np.exp2, "fp32 fp64"),
    "log": (tl.log, np.log, "fp32 fp64"),
    "log2": (tl.log2, np.log2, "fp32 fp64"),
    "sqrt": (tl.sqrt, np.sqrt, "fp32 fp64"),
    "sqrt_rn": (tl.sqrt_rn, np.sqrt, "fp32"),
    "rsqrt": (tl.rsqrt, lambda x: 1 / np.sqrt(x), "fp32 fp64"),
    "sin": (tl.sin, np.sin, "fp32 fp64"),
    "cos": (tl.cos, np.cos, "fp32 fp64"),
    "erf": (tl.erf, _erf, "fp32 fp64"),
    "floor": (tl.floor, np.floor, "fp32 fp64"),
    "ceil": (tl.ceil, np.ceil, "fp32 fp64"),
    "sigmoid": (sigmoid, _sigmoid, "fp32 fp64"),
    "silu_by_exp": (silu_by_exp, lambda x: x / (1 + np.exp(-x)), "fp32"),
    "reciprocal": (reciprocal, lambda x: 1 / x, "fp32 fp64"),
}
# float64 results of others are stored as they are: what numpy computes there depends on the machine
BASIC = ("sqrt", "rsqrt", "floor", "ceil", "reciprocal")
# no rounding: every type directly
EXACT = {"abs": (tl.abs, np.abs), "negate": (negate, np.negative)}


def _register():
    for name, (function, plain, types) in FUNCTIONS.items():
        for type in types.split():
            predict = by_float64(plain) if type == "fp32" or name in BASIC else None
            elementwise(f"{name}/{type}", function, type, [every(type)], predict=predict)
        for type in ("bf16", "fp16"):
            elementwise(
                f"{name}/{type}", function, type, [every(type)], predict=by_float64(plain), kernel=map1_by_float32
            )
    for name, (function, plain) in EXACT.items():
        for type in ("fp32", "fp64", "bf16", "fp16", "fp8e4nv", "fp8e5"):
            elementwise(f"{name}/{type}", function, type, [every(type)], predict=plain)
    for type in ("fp32", "bf16", "fp16", "fp8e4nv", "fp8e5"):
        elementwise(f"is_nan/{type}", is_nan, type, [every(type)], "int8", np.isnan)


_register()
