"""The language as a kernel sees it: what rewritten source does, on top of operators, calls and control flow."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from harness.vgpu.builder import Builder
from harness.vgpu.flow import Flow
from harness.vgpu.frequent import Frequent
from harness.vgpu.functions import BoundMethod
from harness.vgpu.rewrite import rewritten
from harness.vgpu.triton_adapter import Adapter


class Interpreter(Frequent, Flow):
    """Runs rewritten kernels.  Literals and constexpr parameters are ``tl.constexpr``, as in Triton's compiler."""

    def __init__(self, adapter: Adapter, builder: Builder) -> None:
        super().__init__(adapter, builder)
        self._bound: dict[FunctionType, FunctionType] = {}
        #: Sessions that it has served.
        self.uses = 0

    def rest(self) -> None:
        """Forget the last launch, and with it the memory that it held."""
        vars(self.builder).pop("execution", None)

    def attribute(self, owner: Any, name: str) -> Any:
        """``owner.name``."""
        if isinstance(owner, self.tensor) and name == "T":
            return self.semantic.permute(owner, (1, 0))
        if isinstance(owner, self.adapter.constexpr) and name not in ("value", "type"):
            owner = owner.value
        found = getattr(owner, name)
        if isinstance(owner, self.adapter.base_value) and self.adapter.jit_function(found) is not None:
            return BoundMethod(owner, found)
        return found

    def subscript(self, owner: Any, index: Any) -> Any:
        """``owner[index]``."""
        if isinstance(owner, self.tensor):
            widened = self.widened(owner, index)
            if widened is not None:
                return widened
            return self.operators["__getitem__"](owner, index, _semantic=self.semantic)
        if isinstance(owner, self.adapter.base_value):
            return owner[index]
        return owner[self.raw(index)]

    def slice(self, start: Any, stop: Any, step: Any) -> builtins.slice:
        """``start:stop:step``."""
        return builtins.slice(start, stop, step)

    def choose(self, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """``yes if condition else no``."""
        fork = self.fork(condition)
        if fork.split:
            fork.begin({"": None})
            first = self.semantic.to_tensor(yes())
            fork.turn({"": first}, ())
            (result,) = fork.end({"": self.semantic.to_tensor(no())}, ("",))
        else:
            result = yes() if fork.then else no()
        return self.semantic.to_tensor(result) if isinstance(condition, self.tensor) else result

    def device_call(self, function: FunctionType, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a ``@triton.jit`` function."""
        bound = self._bound.get(function) or self.bind(function)
        constant = self.constant
        return constant(bound(*[constant(a) for a in args], **{k: constant(v) for k, v in kwargs.items()}))

    def bind(self, function: FunctionType) -> FunctionType:
        """Return the rewritten function, bound to this interpreter."""
        found = self._bound.get(function)
        if found is None:
            found = self._bound[function] = rewritten(function).bind(self, self.constant)
        return found
