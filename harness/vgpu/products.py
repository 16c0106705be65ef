"""Matrix products of the builder: ``tl.dot`` and ``tl.dot_scaled``."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.vgpu import numerics
from harness.vgpu.arithmetic import finish, name_of
from harness.vgpu.elements import Scalar
from harness.vgpu.execution import Execution
from harness.vgpu.profiles import Profile
from harness.vgpu.values import Data, Value


class Products:
    """The ``create_*`` methods for matrix products."""

    execution: Execution

    def create_dot(self, a: Value, b: Value, acc: Value, input_precision: Any, max_imprecise: int) -> Value:
        """Return a @ b + acc."""
        assert isinstance(a.type, Scalar)
        assert isinstance(acc.type, Scalar)
        self.execution.saw(acc.shape)
        left, right = _each_alone(a.full(), b.full())
        result = numerics.dot(
            left,
            right,
            None if _is_zero(acc) else acc.data,
            input_precision=name_of(input_precision).lower(),
            profile=self.execution.profile,
            operand=a.type.name,
            out=acc.type.name,
        )
        return Value(np.ascontiguousarray(result), acc.type, acc.shape)

    def create_dot_scaled(
        self,
        a: Value,
        a_scale: Value | None,
        a_format: Any,
        b: Value,
        b_scale: Value | None,
        b_format: Any,
        fast_math: bool,
        a_k_pack: bool,
        b_k_pack: bool,
        acc: Value,
    ) -> Value:
        """Return (a * a_scale) @ (b * b_scale) + acc; scales are bytes of E8M0 or fp8e4nv, one per group along K."""
        profile = self.execution.profile
        left = _operand(a, name_of(a_format), -1 if a_k_pack else -2, profile)
        right = _operand(b, name_of(b_format), -2 if b_k_pack else -1, profile)
        if a_scale is not None:
            left = left * _scales(a_scale, left.shape[-1])
        if b_scale is not None:
            right = right * np.swapaxes(_scales(b_scale, right.shape[-2]), -1, -2)
        product = numerics.matmul(*_each_alone(left, right))
        result = product if _is_zero(acc) else product + acc.data
        return Value(finish(self, result, acc.type), acc.type, acc.shape)


def _each_alone(left: Data, right: Data) -> tuple[Data, Data]:
    """Return the operands so that every program is a product of its own.

    One large product for all programs that share an operand would add up in an order that depends on their number.
    """
    lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return left, np.broadcast_to(right, lead + right.shape[-2:])


def _is_zero(acc: Value) -> bool:
    return acc.data.size == 1 and not acc.data.any()


def _operand(value: Value, fmt: str, packed_axis: int, profile: Profile) -> Data:
    if fmt == "E5M2" and not profile.scaled_dot:
        # computed in bf16, and reached by the cast to it
        return numerics.cast(value.full(), "fp8e5", "bf16", profile)
    if fmt != "E2M1":
        return value.full()
    codes = np.moveaxis(value.full().view(np.uint8), packed_axis, -1)
    # the low nibble comes first
    pairs = np.stack([codes & np.uint8(15), codes >> np.uint8(4)], axis=-1)
    values = numerics.decode_e2m1(pairs.reshape(*codes.shape[:-1], -1))
    return np.moveaxis(values, -1, packed_axis)


def _scales(scale: Value, k: int) -> Data:
    data = scale.full()
    if not scale.type.floating:
        data = numerics.decode_e8m0(data.view(np.uint8))
    return np.repeat(data, k // data.shape[-1], axis=-1)
