"""Elementwise arithmetic of the builder: integers wrap, narrow floats round after every operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from harness.vgpu import numerics, refusals
from harness.vgpu.elements import INT1, INT64, Element, Pointer, Scalar, signless, unsigned
from harness.vgpu.execution import Execution
from harness.vgpu.faults import AssertionFailed, DivisionByZero
from harness.vgpu.memory import addresses
from harness.vgpu.values import LEAD, Data, Value, combine

Binary = Callable[[Data, Data], Data]


class Host(Protocol):
    """What the parts of the builder share."""

    execution: Execution


def finish(host: Host, data: NDArray[Any], type: Element) -> Data:
    """Return ``data`` as held values of ``type``, rounded if the type is narrow."""
    if type.narrow:
        assert isinstance(type, Scalar)
        return numerics.round_to(data, type.name, host.execution.profile)
    return data if data.dtype == type.held else data.astype(type.held)


def name_of(enum: Any) -> str:
    """Return the name of a compiler enumeration's member, such as "RTNE"."""
    return str(enum.name)


def _divide(a: Data, b: Data) -> Data:
    """Integer division towards zero, as the hardware does."""
    quotient: Data = a // b
    if quotient.dtype.kind == "i" and quotient.size and quotient.min() < 0:
        quotient = quotient + ((quotient < 0) & (quotient * b != a))
    return quotient


def _shift(a: Data, b: Data, function: Binary, *, signed: bool = False) -> Data:
    """Shift; an amount of the type's width or more leaves nothing, or, where ``signed``, copies of the sign."""
    bits = a.dtype.itemsize * 8
    amount = unsigned(b)
    if amount.size == 0 or np.maximum.reduce(amount, axis=None) < bits:
        return function(a, b)
    beyond = np.where(a < 0, -1, 0) if signed else 0
    return np.where(amount < bits, function(a, np.where(amount < bits, b, 0).astype(b.dtype)), beyond).astype(a.dtype)


def _float_method(function: Binary) -> Callable[[Host, Value, Value], Value]:
    def method(self: Host, a: Value, b: Value) -> Value:
        refusals.arithmetic(self, a.type)
        return Value(finish(self, function(a.data, b.data), a.type), a.type, a.shape)

    return method


def _int_method(function: Binary, *, as_unsigned: bool = False) -> Callable[[Host, Value, Value], Value]:
    def method(self: Host, a: Value, b: Value) -> Value:
        x, y = a.data, b.data
        if x.dtype == np.bool_:
            # one bit that wraps
            wide = function(x.astype(np.int8), y.astype(np.int8))
            return Value((wide & 1).astype(np.bool_), a.type, a.shape)
        if as_unsigned:
            x, y = unsigned(x), unsigned(y)
        return Value(signless(function(x, y), a.type), a.type, a.shape)

    return method


def _division(function: Binary, *, as_unsigned: bool = False) -> Callable[[Host, Value, Value], Value]:
    plain = _int_method(function, as_unsigned=as_unsigned)

    def method(self: Host, a: Value, b: Value) -> Value:
        # in a block it may be a lane that is masked later
        if not b.shape and (bad := b.data == 0).any():
            running = self.execution.active(None, bad.shape)
            if running is None or (bad := bad & running).any():
                what = "integer division by zero"
                raise self.execution.at_lanes(DivisionByZero, what, bad, np.zeros((1,) * LEAD, np.int64), None)
        return plain(self, a, b)

    return method


def _bit_method(function: Binary) -> Callable[[Host, Value, Value], Value]:
    def method(self: Host, a: Value, b: Value) -> Value:
        return Value(function(a.data, b.data), a.type, a.shape)

    return method


def _compare(function: Binary, *, as_unsigned: bool = False) -> Callable[[Host, Value, Value], Value]:
    def method(self: Host, a: Value, b: Value) -> Value:
        x, y = a.data, b.data
        if isinstance(a.type, Pointer) and a.base is not b.base:
            x, y = addresses(a), addresses(b)
        refusals.arithmetic(self, a.type)
        if as_unsigned:
            x, y = unsigned(x), unsigned(y)
        return Value(function(x, y), INT1, a.shape)

    return method


def _unordered(function: Binary) -> Binary:
    return lambda x, y: ~function(x, y)


def _ordered_ne(x: Data, y: Data) -> Data:
    return (x < y) | (x > y)


class Arithmetic:
    """The ``create_*`` methods for numbers."""

    execution: Execution

    create_fadd = _float_method(np.add)
    create_fsub = _float_method(np.subtract)
    create_fmul = _float_method(np.multiply)
    create_minnumf = _float_method(lambda x, y: numerics.minimum(x, y, propagate_nan=False))
    create_maxnumf = _float_method(lambda x, y: numerics.maximum(x, y, propagate_nan=False))
    create_minimumf = _float_method(lambda x, y: numerics.minimum(x, y, propagate_nan=True))
    create_maximumf = _float_method(lambda x, y: numerics.maximum(x, y, propagate_nan=True))

    create_add = _int_method(np.add)
    create_sub = _int_method(np.subtract)
    create_mul = _int_method(np.multiply)
    create_sdiv = _division(_divide)
    create_udiv = _division(_divide, as_unsigned=True)
    create_srem = _division(np.fmod)
    create_urem = _division(np.fmod, as_unsigned=True)
    create_minsi = _int_method(np.minimum)
    create_maxsi = _int_method(np.maximum)
    create_minui = _int_method(np.minimum, as_unsigned=True)
    create_maxui = _int_method(np.maximum, as_unsigned=True)
    create_shl = _int_method(lambda x, y: _shift(x, y, np.left_shift))
    create_lshr = _int_method(lambda x, y: _shift(x, y, np.right_shift), as_unsigned=True)
    create_ashr = _int_method(lambda x, y: _shift(x, y, np.right_shift, signed=True))
    create_and = _bit_method(np.bitwise_and)
    create_or = _bit_method(np.bitwise_or)
    create_xor = _bit_method(np.bitwise_xor)

    create_icmpSLT = _compare(np.less)
    create_icmpSLE = _compare(np.less_equal)
    create_icmpSGT = _compare(np.greater)
    create_icmpSGE = _compare(np.greater_equal)
    create_icmpULT = _compare(np.less, as_unsigned=True)
    create_icmpULE = _compare(np.less_equal, as_unsigned=True)
    create_icmpUGT = _compare(np.greater, as_unsigned=True)
    create_icmpUGE = _compare(np.greater_equal, as_unsigned=True)
    create_icmpEQ = _compare(np.equal)
    create_icmpNE = _compare(np.not_equal)
    create_fcmpOLT = _compare(np.less)
    create_fcmpOLE = _compare(np.less_equal)
    create_fcmpOGT = _compare(np.greater)
    create_fcmpOGE = _compare(np.greater_equal)
    create_fcmpOEQ = _compare(np.equal)
    create_fcmpONE = _compare(_ordered_ne)
    create_fcmpULT = _compare(_unordered(np.greater_equal))
    create_fcmpULE = _compare(_unordered(np.greater))
    create_fcmpUGT = _compare(_unordered(np.less_equal))
    create_fcmpUGE = _compare(_unordered(np.less))
    create_fcmpUEQ = _compare(_unordered(_ordered_ne))
    create_fcmpUNE = _compare(np.not_equal)

    def _map(self, function: Callable[..., Data], *values: Value) -> Value:
        type = values[-1].type
        refusals.arithmetic(self, type)
        return Value(finish(self, function(*(v.data for v in values)), type), type, values[-1].shape)

    def _function(self, function: Callable[..., Data], *values: Value) -> Value:
        profile = self.execution.profile
        return self._map(lambda *data: function(*data, profile), *values)

    def create_fdiv(self, a: Value, b: Value) -> Value:
        """Divide."""
        return self._function(numerics.div, a, b)

    def create_frem(self, a: Value, b: Value) -> Value:
        """Return a % b."""
        if a.type.bits == 64 and self.execution.profile.vendor == "cuda":
            self.execution.untrusted.add("frem(fp64)")
        return self._function(numerics.remainder, a, b)

    create_precise_divf = create_fdiv
    create_approx_divf = create_fdiv

    def create_fneg(self, a: Value) -> Value:
        """Negate, NaN included."""
        return self._map(np.negative, a)

    def create_fabs(self, a: Value) -> Value:
        """Clear the sign."""
        return Value(np.abs(a.data), a.type, a.shape)

    def create_iabs(self, a: Value) -> Value:
        """Return the magnitude; the smallest integer stays itself."""
        return self._map(np.abs, a)

    def create_floor(self, a: Value) -> Value:
        """Round down."""
        return self._function(numerics.floor, a)

    def create_ceil(self, a: Value) -> Value:
        """Round up."""
        return self._function(numerics.ceil, a)

    def create_exp(self, a: Value) -> Value:
        """Return e**a."""
        return self._function(numerics.exp, a)

    def create_exp2(self, a: Value) -> Value:
        """Return 2**a."""
        return self._function(numerics.exp2, a)

    def create_log(self, a: Value) -> Value:
        """Return ln(a)."""
        return self._function(numerics.log, a)

    def create_log2(self, a: Value) -> Value:
        """Return log2(a)."""
        return self._function(numerics.log2, a)

    def create_sin(self, a: Value) -> Value:
        """Return sin(a)."""
        return self._function(numerics.sin, a)

    def create_cos(self, a: Value) -> Value:
        """Return cos(a)."""
        return self._function(numerics.cos, a)

    def create_erf(self, a: Value) -> Value:
        """Return erf(a)."""
        return self._function(numerics.erf, a)

    def create_sqrt(self, a: Value) -> Value:
        """Return the square root as ``sqrt.approx`` gives it."""
        return self._function(numerics.sqrt, a)

    def create_rsqrt(self, a: Value) -> Value:
        """Return 1 / sqrt(a)."""
        return self._function(numerics.rsqrt, a)

    def create_precise_sqrt(self, a: Value) -> Value:
        """Return the correctly rounded square root."""
        return self._map(np.sqrt, a)

    def create_fma(self, a: Value, b: Value, c: Value) -> Value:
        """Return a * b + c with one rounding."""
        if c.type.bits == 64:
            self.execution.untrusted.add("fma(fp64)")
            return self._map(lambda x, y, z: x * y + z, a, b, c)
        return self._map(numerics.fused, a, b, c)

    def create_clampf(self, x: Value, low: Value, high: Value, propagate_nan: Any) -> Value:
        """Return min(max(x, low), high)."""
        nan = name_of(propagate_nan) != "NONE"

        def clamp(data: Data, lower: Data, upper: Data) -> Data:
            return numerics.clamp(data, lower, upper, propagate_nan=nan, profile=self.execution.profile)

        return self._map(clamp, x, low, high)

    def create_umulhi(self, a: Value, b: Value) -> Value:
        """Return the upper half of the unsigned product."""
        x, y = unsigned(a.data), unsigned(b.data)
        bits = x.dtype.itemsize * 8
        if bits < 64:
            high = (x.astype(np.uint64) * y.astype(np.uint64)) >> np.uint64(bits)
            return Value(signless(high.astype(x.dtype), a.type), a.type, a.shape)
        low = np.uint64(0xFFFFFFFF)
        half = np.uint64(32)
        x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
        middle = x1 * y0 + (x0 * y0 >> half)
        high = x1 * y1 + (middle >> half) + ((x0 * y1 + (middle & low)) >> half)
        return Value(signless(high, INT64), a.type, a.shape)

    def create_select(self, condition: Value, a: Value, b: Value) -> Value:
        """Return ``a`` where ``condition`` holds, else ``b``."""
        on = condition.data
        missing = len(a.shape) - len(condition.shape)
        if missing > 0:
            on = on.reshape(on.shape[:LEAD] + (1,) * missing + on.shape[LEAD:])
        return combine((a, b), lambda data: np.where(on, data[0], data[1]), a.shape)

    def create_assert(self, condition: Value, message: str) -> None:
        """Raise AssertionFailed where ``condition`` does not hold."""
        self._require(condition, f"device_assert failed: {message}" if message else "device_assert failed")

    def create_assume(self, condition: Value) -> None:
        """Raise AssertionFailed where a promise to the compiler is not kept."""
        self._require(condition, "assumption does not hold")

    def _require(self, condition: Value, what: str) -> None:
        bad = ~condition.data.astype(np.bool_)
        running = self.execution.active(None, condition.data.shape)
        if running is not None:
            bad = bad & running
        if bad.any():
            raise self.execution.at_lanes(AssertionFailed, what, bad, np.zeros((1,) * LEAD, np.int64), None)
