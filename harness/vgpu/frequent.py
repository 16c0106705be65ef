"""Short ways for the functions of the language that kernels call most: constants, ranges, functions of a number.

As in ``shortcuts``, everything but the plain case goes to the language's own function, which alone refuses anything.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any

from harness.vgpu.builder import Builder
from harness.vgpu.elements import FP32, INT32, INT64, Scalar
from harness.vgpu.shortcuts import Shortcuts
from harness.vgpu.triton_adapter import Adapter
from harness.vgpu.values import Value

Numbers = builtins.tuple[Any, ...]
#: Functions of one float32, and the builder's methods for them.
_FUNCTIONS = {
    "exp": "create_exp",
    "exp2": "create_exp2",
    "log": "create_log",
    "log2": "create_log2",
    "abs": "create_fabs",
}


class Frequent(Shortcuts):
    """``full``, ``arange``, ``program_id``, ``maximum``, ``minimum``, exponentials, ``join`` and ``reshape``."""

    def __init__(self, adapter: Adapter, builder: Builder) -> None:
        super().__init__(adapter, builder)
        core = adapter.core
        self._fp32, self._int32 = adapter.dtypes["fp32"], adapter.dtypes["int32"]
        #: Blocks that depend on nothing but compile-time values.
        self._constants: dict[Numbers, Any] = {}
        #: How blocks were rearranged before.
        self._accepted: set[Numbers] = set()
        self._special |= {
            core.full: self._full,
            core.arange: self._arange,
            core.program_id: self._program_id,
            core.maximum: self._extreme_of(core.maximum, ("create_maxnumf", "create_maxsi")),
            core.minimum: self._extreme_of(core.minimum, ("create_minnumf", "create_minsi")),
            core.join: self._join,
            core.reshape: self._reshape,
            core.permute: self._permute,
            core.trans: self._trans,
        }
        for name, method in _FUNCTIONS.items():
            function = getattr(adapter.tl, name)
            self._special[function] = self._function_of(function, method)
        self._methods |= {"reshape": self._reshape, "permute": self._permute, "trans": self._trans}

    # -- what compile-time values alone decide

    def _full(self, shape: Any, value: Any, dtype: Any, **rest: Any) -> Any:
        number, element = self.raw(value), self.raw(dtype)
        if rest or number.__class__ not in (bool, int, float) or not isinstance(shape, self.adapter.tuple):
            return self._language(self.adapter.core.full, (shape, value, dtype), rest)
        # 0.0 == -0.0, and a NaN is not found again
        key = (str(number), number.__class__, element, *(self.raw(size) for size in shape))
        return self._kept(key, self.adapter.core.full, (shape, value, dtype))

    def _arange(self, start: Any, end: Any, **rest: Any) -> Any:
        first, last = self.raw(start), self.raw(end)
        if rest or first.__class__ is not int or last.__class__ is not int:
            return self._language(self.adapter.core.arange, (start, end), rest)
        return self._kept((first, last), self.adapter.core.arange, (start, end))

    def _kept(self, key: Numbers, function: Any, args: Numbers) -> Any:
        """Return the block that ``function`` makes of compile-time values, made once."""
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self._language(function, args, {})
        return found

    def _program_id(self, axis: Any, **rest: Any) -> Any:
        number = self.raw(axis)
        if rest or number.__class__ is not int or not 0 <= number <= 2:
            return self._language(self.adapter.core.program_id, (axis,), rest)
        return self.make(self.builder.create_get_program_id(number), self.adapter.record(self._int32, ()))

    # -- functions of numbers

    def _function_of(self, function: Any, method: str) -> Callable[..., Any]:
        def call(x: Any, **rest: Any) -> Any:
            if rest or not self._is_plain(x) or x.dtype is not self._fp32:
                return self._language(function, (x,), rest)
            result = getattr(self.builder, method)(x.handle)
            return self.make(result, self.adapter.record(x.dtype, result.shape))

        return call

    def _extreme_of(self, function: Any, methods: builtins.tuple[str, str]) -> Callable[..., Any]:
        def call(x: Any, y: Any, **rest: Any) -> Any:
            found = None if rest or not self._agree(x, y) else self.operands(x, y)
            if found is None:
                return self._language(function, (x, y), rest)
            a, b, record = found
            return self.make(getattr(self.builder, methods[0 if a.type.floating else 1])(a, b), record)

        return call

    def _agree(self, x: Any, y: Any) -> bool:
        """Whether two arguments are numbers of one type before anything is promoted: float32, int32 or int64."""
        one, other = (x, y) if isinstance(x, self.tensor) else (y, x)
        if not self._is_plain(one):
            return False
        type = one.handle.type
        if isinstance(other, self.tensor):
            known = type is FP32 or (type in (INT32, INT64) and one.dtype.is_int_signed())
            return known and other.dtype is one.dtype
        number = self.raw(other)
        if type is FP32:
            return number.__class__ is float
        return type is INT32 and one.dtype.is_int_signed() and number.__class__ is int and -(2**31) <= number < 2**31

    # -- shapes

    def _join(self, a: Any, b: Any, **rest: Any) -> Any:
        if not rest and self._is_plain(a) and self._is_plain(b) and a.dtype is b.dtype:
            left: Value = a.handle
            if left.shape and left.shape == b.handle.shape:
                joined = self.builder.create_join(left, b.handle)
                return self.make(joined, self.adapter.record(a.dtype, joined.shape))
        return self._language(self.adapter.core.join, (a, b), rest)

    def _reshape(self, tensor: Any, *shape: Any, **rest: Any) -> Any:
        return self._rearranged(self.adapter.core.reshape, "create_reshape", tensor, self._listed(shape), shape, rest)

    def _permute(self, tensor: Any, *axes: Any, **rest: Any) -> Any:
        return self._rearranged(self.adapter.core.permute, "create_trans", tensor, self._listed(axes), axes, rest)

    def _trans(self, tensor: Any, *axes: Any, **rest: Any) -> Any:
        order = self._listed(axes)
        if not axes and self._is_plain(tensor):
            count = len(tensor.handle.shape)
            order = (*range(count - 2), count - 1, count - 2)
        return self._rearranged(self.adapter.core.trans, "create_trans", tensor, order, axes, rest)

    def _listed(self, given: Numbers) -> Numbers:
        """Return numbers that may come one by one or as one tuple."""
        numbers = self.raw(given[0]) if len(given) == 1 else given
        return builtins.tuple(map(self.raw, numbers)) if isinstance(numbers, Iterable) else (numbers,)

    def _rearranged(
        self, function: Any, method: str, tensor: Any, numbers: Numbers, given: Numbers, rest: dict[str, Any]
    ) -> Any:
        """Return ``tensor`` as the builder's ``method`` arranges it by ``numbers``.

        The first such block goes through ``function``, which may object; then it did not.
        """
        plain = not rest and self._is_plain(tensor) and isinstance(tensor.handle.type, Scalar)
        if not plain or not numbers or any(number.__class__ is not int for number in numbers):
            return self._language(function, (tensor, *given), rest)
        key = (method, tensor.handle.shape, numbers)
        if key not in self._accepted:
            result = self._language(function, (tensor, *given), rest)
            self._accepted.add(key)
            return result
        reordered = (False,) if method == "create_reshape" else ()
        value = getattr(self.builder, method)(tensor.handle, numbers, *reordered)
        return self.make(value, self.adapter.record(tensor.dtype, value.shape))
