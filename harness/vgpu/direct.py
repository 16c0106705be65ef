"""Operators of the language that are one function of numpy, by the names of the types for which they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[[Any, Any], Any]

_WRAPPING = ("int32", "int64", "uint32", "uint64")
_WHOLE = ("int32", "int64", "fp32", "fp64")
_BITS = ("int1", "int8", "int16", "uint8", "uint16", *_WRAPPING)
#: Two operands of one of these types leave nothing to round, and no sign to mind.
DIRECT: dict[str, dict[str, Function]] = {
    **{
        name: dict.fromkeys((*_WRAPPING, "fp32", "fp64"), function)
        for name, function in (("__add__", np.add), ("__sub__", np.subtract), ("__mul__", np.multiply))
    },
    **{
        name: dict.fromkeys(_BITS, function)
        for name, function in (("__and__", np.bitwise_and), ("__or__", np.bitwise_or), ("__xor__", np.bitwise_xor))
    },
    "__eq__": dict.fromkeys(_WHOLE, np.equal),
    "__ne__": dict.fromkeys(_WHOLE, np.not_equal),
    "__lt__": dict.fromkeys(_WHOLE, np.less),
    "__le__": dict.fromkeys(_WHOLE, np.less_equal),
    "__gt__": dict.fromkeys(_WHOLE, np.greater),
    "__ge__": dict.fromkeys(_WHOLE, np.greater_equal),
}
