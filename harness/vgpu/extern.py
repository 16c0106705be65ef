"""Calls of device libraries: the common functions of libdevice, outside of the proven set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from harness.vgpu.arithmetic import finish
from harness.vgpu.elements import SCALARS, Type
from harness.vgpu.execution import Execution
from harness.vgpu.values import Data, Value


def _torch(function: Callable[..., torch.Tensor]) -> Callable[..., Data]:
    def call(*data: Data) -> Data:
        result: Data = function(*(torch.from_numpy(np.ascontiguousarray(d)) for d in data)).numpy()
        return result

    return call


def _isnan(data: Data) -> Data:
    return np.isnan(data).astype(np.int32)


#: By name without the library's prefix and the suffix of float32; see the CUDA libdevice User's Guide.
_FUNCTIONS: dict[str, Callable[..., Data]] = {
    "tanh": np.tanh,
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "pow": np.power,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _torch(torch.special.erf),
    "erfc": _torch(torch.special.erfc),
    "erfinv": _torch(torch.special.erfinv),
    "lgamma": _torch(torch.lgamma),
    "fabs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "nearbyint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x),
    "fmod": np.fmod,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "isnan": _isnan,
    "isinf": lambda x: np.isinf(x).astype(np.int32),
    "finite": lambda x: np.isfinite(x).astype(np.int32),
    "isfinited": lambda x: np.isfinite(x).astype(np.int32),
    "signbit": lambda x: np.signbit(x).astype(np.int32),
}
_FAST = {"fast_expf": "exp", "fast_logf": "log", "fast_sinf": "sin", "fast_cosf": "cos", "fast_powf": "pow"}


def _function(symbol: str) -> Callable[..., Data] | None:
    name = symbol.removeprefix("__nv_").removeprefix("__ocml_").removesuffix("_f32").removesuffix("_f64")
    name = _FAST.get(name, name)
    return _FUNCTIONS.get(name) or _FUNCTIONS.get(name.removesuffix("f"))


class Extern:
    """The ``create_*`` method for library calls."""

    execution: Execution

    def create_extern_elementwise(
        self, library: str, path: str, symbol: str, arguments: Sequence[Value], type: Type, is_pure: bool
    ) -> Value:
        """Call ``symbol`` on every lane."""
        function = _function(symbol)
        if function is None:
            raise self.execution.unsupported(f"extern_elementwise({symbol})")
        self.execution.untrusted.add(f"extern_elementwise({symbol})")
        element = type.scalar
        result = function(*(a.data for a in arguments))
        if element is SCALARS["int1"]:
            return Value(result.astype(np.bool_), element, arguments[0].shape)
        return Value(finish(self, result, element), element, arguments[0].shape)
