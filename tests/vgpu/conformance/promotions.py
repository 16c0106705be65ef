"""Operators on two types, and on a tensor and a number: which type is computed in shows in a wide result."""

from functools import partial

import numpy as np
import torch
import triton
import triton.language as tl

from tests.vgpu.conformance.cases import Case, In, Out, add
from tests.vgpu.conformance.values import BLOCK, TYPES, every, pairs


@triton.jit
def mixed(x_ptr, y_ptr, out_ptr, NAME: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + lane), tl.load(y_ptr + lane)
    if NAME == "plus":
        z = x + y
    elif NAME == "times":
        z = x * y
    elif NAME == "divide":
        z = x / y
    elif NAME == "less":
        z = x < y
    elif NAME == "where":
        z = tl.where(x > 0, x, y)
    else:
        z = tl.maximum(x, y)
    tl.store(out_ptr + lane, z.to(WIDE))


@triton.jit
def with_number(x_ptr, out_ptr, NAME: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lane)
    if NAME == "plus_float":
        z = x + 1.1
    elif NAME == "times_int":
        z = x * 3
    elif NAME == "halved":
        z = x / 2
    elif NAME == "less_float":
        z = x < 0.1
    elif NAME == "from_float":
        z = 1.3 - x
    elif NAME == "floor_divide":
        z = x // 7
    elif NAME == "modulo":
        z = x % 7
    elif NAME == "shift":
        z = x >> 3
    else:
        z = x + 3000000000
    tl.store(out_ptr + lane, z.to(WIDE))


def _register():
    for left, right in (
        ("bf16", "fp16"),
        ("bf16", "fp32"),
        ("fp16", "fp32"),
        ("fp32", "fp64"),
        ("int32", "bf16"),
        ("int32", "fp16"),
        ("int64", "fp32"),
        ("int8", "fp32"),
        ("int8", "uint8"),
        ("int8", "int32"),
        ("uint8", "int16"),
        ("int32", "uint32"),
        ("int32", "int64"),
        ("uint32", "int64"),
    ):
        x, y = (np.resize(pairs(type)[i], 4 * BLOCK) for i, type in enumerate((left, right)))
        floating = "int" not in left + right or right[0] in "bf"
        # the language refuses to divide integers of different sign
        division = () if "int" in left and "int" in right and left[0] != right[0] else ("divide",)
        for name in ("plus", "times", *division, "less", "where", "maximum"):
            out = "fp64" if floating or name == "divide" else "int64"
            operands = (In(left, x), In(right, y), Out(out, x.shape))
            constants = {"NAME": name, "WIDE": tl.float64 if out == "fp64" else tl.int64, "BLOCK": BLOCK}
            predict = _PREDICTED[name]
            if "f" in left + right and "fp64" not in right:
                narrow = right if left == "int32" and name not in ("divide", "where") else "fp32"
                predict = partial(_in_type, predict, TYPES[narrow][0])
            add(Case(f"mixed/{left}/{right}/{name}", mixed, operands, constants, (4,), predict))
    for type in ("fp32", "bf16", "fp16", "int8", "uint8", "int16", "int32", "uint32", "int64"):
        x = np.resize(every(type), 4 * BLOCK) if TYPES[type][1] != 2 else every(type)[::16].copy()
        whole = ("floor_divide", "modulo", "shift") if "int" in type else ()
        whole += ("plus_large",) if type in ("uint32", "int64") else ()
        for name in ("plus_float", "times_int", "halved", "less_float", "from_float", *whole):
            out = "int64" if name in (*whole, "times_int") and "int" in type else "fp64"
            constants = {"NAME": name, "WIDE": tl.float64 if out == "fp64" else tl.int64, "BLOCK": BLOCK}
            operands = (In(type, x), Out(out, x.shape))
            add(Case(f"number/{type}/{name}", with_number, operands, constants, (x.size // BLOCK,), _PREDICTED[name]))


def _in_type(function, dtype, *operands):
    """``function`` of numbers rounded to ``dtype``, and its results rounded to it."""

    def rounded(x):
        return torch.from_numpy(np.ascontiguousarray(x)).to(dtype).to(torch.float32).numpy()

    return rounded(function(*(rounded(x) for x in operands)))


_PREDICTED = {
    "plus": np.add,
    "times": np.multiply,
    "divide": np.divide,
    "less": np.less,
    "where": lambda x, y: np.where(x > 0, x, y),
    "maximum": np.fmax,
    "plus_float": lambda x: x + np.float32(1.1),
    "times_int": lambda x: x * 3,
    "halved": lambda x: x / 2,
    "less_float": lambda x: x < np.float32(0.1),
    "from_float": lambda x: np.float32(1.3) - x,
    "floor_divide": lambda x: x // 7,
    "modulo": lambda x: x % 7,
    "shift": lambda x: x >> 3,
    "plus_large": lambda x: x.astype(np.int64) + 3000000000,
}
_register()
