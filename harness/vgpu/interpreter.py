"""The language as a kernel sees it: what operators, branches, loops and calls of rewritten source do."""

from __future__ import annotations

import builtins
import operator
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from harness.vgpu.builder import Builder
from harness.vgpu.execution import Limits
from harness.vgpu.faults import HangDetected, KernelFault
from harness.vgpu.functions import Functions
from harness.vgpu.rewrite import rewritten
from harness.vgpu.triton_adapter import Adapter
from harness.vgpu.values import LEAD, Data, Value


class BoundMethod:
    """A ``@triton.jit`` function looked up on a value, such as ``x.sum``."""

    def __init__(self, owner: Any, function: Any) -> None:
        self.owner = owner
        self.function = function


class Loop:
    """Watches one ``while`` statement for iterations that get nowhere."""

    def __init__(self, interpreter: Interpreter, limits: Limits) -> None:
        self._interpreter = interpreter
        self._limits = limits
        self._idle = 0
        self._changes = interpreter.builder.execution.changes
        self._locals: dict[str, Any] = {}
        self._end = time.monotonic() + limits.seconds

    def test(self, condition: Any) -> bool:
        """Return whether to go round once more; raises HangDetected when that cannot change anything."""
        interpreter = self._interpreter
        if isinstance(condition, interpreter.adapter.condition):
            condition = condition.condition
        if not interpreter.branch(condition):
            return False
        execution = interpreter.builder.execution
        before, self._locals = self._locals, dict(sys._getframe(1).f_locals)
        if execution.changes != self._changes:
            self._changes = execution.changes
            self._idle = 0
        elif self._idle and self._same(before, self._locals):
            # no other program runs in between: equal states repeat for ever
            raise self._hang("while loop waits for a change that no program that runs can make")
        self._idle += 1
        if self._idle > self._limits.spins:
            raise self._hang(f"while loop went round {self._idle} times without a change of memory")
        if time.monotonic() > self._end:
            raise self._hang(f"while loop ran for {self._limits.seconds:g} s")
        return True

    def _same(self, before: dict[str, Any], after: dict[str, Any]) -> bool:
        tensor = self._interpreter.tensor
        if before.keys() != after.keys():
            return False
        for name, new in after.items():
            old = before[name]
            if new is old:
                continue
            if not (isinstance(new, tensor) and isinstance(old, tensor)):
                return False
            old_handle, new_handle = old.handle, new.handle
            if not (isinstance(old_handle, Value) and isinstance(new_handle, Value)):
                return False
            if old_handle.base is not new_handle.base or not _equal(old_handle.data, new_handle.data):
                return False
        return True

    def _hang(self, what: str) -> KernelFault:
        execution = self._interpreter.builder.execution
        return execution.fault(HangDetected, what, program=execution.programs.at((0, 0, 0)))


def _equal(a: Data, b: Data) -> bool:
    return a is b or (a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes())


def _binary(name: str, plain: Callable[[Any, Any], Any]) -> Callable[[Interpreter, Any, Any], Any]:
    reverse = name.replace("__", "__r", 1)

    def method(self: Interpreter, left: Any, right: Any) -> Any:
        if isinstance(left, self.tensor):
            return self.operators[name](left, right, _semantic=self.semantic)
        if isinstance(right, self.tensor):
            return self.operators[reverse](right, left, _semantic=self.semantic)
        return self.static(plain, left, right)

    return method


def _compare(name: str, mirrored: str, plain: Callable[[Any, Any], Any]) -> Callable[[Interpreter, Any, Any], Any]:
    reverse = name.replace("__", "__r", 1)

    def method(self: Interpreter, left: Any, right: Any) -> Any:
        if isinstance(left, self.tensor):
            return self.operators[name](left, right, _semantic=self.semantic)
        if isinstance(right, self.tensor):
            own = self.operators.get(reverse) or self.operators[mirrored]
            return own(right, left, _semantic=self.semantic)
        return self.static(plain, left, right)

    return method


class Interpreter(Functions):
    """Runs rewritten kernels.  Literals and constexpr parameters are ``tl.constexpr``, as in Triton's compiler."""

    def __init__(self, adapter: Adapter, builder: Builder) -> None:
        super().__init__(adapter, builder)
        self.tensor = adapter.tensor
        names = [n for n in dir(adapter.tensor) if n.startswith("__") or n.startswith("logical_")]
        self.operators: dict[str, Any] = {n: f for n in names if (f := adapter.operator(n)) is not None}
        # object's own comparisons are no operators of tensors
        for inherited in ("__rlt__", "__rle__", "__rgt__", "__rge__", "__req__", "__rne__"):
            if inherited not in adapter.tensor.__dict__:
                self.operators.pop(inherited, None)
        self._bound: dict[Any, FunctionType] = {}

    # -- operators

    add = _binary("__add__", operator.add)
    sub = _binary("__sub__", operator.sub)
    mul = _binary("__mul__", operator.mul)
    truediv = _binary("__truediv__", operator.truediv)
    floordiv = _binary("__floordiv__", operator.floordiv)
    mod = _binary("__mod__", operator.mod)
    pow = _binary("__pow__", operator.pow)
    lshift = _binary("__lshift__", operator.lshift)
    rshift = _binary("__rshift__", operator.rshift)
    and_ = _binary("__and__", operator.and_)
    or_ = _binary("__or__", operator.or_)
    xor = _binary("__xor__", operator.xor)
    eq = _compare("__eq__", "__eq__", operator.eq)
    ne = _compare("__ne__", "__ne__", operator.ne)
    lt = _compare("__lt__", "__gt__", operator.lt)
    le = _compare("__le__", "__ge__", operator.le)
    gt = _compare("__gt__", "__lt__", operator.gt)
    ge = _compare("__ge__", "__le__", operator.ge)

    def static(self, plain: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
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
        return self.constant(self.raw(left) in self.raw(right))

    def not_in(self, left: Any, right: Any) -> Any:
        """Negated membership, of compile-time values."""
        return self.constant(self.raw(left) not in self.raw(right))

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
        """Chained comparison; each operand is evaluated once."""
        terms = []
        for compare, later in zip(links[::2], links[1::2], strict=True):
            right = later()
            terms.append(compare(left, right))
            left = right
        return self.all_of(*((lambda term=term: term) for term in terms))

    # -- names and values

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
            return self.operators["__getitem__"](owner, index, _semantic=self.semantic)
        if isinstance(owner, self.adapter.base_value):
            return owner[index]
        return owner[self.raw(index)]

    def slice(self, start: Any, stop: Any, step: Any) -> builtins.slice:
        """``start:stop:step``."""
        return builtins.slice(start, stop, step)

    def choose(self, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """``yes if condition else no``."""
        result = yes() if self.branch(condition) else no()
        return self.semantic.to_tensor(result) if isinstance(condition, self.tensor) else result

    # -- control flow

    def branch(self, condition: Any) -> bool:
        """Decide a branch; programs that disagree are separated."""
        if not isinstance(condition, self.tensor):
            return bool(self.raw(condition))
        value: Value = condition.handle
        if value.data.size > 1 and any(n > 1 for n in value.data.shape[LEAD:]):
            flat = value.data.reshape(value.data.shape[:LEAD] + (-1,))
            if not (flat == flat[..., :1]).all():
                raise ValueError("the truth value of a block with more than one element is ambiguous")
            value = Value(flat[..., 0], value.type)
        return bool(self.builder.execution.uniform(value))

    def loop(self) -> Loop:
        """Start watching a ``while`` statement."""
        return Loop(self, self.builder.execution.limits)

    def iterate(self, source: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield the values of a ``for`` loop's variable: constants for a static range, tensors for others."""
        source = self.raw(source)
        if source is self.adapter.static_range:
            bounds = [self._bound_of(a) for a in (*args, *kwargs.values())]
            if kwargs:
                ready = source(*(self.constant(self.raw(a)) for a in args), **{k: self.constant(self.raw(v)) for k, v in kwargs.items()})
                bounds = [ready.start.value, ready.end.value, ready.step.value]
            yield from (self.constant(i) for i in range(*bounds))
        elif source is range or source is self.adapter.range:
            yield from self._range(*args, **kwargs)
        else:
            yield from self.items(self.call(source, *args, **kwargs))

    def _bound_of(self, bound: Any) -> int:
        if isinstance(bound, self.tensor):
            return int(self.builder.execution.uniform(bound.handle))
        return int(self.raw(bound))

    def _range(self, first: Any, second: Any = None, step: Any = None, **hints: Any) -> Iterator[Any]:
        second = hints.pop("arg2", second)
        step = hints.pop("step", step)
        start, end = (0, first) if second is None or self.raw(second) is None else (first, second)
        step = 1 if step is None or self.raw(step) is None else step
        bounds = [self.semantic.to_tensor(bound) for bound in (start, end, step)]
        promote = self.semantic.integer_promote_impl
        kind = promote(promote(bounds[0].dtype, bounds[1].dtype), bounds[2].dtype)
        element = self.adapter.element(kind)
        for number in range(*(self._bound_of(bound) for bound in bounds)):
            data = np.full((1,) * LEAD, number, element.held)
            yield self.tensor(Value(data, element), kind)

    def items(self, source: Any) -> Iterator[Any]:
        """Yield the members of a tuple."""
        source = self.raw(source) if isinstance(source, self.adapter.constexpr) else source
        for item in source:
            yield item if isinstance(item, self.adapter.base_value) else self.constant(item)

    # -- functions

    def device_call(self, function: FunctionType, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a ``@triton.jit`` function."""
        bound = self.bind(function)
        result = bound(*(self.constant(a) for a in args), **{k: self.constant(v) for k, v in kwargs.items()})
        return self.constant(result)

    def bind(self, function: FunctionType) -> FunctionType:
        """Return the rewritten function, bound to this interpreter."""
        found = self._bound.get(function)
        if found is None:
            found = self._bound[function] = rewritten(function).bind(self, self.constant)
        return found
