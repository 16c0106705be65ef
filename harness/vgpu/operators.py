"""Operators of rewritten kernels: common cases straight to the builder, all others through Triton's semantic layer."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from harness.vgpu.builder import Builder
from harness.vgpu.direct import DIRECT
from harness.vgpu.elements import FP32, INT1, INT32, INT64, Pointer, Scalar
from harness.vgpu.functions import Functions
from harness.vgpu.triton_adapter import Adapter, TypeRecord
from harness.vgpu.values import LEAD, Value, common

Plain = Callable[[Any, Any], Any]
#: Builder methods for floats, signed and unsigned integers; "" where the semantic layer must decide.
Methods = tuple[str, str, str]
_WIDTHS = {INT32, INT64}


def _binary(name: str, plain: Plain, methods: Methods | None = None) -> Callable[[Operators, Any, Any], Any]:
    """Return an operator; ``methods`` also serve a number on one side."""
    reverse = name.replace("__", "__r", 1)
    bitwise = name in ("__and__", "__or__", "__xor__")
    direct = DIRECT.get(name, {})

    def method(self: Operators, left: Any, right: Any) -> Any:
        if left.__class__ is self.tensor and (function := direct.get(left.dtype.name)) is not None:
            a: Value = left.handle
            b = self._beside(left, right, False, bitwise)
            if b is not None:
                return self.make(Value(function(a.data, b.data), a.type, a.shape), left)
        if methods is not None:
            found = self.operands(left, right, bitwise=bitwise)
            if found is not None:
                first, second, record = found
                create = self.chosen(methods, first, record)
                if create is not None:
                    return self.make(create(first, second), record)
        if isinstance(left, self.tensor):
            return self.operators[name](left, right, _semantic=self.semantic)
        if isinstance(right, self.tensor):
            return self.operators[reverse](right, left, _semantic=self.semantic)
        return self.static(plain, left, right)

    return method


def _compare(name: str, mirrored: str, plain: Plain, methods: Methods) -> Callable[[Operators, Any, Any], Any]:
    reverse = name.replace("__", "__r", 1)
    direct = DIRECT[name]

    def method(self: Operators, left: Any, right: Any) -> Any:
        if left.__class__ is self.tensor and (function := direct.get(left.dtype.name)) is not None:
            a: Value = left.handle
            b = self._beside(left, right, True, False)
            if b is not None:
                return self.make(
                    Value(function(a.data, b.data), INT1, a.shape), self.adapter.record(self.int1, a.shape)
                )
        found = self.operands(left, right, comparing=True)
        if found is not None:
            first, second, record = found
            create = self.chosen(methods, first, record)
            if create is not None:
                return self.make(create(first, second), self.adapter.record(self.int1, record.sizes))
        if isinstance(left, self.tensor):
            return self.operators[name](left, right, _semantic=self.semantic)
        if isinstance(right, self.tensor):
            own = self.operators.get(reverse) or self.operators[mirrored]
            return own(right, left, _semantic=self.semantic)
        return self.static(plain, left, right)

    return method


class Operators(Functions):
    """Arithmetic, comparison and logic on tensors and compile-time values."""

    def __init__(self, adapter: Adapter, builder: Builder) -> None:
        super().__init__(adapter, builder)
        self.operators = adapter.operators
        self.int1 = adapter.dtypes["int1"]
        self._numbers: dict[tuple[Any, ...], Value] = {}

    # -- operands that need no promotion

    def operands(
        self, left: Any, right: Any, *, comparing: bool = False, bitwise: bool = False
    ) -> tuple[Value, Value, TypeRecord] | None:
        """Return both operands with one shape and the type they share, or None where the semantic layer must decide."""
        tensor = self.tensor
        if isinstance(left, tensor):
            a: Value = left.handle
            if isinstance(right, tensor):
                if left.dtype is not right.dtype:
                    return self._promoted(left, right)
                b: Value = right.handle
                return self._aligned(a, b, left.dtype)
            number = self._number(right, a, left.dtype, comparing, bitwise)
            return None if number is None else (a, number, self.adapter.record(left.dtype, a.shape))
        if isinstance(right, tensor):
            b = right.handle
            number = self._number(left, b, right.dtype, comparing, bitwise)
            return None if number is None else (number, b, self.adapter.record(right.dtype, b.shape))
        return None

    def _beside(self, left: Any, right: Any, comparing: bool, bitwise: bool) -> Value | None:
        """Return ``right`` if it is a number, or a tensor of the type and shape of ``left``, else None."""
        a = left.handle
        if a.__class__ is not Value:
            return None
        if right.__class__ is not self.tensor:
            return self._number(right, a, left.dtype, comparing, bitwise)
        b = right.handle
        fits = right.dtype is left.dtype and b.__class__ is Value and b.shape == a.shape
        return b if fits else None

    def _promoted(self, left: Any, right: Any) -> tuple[Value, Value, TypeRecord] | None:
        """Return a signed integer of 32 bits and one of 64 as two of 64, or None for any other pair of types."""
        a, b = left.handle, right.handle
        if not (isinstance(a, Value) and isinstance(b, Value) and {a.type, b.type} == _WIDTHS):
            return None
        if not (left.dtype.is_int_signed() and right.dtype.is_int_signed()):
            return None
        if a.type is INT32:
            return self._aligned(self.builder.create_int_cast(a, INT64, True), b, right.dtype)
        return self._aligned(a, self.builder.create_int_cast(b, INT64, True), left.dtype)

    def _aligned(self, a: Value, b: Value, dtype: Any) -> tuple[Value, Value, TypeRecord] | None:
        if not isinstance(a, Value) or not isinstance(a.type, Scalar):
            return None
        if a.shape == b.shape:
            return a, b, self.adapter.record(dtype, a.shape)
        rank = len(a.shape)
        if not b.shape:
            b = Value(b.data.reshape(b.data.shape + (1,) * rank), b.type, a.shape)
        elif not a.shape:
            a = Value(a.data.reshape(a.data.shape + (1,) * len(b.shape)), a.type, b.shape)
        elif rank == len(b.shape):
            shape = []
            for n, m in zip(a.shape, b.shape, strict=True):
                if n != m and n != 1 and m != 1:
                    return None
                shape.append(m if n == 1 else n)
            self.builder.execution.saw(tuple(shape))
            a, b = Value(a.data, a.type, tuple(shape)), Value(b.data, b.type, tuple(shape))
        else:
            return None
        return a, b, self.adapter.record(dtype, a.shape)

    def _number(self, given: Any, beside: Value, dtype: Any, comparing: bool, bitwise: bool = False) -> Value | None:
        """Return a compile-time number in the type of the tensor beside it, if it takes no part in promotion."""
        value = given.value if isinstance(given, self.adapter.constexpr) else given
        kind = value.__class__
        if not isinstance(beside, Value) or not (kind is int or kind is float or (bitwise and kind is bool)):
            return None
        # a zero as text: the negative one is equal to it
        key = (str(value) if kind is float and not value else value, kind, dtype.name, beside.shape, comparing)
        found = self._numbers.get(key)
        if found is None:
            found = self._converted(value, beside, dtype, comparing)
            # a NaN would not be found again
            if found is not None and value == value:
                self._numbers[key] = found
        return found

    def _converted(self, value: float, beside: Value, dtype: Any, comparing: bool) -> Value | None:
        type = beside.type
        if not isinstance(type, Scalar):
            return None
        if value.__class__ is int and not type.floating and type.bits > 1:
            half = 1 << (type.bits - 1)
            low, high = (-half, half) if dtype.is_int_signed() else (0, 2 * half)
            if not low <= value < high:
                return None
            value = value if value < half else value - 2 * half
        elif value.__class__ is bool:
            if type is not INT1:
                return None
        elif not type.floating or (comparing and type is not FP32):
            return None
        scalar: Value = getattr(self.builder, f"get_{type.name}")(value)
        return Value(scalar.data.reshape((1,) * (LEAD + len(beside.shape))), type, beside.shape)

    def chosen(self, methods: Methods, a: Value, record: TypeRecord) -> Callable[[Value, Value], Value] | None:
        """Return the builder's method for the operands' type, or None."""
        name = methods[0 if a.type.floating else 1 if record.signed else 2]
        if not name or (a.type.narrow and name == "create_fdiv"):
            return None
        return getattr(self.builder, name)  # type: ignore[no-any-return]

    def make(self, value: Value, record: TypeRecord | Any) -> Any:
        """Return a tensor of the language, of the type that ``record``, which may be another tensor, has."""
        return self.adapter.make(value, record)

    # -- operators

    def add(self, left: Any, right: Any) -> Any:
        """``+``; offsets move pointers."""
        if isinstance(left, self.tensor) and isinstance(left.handle, Value) and isinstance(left.handle.type, Pointer):
            moved = self._moved(left, right)
            if moved is not None:
                return moved
        return self._add(left, right)

    _add = _binary("__add__", operator.add, ("create_fadd", "create_add", "create_add"))
    sub = _binary("__sub__", operator.sub, ("create_fsub", "create_sub", "create_sub"))
    mul = _binary("__mul__", operator.mul, ("create_fmul", "create_mul", "create_mul"))
    truediv = _binary("__truediv__", operator.truediv, ("create_fdiv", "", ""))
    floordiv = _binary("__floordiv__", operator.floordiv, ("", "create_sdiv", "create_udiv"))
    mod = _binary("__mod__", operator.mod, ("", "create_srem", "create_urem"))
    pow = _binary("__pow__", operator.pow)
    lshift = _binary("__lshift__", operator.lshift, ("", "create_shl", "create_shl"))
    rshift = _binary("__rshift__", operator.rshift, ("", "create_ashr", "create_lshr"))
    and_ = _binary("__and__", operator.and_, ("", "create_and", "create_and"))
    or_ = _binary("__or__", operator.or_, ("", "create_or", "create_or"))
    xor = _binary("__xor__", operator.xor, ("", "create_xor", "create_xor"))
    eq = _compare("__eq__", "__eq__", operator.eq, ("create_fcmpOEQ", "create_icmpEQ", "create_icmpEQ"))
    ne = _compare("__ne__", "__ne__", operator.ne, ("create_fcmpUNE", "create_icmpNE", "create_icmpNE"))
    lt = _compare("__lt__", "__gt__", operator.lt, ("create_fcmpOLT", "create_icmpSLT", "create_icmpULT"))
    le = _compare("__le__", "__ge__", operator.le, ("create_fcmpOLE", "create_icmpSLE", "create_icmpULE"))
    gt = _compare("__gt__", "__lt__", operator.gt, ("create_fcmpOGT", "create_icmpSGT", "create_icmpUGT"))
    ge = _compare("__ge__", "__le__", operator.ge, ("create_fcmpOGE", "create_icmpSGE", "create_icmpUGE"))

    def _moved(self, pointer: Any, offset: Any) -> Any:
        """Return pointers moved by signed offsets of 32 or 64 bits, or None."""
        base: Value = pointer.handle
        if isinstance(offset, self.tensor):
            step: Value = offset.handle
            if not isinstance(step, Value) or step.type.floating or step.type.bits < INT32.bits:
                return None
            if not offset.dtype.is_int_signed():
                return None
        else:
            raw = self.raw(offset)
            if raw.__class__ is not int or not -(2**31) <= raw < 2**31:
                return None
            step = Value(np.array(raw, np.int64, ndmin=LEAD), INT32)
        if base.shape != step.shape:
            if not base.shape:
                base = self.builder.create_splat_to(base, step.shape)
            elif not step.shape:
                step = self.builder.create_splat_to(step, base.shape)
            elif len(base.shape) == len(step.shape):
                try:
                    shape = common(base.shape, step.shape)
                except ValueError:
                    return None
                base = self.builder.create_broadcast(base, shape)
                step = self.builder.create_broadcast(step, shape)
            else:
                return None
        moved = self.builder.create_addptr(base, step)
        if moved.shape == pointer.handle.shape:
            return self.make(moved, pointer)
        return self.make(moved, self.adapter.record(pointer.dtype, moved.shape))

    def static(self, plain: Plain, left: Any, right: Any) -> Any:
        """Apply an operator at compile time; tuples of the language have operators of their own."""
        if isinstance(left, self.adapter.base_value) and not isinstance(left, self.adapter.constexpr):
            return self.constant(plain(left, self.constant(right)))
        return self.constant(plain(self.raw(left), self.raw(right)))

    def is_(self, left: Any, right: Any) -> Any:
        """Identity, of compile-time values."""
        return self.constant(self.raw(left) is self.raw(right))

    def is_not(self, left: Any, right: Any) -> Any:
        """Negated identity, of compile-time values."""
        return self.constant(self.raw(left) is not self.raw(right))

    def in_(self, left: Any, right: Any) -> Any:
        """Membership, of compile-time values."""
        return self.constant(self.raw(left) in self.adapter.unwrap(right))

    def not_in(self, left: Any, right: Any) -> Any:
        """Negated membership, of compile-time values."""
        return self.constant(self.raw(left) not in self.adapter.unwrap(right))

    def neg(self, a: Any) -> Any:
        """Minus."""
        return self.semantic.minus(a) if isinstance(a, self.tensor) else self.constant(-self.raw(a))

    def pos(self, a: Any) -> Any:
        """Plus."""
        return a if isinstance(a, self.tensor) else self.constant(+self.raw(a))

    def invert(self, a: Any) -> Any:
        """Bitwise complement."""
        if not isinstance(a, self.tensor):
            return self.constant(~self.raw(a))
        value = a.handle
        if not isinstance(value, Value) or not isinstance(value.type, Scalar) or value.type.floating:
            return self.semantic.invert(a)
        return self.make(Value(~value.data, value.type, value.shape), self.adapter.record(a.dtype, value.shape))

    def not_(self, a: Any) -> Any:
        """Logical negation, lane by lane for tensors."""
        return self.semantic.not_(a) if isinstance(a, self.tensor) else self.constant(not self.raw(a))

    def all_of(self, *terms: Callable[[], Any]) -> Any:
        """``and``: compile-time terms decide early, tensors are all evaluated and combined."""
        return self._logical(terms, stop=False, method="logical_and")

    def any_of(self, *terms: Callable[[], Any]) -> Any:
        """``or``: compile-time terms decide early, tensors are all evaluated and combined."""
        return self._logical(terms, stop=True, method="logical_or")

    def _logical(self, terms: Sequence[Callable[[], Any]], *, stop: bool, method: str) -> Any:
        tensors = []
        value = None
        for term in terms:
            value = term()
            if isinstance(value, self.tensor):
                tensors.append(value)
            elif bool(self.raw(value)) is stop:
                return value
        if not tensors:
            return value
        result = tensors[-1]
        for left in reversed(tensors[:-1]):
            result = self.operators[method](left, result, _semantic=self.semantic)
        return result

    def chain(self, left: Any, *links: Any) -> Any:
        """Chained comparison; each operand is evaluated once, and none after a compile-time False."""
        results = []
        for compare, later in zip(links[::2], links[1::2], strict=True):
            right = later()
            results.append(compare(left, right))
            if not isinstance(results[-1], self.tensor) and not self.raw(results[-1]):
                return results[-1]
            left = right
        return self.all_of(*((lambda result=result: result) for result in results))
