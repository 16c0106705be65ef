"""What Triton's compiler refuses for a target, though the language's frontend would let it pass.

Found by compiling one-operation kernels for sm_80, sm_89 and sm_90: 8-bit floats can be loaded, moved, selected, cast,
multiplied by ``tl.dot`` and stripped of their sign, and not be computed with or compared.
"""

from __future__ import annotations

from typing import Protocol, TypeGuard

from harness.vgpu.elements import Element, Scalar
from harness.vgpu.execution import Execution
from harness.vgpu.faults import NotCompilable


class Host(Protocol):
    """Who has the launch."""

    execution: Execution


def _is_fp8(type: Element) -> TypeGuard[Scalar]:
    return type.floating and type.bits == 8


def refuse(execution: Execution, what: str, instead: str) -> NotCompilable:
    """Return the error for ``what``, which does not compile; ``instead``: what does."""
    return NotCompilable(what, execution.profile.name, instead, execution.location(), execution.kernel)


def arithmetic(host: Host, type: Element) -> None:
    """Raise NotCompilable if numbers of ``type`` cannot be computed with, or compared."""
    if _is_fp8(type) and host.execution.profile.vendor == "cuda":
        raise refuse(host.execution, f"arithmetic on {type.name}", "convert to float16, bfloat16 or float32 first")


def conversion(host: Host, source: Scalar, target: Scalar, rounding: str) -> None:
    """Raise NotCompilable if there is no conversion between two floating types."""
    if host.execution.profile.vendor != "cuda" or source is target or not (_is_fp8(source) or _is_fp8(target)):
        return
    direct = f"a conversion from {source.name} to {target.name}"
    if 64 in (source.bits, target.bits) or (_is_fp8(source) and _is_fp8(target)):
        raise refuse(host.execution, direct, "convert by way of float32")
    if rounding == "rtz" and target.name == "fp8e4nv":
        raise refuse(host.execution, f"{direct} that rounds toward zero", "leave the rounding to the target")


def one_type(host: Host, name: str, first: Element, second: Element) -> None:
    """Raise NotCompilable where two blocks that ``name`` puts together are of different types: no IR holds that."""
    if first != second:
        names = " and ".join(one.name if isinstance(one, Scalar) else "a pointer" for one in (first, second))
        raise refuse(host.execution, f"{name} of {names}", "convert one to the type of the other")
