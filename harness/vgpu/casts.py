"""Constants, types and casts of the builder."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.vgpu import memory, numerics, refusals
from harness.vgpu.arithmetic import finish, name_of
from harness.vgpu.elements import SCALARS, Block, Element, Pointer, Scalar, Type, signless, unsigned
from harness.vgpu.execution import Execution
from harness.vgpu.memory import addresses, from_bits, to_bits
from harness.vgpu.values import Value, scalar


def _type_getter(name: str) -> Any:
    return lambda self: SCALARS[name]


def _constant_getter(name: str) -> Any:
    type = SCALARS[name]
    if type.floating:
        return lambda self, value: scalar(finish(self, np.asarray(value, np.float64), type), type)
    if type.bits == 1:
        return lambda self, value: scalar(bool(value), type)
    half, whole = 1 << (type.bits - 1), 1 << type.bits
    return lambda self, value: scalar((int(value) + half) % whole - half, type)


class Casts:
    """The ``get_*`` methods and the ``create_*`` methods that change a type."""

    execution: Execution

    get_void_ty = _type_getter("void")
    get_int1_ty = _type_getter("int1")
    get_int8_ty = get_uint8_ty = _type_getter("int8")
    get_int16_ty = get_uint16_ty = _type_getter("int16")
    get_int32_ty = get_uint32_ty = _type_getter("int32")
    get_int64_ty = get_uint64_ty = _type_getter("int64")
    get_half_ty = _type_getter("fp16")
    get_bf16_ty = _type_getter("bf16")
    get_float_ty = _type_getter("fp32")
    get_double_ty = _type_getter("fp64")
    get_fp8e4nv_ty = _type_getter("fp8e4nv")
    get_fp8e4b8_ty = _type_getter("fp8e4b8")
    get_fp8e4b15_ty = _type_getter("fp8e4b15")
    get_fp8e5_ty = _type_getter("fp8e5")
    get_fp8e5b16_ty = _type_getter("fp8e5b16")

    get_int1 = _constant_getter("int1")
    get_int8 = get_uint8 = _constant_getter("int8")
    get_int16 = get_uint16 = _constant_getter("int16")
    get_int32 = get_uint32 = _constant_getter("int32")
    get_int64 = get_uint64 = _constant_getter("int64")
    get_fp16 = _constant_getter("fp16")
    get_bf16 = _constant_getter("bf16")
    get_fp32 = _constant_getter("fp32")
    get_fp64 = _constant_getter("fp64")
    get_fp8e4nv = _constant_getter("fp8e4nv")
    get_fp8e4b8 = _constant_getter("fp8e4b8")
    get_fp8e4b15 = _constant_getter("fp8e4b15")
    get_fp8e5 = _constant_getter("fp8e5")
    get_fp8e5b16 = _constant_getter("fp8e5b16")

    def get_ptr_ty(self, element: Element, address_space: int) -> Pointer:
        """Return the type of pointers to ``element``."""
        return Pointer(element)

    def get_block_ty(self, element: Element, shape: Any) -> Block:
        """Return the type of blocks of ``element``."""
        return Block(element, tuple(shape))

    def get_null_value(self, type: Type) -> Value:
        """Return zero."""
        return _block(scalar(0, type.scalar), type)

    def get_all_ones_value(self, type: Type) -> Value:
        """Return the integer with every bit set."""
        element = type.scalar
        return _block(scalar(True if element.bits == 1 else -1, element), type)

    def create_si_to_fp(self, a: Value, type: Type) -> Value:
        """Convert signed integers."""
        return self._to_float(a, a.data, type.scalar)

    def create_ui_to_fp(self, a: Value, type: Type) -> Value:
        """Convert unsigned integers."""
        return self._to_float(a, unsigned(a.data), type.scalar)

    def _to_float(self, a: Value, data: Any, element: Element) -> Value:
        wide = np.float32 if element.bits == 32 else np.float64
        return Value(finish(self, numerics.int_to_float(data, wide, odd=element.narrow), element), element, a.shape)

    def create_fp_to_si(self, a: Value, type: Type) -> Value:
        """Truncate to signed integers; out of range saturates."""
        element = type.scalar
        return Value(numerics.float_to_int(a.data, element.held, self.execution.profile), element, a.shape)

    def create_fp_to_ui(self, a: Value, type: Type) -> Value:
        """Truncate to unsigned integers; out of range saturates."""
        element = type.scalar
        whole = numerics.float_to_int(a.data, np.dtype(f"uint{element.bits}"), self.execution.profile)
        return Value(signless(whole, element), element, a.shape)

    def create_fp_ext(self, a: Value, type: Type) -> Value:
        """Widen."""
        return self._convert(a, type, "rtne")

    def create_fp_trunc(self, a: Value, type: Type) -> Value:
        """Narrow, to nearest even."""
        return self._convert(a, type, "rtne")

    def create_fp_to_fp(self, a: Value, type: Type, rounding: Any) -> Value:
        """Convert between floating types; ``rounding`` applies when the new one is narrower."""
        toward_zero = rounding is not None and name_of(rounding) == "RTZ"
        if toward_zero and not type.scalar.narrow:
            raise self.execution.unsupported(f"fp_to_fp({a.type.bits} bits to {type.scalar.bits}, rtz)")
        return self._convert(a, type, "rtz" if toward_zero else "rtne")

    def _convert(self, a: Value, type: Type, rounding: numerics.Rounding) -> Value:
        source, target = a.type, type.scalar
        assert isinstance(source, Scalar)
        assert isinstance(target, Scalar)
        refusals.conversion(self, source, target, rounding)
        data = numerics.cast(a.data, source.name, target.name, self.execution.profile, rounding)
        return Value(data, target, a.shape)

    def create_int_cast(self, a: Value, type: Type, is_signed: bool) -> Value:
        """Change the width of integers, extending the sign or zero."""
        element = type.scalar
        data = a.data if is_signed or a.data.dtype == np.bool_ else unsigned(a.data)
        if element.bits == 1:
            return Value((data & 1).astype(np.bool_), element, a.shape)
        return Value(data if data.dtype == element.held else data.astype(element.held), element, a.shape)

    def create_bitcast(self, a: Value, type: Type) -> Value:
        """Reinterpret the bits; a pointer keeps its provenance."""
        element = type.scalar
        if isinstance(a.type, Pointer) and isinstance(element, Pointer):
            return a.with_data(a.data, element)
        if isinstance(a.type, Pointer):
            return self.create_ptr_to_int(a, type)
        if isinstance(element, Pointer):
            return self.create_int_to_ptr(a, type)
        bits = np.ascontiguousarray(to_bits(a, a.type))
        return Value(from_bits(bits.view(element.stored), element), element, a.shape)

    def create_int_to_ptr(self, a: Value, type: Type) -> Value:
        """Make a pointer from an address, into the tensor that holds it; if none does, it is looked up when used."""
        return memory.pointers(self.execution, a.data.astype(np.int64, copy=False), type.scalar, a.shape)

    def create_ptr_to_int(self, a: Value, type: Type) -> Value:
        """Return addresses."""
        element = type.scalar
        return Value(addresses(a).astype(element.held, copy=False), element, a.shape)


def _block(value: Value, type: Type) -> Value:
    if isinstance(type, Block):
        shape = value.data.shape + (1,) * len(type.shape)
        return Value(value.data.reshape(shape), value.type, type.shape)
    return value
