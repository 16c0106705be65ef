"""Functions of NVIDIA's device library, called as ``libdevice.NAME``."""

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice

from tests.vgpu.conformance.cases import Case, In, Out, add, elementwise
from tests.vgpu.conformance.functions import by_float64
from tests.vgpu.conformance.values import BLOCK, every, pairs, random_bits, triples


def _torch(function):
    return lambda x: function(torch.from_numpy(x)).numpy()


# name: what it is in float64, or None
UNARY = {
    "tanh": np.tanh,
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sinpi": lambda x: np.sin(np.pi * (x - 2 * np.rint(x / 2))),
    "cospi": lambda x: np.cos(np.pi * (x - 2 * np.rint(x / 2))),
    "erf": _torch(torch.special.erf),
    "erfc": _torch(torch.special.erfc),
    "erfinv": _torch(torch.special.erfinv),
    "erfcinv": lambda x: -_torch(torch.special.ndtri)(x / 2) / np.sqrt(2.0),
    "erfcx": _torch(torch.special.erfcx),
    "normcdf": _torch(torch.special.ndtr),
    "normcdfinv": _torch(torch.special.ndtri),
    "cyl_bessel_i0": _torch(torch.special.i0),
    "cyl_bessel_i1": _torch(torch.special.i1),
    "j0": _torch(torch.special.bessel_j0),
    "j1": _torch(torch.special.bessel_j1),
    "y0": _torch(torch.special.bessel_y0),
    "y1": _torch(torch.special.bessel_y1),
    "lgamma": _torch(torch.lgamma),
    "tgamma": None,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "nearbyint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "logb": None,
    "saturatef": lambda x: np.clip(np.where(np.isnan(x), 0, x), 0, 1),
    "rcp_rn": lambda x: 1 / x,
    "rcp_rz": lambda x: 1 / x,
    "rcp_rd": lambda x: 1 / x,
    "rcp_ru": lambda x: 1 / x,
    "sqrt_rn": np.sqrt,
    "sqrt_rz": np.sqrt,
    "sqrt_rd": np.sqrt,
    "sqrt_ru": np.sqrt,
    "rsqrt_rn": lambda x: 1 / np.sqrt(x),
    "fast_sinf": np.sin,
    "fast_cosf": np.cos,
    "fast_tanf": np.tan,
    "fast_logf": np.log,
    "fast_log2f": np.log2,
    "fast_log10f": np.log10,
    "fast_expf": np.exp,
    "fast_exp10f": lambda x: np.power(10.0, x),
}
MODES = ("rn", "rz", "rd", "ru")
KINDS = {"int": "int32", "uint": "uint32", "ll": "int64", "ull": "uint64"}
# result type of functions that do not give a float32
TO_INTEGER = {
    "isnan": "int32",
    "isinf": "int32",
    "finitef": "int32",
    "signbit": "int32",
    "ilogb": "int32",
    "float_as_int": "int32",
    "float_as_uint": "uint32",
    "llrint": "int64",
    "llround": "int64",
    **{f"float2{kind}_{mode}": out for kind, out in KINDS.items() for mode in MODES},
}
FROM_INTEGER = {
    **{(f"{kind}2float_{mode}", source): "fp32" for kind, source in KINDS.items() for mode in MODES},
    ("int_as_float", "int32"): "fp32",
    ("uint_as_float", "uint32"): "fp32",
    **{(name, type): "int32" for name in ("clz", "popc", "ffs") for type in ("int32", "int64")},
    ("brev", "int32"): "int32",
    ("brev", "int64"): "int64",
}
BINARY = {
    "pow": np.power,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "remainder": lambda x, y: x - np.rint(x / y) * y,
    "hypot": np.hypot,
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "copysign": np.copysign,
    "fdim": None,
    "nextafter": lambda x, y: x,
    "fast_dividef": np.divide,
    "fast_powf": np.power,
    **{f"div_{mode}": np.divide for mode in MODES},
    **{f"add_{mode}": np.add for mode in MODES},
    **{f"sub_{mode}": np.subtract for mode in MODES},
    **{f"mul_{mode}": np.multiply for mode in MODES},
}
FUSED = ("fma", *(f"fma_{mode}" for mode in MODES))
NORMS = {
    "norm3d": lambda x, y, z: np.hypot(np.hypot(x, y), z),
    "rnorm3d": lambda x, y, z: 1 / np.hypot(np.hypot(x, y), z),
}
# what numpy computes of these in float64 is the same on every machine
FLOAT64 = ("abs", "ceil", "floor", "nearbyint", "rcp_rn", "rint", "round", "rsqrt", "sqrt", "sqrt_rn", "trunc")


@triton.jit
def power_of_two(x_ptr, exponent_ptr, out_ptr, F: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lane, F(tl.load(x_ptr + lane), tl.load(exponent_ptr + lane)))


def _bits(x):
    return x.view(np.uint32)


def _mul24(x, y):
    left, right = ((v << v.dtype.type(8)) >> v.dtype.type(8) for v in (x, y))
    return left * right


def _mulhi(x, y):
    wide = np.int64 if x.dtype.kind == "i" else np.uint64
    return (x.astype(wide) * y.astype(wide)) >> wide(32)


def _ldexp(x, exponent):
    return np.ldexp(x.astype(np.float64), np.clip(exponent, -1000, 1000))


def _register():
    for name, plain in UNARY.items():
        predict = by_float64(plain) if plain else None
        elementwise(f"libdevice.{name}/fp32", getattr(libdevice, name), "fp32", [every("fp32")], predict=predict)
        if name in FLOAT64:
            elementwise(f"libdevice.{name}/fp64", getattr(libdevice, name), "fp64", [every("fp64")], predict=predict)
    for name, out in TO_INTEGER.items():
        predict = _bits if name.startswith("float_as") else None
        elementwise(f"libdevice.{name}/fp32", getattr(libdevice, name), "fp32", [every("fp32")], out, predict)
    for (name, source), out in FROM_INTEGER.items():
        elementwise(f"libdevice.{name}/{source}", getattr(libdevice, name), source, [every(source)], out)
    for name, plain in BINARY.items():
        predict = by_float64(plain) if plain else None
        elementwise(f"libdevice.{name}/fp32", getattr(libdevice, name), "fp32", pairs("fp32"), predict=predict)
    for name, plain in {**dict.fromkeys(FUSED, lambda x, y, z: x * y + z), **NORMS}.items():
        function = getattr(libdevice, name)
        elementwise(f"libdevice.{name}/fp32", function, "fp32", triples("fp32"), predict=by_float64(plain))
    x = every("fp32")
    exponent = random_bits(90, x.size, 4).view(np.int32) % np.int32(320) - np.int32(160)
    exponent[:8] = -(2**31), 2**31 - 1, 0, 1, -1, 300, -300, 127
    for name in ("ldexp", "scalbn", "pow"):
        operands = (In("fp32", x), In("int32", exponent.view(np.uint32)), Out("fp32", x.shape))
        constants = {"F": getattr(libdevice, name), "BLOCK": BLOCK}
        predict = None if name == "pow" else _ldexp
        add(Case(f"libdevice.{name}/fp32/int32", power_of_two, operands, constants, (x.size // BLOCK,), predict))
    x, y = pairs("int32")
    for type in ("int32", "uint32"):
        elementwise(f"libdevice.mul24/{type}", libdevice.mul24, type, (x, y), predict=_mul24)
        elementwise(f"libdevice.mulhi/{type}", libdevice.mulhi, type, (x, y), predict=_mulhi)
    elementwise("libdevice.tanh/fp64", libdevice.tanh, "fp64", [every("fp64")])
    for name in ("fmod", "remainder", "copysign", "nextafter"):
        predict = by_float64(BINARY[name]) if BINARY[name] else None
        elementwise(f"libdevice.{name}/fp64", getattr(libdevice, name), "fp64", pairs("fp64"), predict=predict)


_register()
