"""Calls of device libraries: functions by name, with what is proven of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.vgpu import ptx
from harness.vgpu.arithmetic import finish
from harness.vgpu.elements import SCALARS, Type
from harness.vgpu.execution import Execution
from harness.vgpu.libdevice import FUNCTIONS, Function
from harness.vgpu.libdevice_exact import EXACT
from harness.vgpu.values import Value, scalar


def function_of(name: str) -> Function | None:
    """Return the function of floats called ``name`` (``tanhf``, ``tanh``), without the library's prefix."""
    return FUNCTIONS.get(name) or FUNCTIONS.get(name.removesuffix("f"))


#: Inline assembly that only orders launches, which run one after the other here (PTX ISA, "griddepcontrol").
_ORDERING = ("griddepcontrol.wait", "griddepcontrol.launch_dependents")


class Results:
    """What inline assembly returns, by number."""

    def __init__(self, values: Sequence[Value]) -> None:
        self._values = values

    def get_result(self, number: int) -> Value:
        """Return one result."""
        return self._values[number]


class Extern:
    """The ``create_*`` methods for library calls and inline assembly."""

    execution: Execution

    def create_inline_asm(
        self, assembly: str, constraints: str, arguments: Sequence[Value], types: Sequence[Type], pure: bool, pack: int
    ) -> Results:
        """Do what known instructions do; any other is unsupported, by its text."""
        instruction = assembly.partition(";")[0].strip()
        if instruction in _ORDERING:
            return Results([scalar(0, type.scalar) for type in types])
        try:
            if self.execution.profile.vendor != "cuda":
                raise ptx.UnknownPTX(instruction)
            return Results(ptx.run(assembly, constraints, arguments, types, pack, self.execution.profile))
        except ptx.UnknownPTX as error:
            raise self.execution.unsupported(f"inline_asm({error})") from None

    def create_extern_elementwise(
        self, library: str, path: str, symbol: str, arguments: Sequence[Value], type: Type, is_pure: bool
    ) -> Value:
        """Call ``symbol`` on every lane."""
        execution = self.execution
        element = type.scalar
        operation = f"extern_elementwise({symbol})"
        ours = symbol.startswith("__nv_") and execution.profile.vendor == "cuda"
        name = symbol.removeprefix("__nv_").removeprefix("__ocml_").removesuffix("_f32").removesuffix("_f64")
        data = tuple(a.data for a in arguments)
        exact = EXACT.get(name)
        if exact is not None:
            with np.errstate(all="ignore"):
                result = exact(data, execution.profile, element.held)
            if not ours:
                execution.untrusted.add(operation)
        else:
            function = function_of(name)
            if function is None or element.narrow:
                raise execution.unsupported(operation)
            if not ours or (function.ulp if element.bits == 32 else function.wide_ulp) is None:
                execution.untrusted.add(operation)
            result = function(*data, flush=execution.profile.ftz_libdevice)
        if element is SCALARS["int1"]:
            return Value(result.astype(np.bool_), element, arguments[0].shape)
        return Value(finish(self, result, element), element, arguments[0].shape)
