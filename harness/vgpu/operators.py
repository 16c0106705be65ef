"""Operators of rewritten kernels: common cases straight to the builder, all others through Triton's semantic layer."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from harness.vgpu.builder import Builder
from harness.vgpu.elements import FP32, INT32, Pointer, Scalar
from harness.vgpu.functions import Functions
from harness.vgpu.triton_adapter import Adapter, TypeRecord
from harness.vgpu.values import LEAD, Value

Plain = Callable[[Any, Any], Any]
#: Builder methods for floats, signed and unsigned integers; "" where the semantic layer must decide.
Methods = tuple[str, str, str]


def _binary(name: str, plain: Plain, methods: Methods | None = None) -> Callable[[Operators, Any, Any], Any]:
    """Return an operator; ``methods`` also serve a number on one side."""
    reverse = name.replace("__", "__r", 1)

    def method(self: Operators, left: Any, right: Any) -> Any:
        if methods is not None:
            found = self.operands(left, right)
            if found is not None:
                a, b, record = found
                create = self.chosen(methods, a, record)
                if create is not None:
                    return self.make(create(a, b), record)
        if isinstance(left, self.tensor):
            return self.operators[name](left, right, _semantic=self.semantic)
        if isinstance(right, self.tensor):
            return self.operators[reverse](right, left, _semantic=self.semantic)
        return self.static(plain, left, right)

    return method


def _compare(name: str, mirrored: str, plain: Plain, methods: Methods) -> Callable[[Operators, Any, Any], Any]:
    reverse = name.replace("__", "__r", 1)

    def method(self: Operators, left: Any, right: Any) -> Any:
        found = self.operands(left, right, comparing=True)
        if found is not None:
            a, b, record = found
            create = self.chosen(methods, a, record)
            if create is not None:
                return self.make(create(a, b), self.adapter.record(self.int1, record.sizes))
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
        names = [n for n in dir(adapter.tensor) if n == "to" or n.startswith(("__", "logical_"))]
        self.operators: dict[str, Any] = {n: f for n in names if (f := adapter.operator(n)) is not None}
        # object's own comparisons are no operators of tensors
        for inherited in ("__rlt__", "__rle__", "__rgt__", "__rge__", "__req__", "__rne__"):
            if inherited not in adapter.tensor.__dict__:
                self.operators.pop(inherited, None)
        self.int1 = adapter.dtypes["int1"]
        self._numbers: dict[tuple[Any, ...], Value] = {}

    # -- operands that need no promotion

    def operands(self, left: Any, right: Any, *, comparing: bool = False) -> tuple[Value, Value, TypeRecord] | None:
        """Return both operands with one shape and the type they share, or None where the semantic layer must decide."""
        tensor = self.tensor
        if isinstance(left, tensor):
            a: Value = left.handle
            if isinstance(right, tensor):
                if left.dtype is not right.dtype:
                    return None
                b: Value = right.handle
                return self._aligned(a, b, left.dtype)
            number = self._number(right, a, left.dtype, comparing)
            return None if number is None else (a, number, self.adapter.record(left.dtype, a.shape))
        if isinstance(right, tensor):
            b = right.handle
            number = self._number(left, b, right.dtype, comparing)
            return None if number is None else (number, b, self.adapter.record(right.dtype, b.shape))
        return None

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

    def _number(self, given: Any, beside: Value, dtype: Any, comparing: bool) -> Value | None:
        """Return a compile-time number in the type of the tensor beside it, if it takes no part in promotion."""
        value = given.value if isinstance(given, self.adapter.constexpr) else given
        if not isinstance(beside, Value) or not isinstance(beside.type, Scalar):
            return None
        type = beside.type
        if value.__class__ is int and not type.floating and type.bits > 1:
            half = 1 << (type.bits - 1)
            low, high = (-half, half) if dtype.is_int_signed() else (0, 2 * half)
            if not low <= value < high:
                return None
            value = value if value < half else value - 2 * half
        elif not (value.__class__ in (int, float) and type.floating) or (comparing and type is not FP32):
            return None
        rank = len(beside.shape)
        key = (value, value.__class__, type.name, rank)
        found = self._numbers.get(key)
        # 0.0 == -0.0, so zeros are not kept
        if found is None or value == 0:
            scalar: Value = getattr(self.builder, f"get_{type.name}")(value)
            found = Value(scalar.data.reshape((1,) * (LEAD + rank)), type)
            if value == value:
                self._numbers[key] = found
        return Value(found.data, type, beside.shape)

    def chosen(self, methods: Methods, a: Value, record: TypeRecord) -> Callable[[Value, Value], Value] | None:
        """Return the builder's method for the operands' type, or None."""
        name = methods[0 if a.type.floating else 1 if record.signed else 2]
        if not name or (a.type.narrow and name == "create_fdiv"):
            return None
        return getattr(self.builder, name)  # type: ignore[no-any-return]

    def make(self, value: Value, record: TypeRecord) -> Any:
        """Return a tensor of the language."""
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
            step = Value(np.full((1,) * LEAD, raw, np.int64), INT32)
        if base.shape != step.shape:
            if not base.shape:
                base = self.builder.create_splat_to(base, step.shape)
            elif not step.shape:
                step = self.builder.create_splat_to(step, base.shape)
            elif len(base.shape) == len(step.shape):
                try:
                    shape = np.broadcast_shapes(base.shape, step.shape)
                except ValueError:
                    return None
                base = self.builder.create_broadcast(base, shape)
                step = self.builder.create_broadcast(step, shape)
            else:
                return None
        moved = self.builder.create_addptr(base, step)
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
        return self.semantic.invert(a) if isinstance(a, self.tensor) else self.constant(~self.raw(a))

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
