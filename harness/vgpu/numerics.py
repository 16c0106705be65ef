"""Numerics of the virtual GPU, the one import: formats, conversions, functions and ``dot``.

A load is ``decode``; a cast is ``cast``, or ``round_to`` after arithmetic; a store of a value that has its type's
precision is ``pack``, which keeps every code; ``encode`` is cast and store in one.
"""

from harness.vgpu.formats import FORMATS, Format, decode, decode_e2m1, decode_e8m0, format_of, pack
from harness.vgpu.numerics_cast import Rounding, cast, encode, float_to_int, int_to_float, round_to
from harness.vgpu.numerics_dot import INPUT_PRECISIONS, dot, matmul, nearest_tf32, to_tf32
from harness.vgpu.numerics_math import (
    ceil,
    clamp,
    cos,
    div,
    erf,
    exp,
    exp2,
    floor,
    flush,
    fused,
    log,
    log2,
    maximum,
    minimum,
    remainder,
    rsqrt,
    sin,
    sqrt,
    tanh,
)

__all__ = [
    "FORMATS",
    "INPUT_PRECISIONS",
    "Format",
    "Rounding",
    "cast",
    "ceil",
    "clamp",
    "cos",
    "decode",
    "decode_e2m1",
    "decode_e8m0",
    "div",
    "dot",
    "encode",
    "erf",
    "exp",
    "exp2",
    "float_to_int",
    "floor",
    "flush",
    "format_of",
    "fused",
    "int_to_float",
    "log",
    "log2",
    "matmul",
    "maximum",
    "minimum",
    "nearest_tf32",
    "pack",
    "remainder",
    "round_to",
    "rsqrt",
    "sin",
    "sqrt",
    "tanh",
    "to_tf32",
]
