"""Calls inside of a kernel: the language's functions, other kernels' code, and plain Python at compile time."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

from harness.vgpu import hints
from harness.vgpu import reduce as reductions
from harness.vgpu.builder import Builder
from harness.vgpu.elements import INT32, Block
from harness.vgpu.lanewise import Lanes
from harness.vgpu.triton_adapter import Adapter
from harness.vgpu.values import Value


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Ignore what a kernel prints: it is no result."""


class BoundMethod:
    """A ``@triton.jit`` function looked up on a value, such as ``x.sum``."""

    def __init__(self, owner: Any, function: Any) -> None:
        self.owner = owner
        self.function = function


class Functions(ABC):
    """Dispatch of calls; ``Interpreter`` adds operators and control flow."""

    def __init__(self, adapter: Adapter, builder: Builder) -> None:
        self.adapter = adapter
        self.builder = builder
        self.tensor = adapter.tensor
        self.semantic = adapter.semantic(builder)
        core = adapter.core
        self._special: dict[Any, Callable[..., Any]] = {
            core.reduce: self._reduce,
            core._reduce_with_indices: self._reduce_with_indices,
            core.associative_scan: self._scan,
            core.map_elementwise: self._map_elementwise,
            core.inline_asm_elementwise: self._assembly,
            core.static_assert: self._static_assert,
            core.static_print: _nothing,
            core.device_print: _nothing,
            core.multiple_of: self._multiple_of,
            core.max_contiguous: self._hint,
            core.max_constancy: self._hint,
            builtins.print: _nothing,
            builtins.min: self._min,
            builtins.max: self._max,
        }
        #: Methods of tensors with a shorter way than the language's own, by name.
        self._methods: dict[str, Callable[..., Any]] = {}
        #: How what was called before is called, by identity, beside what keeps that identity in use.
        self._ways: dict[int, tuple[Any, Callable[[Sequence[Any], dict[str, Any]], Any]]] = {}

    @abstractmethod
    def device_call(self, function: FunctionType, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a ``@triton.jit`` function."""

    # -- compile-time values

    def raw(self, value: Any) -> Any:
        """Return a compile-time value without its wrapper."""
        return value.value if isinstance(value, self.adapter.constexpr) else value

    def constant(self, value: Any) -> Any:
        """Return ``value`` as the language holds it: values as they are, tuples member by member, else constexpr."""
        adapter = self.adapter
        kind = value.__class__
        if kind is self.tensor or kind is adapter.constexpr or isinstance(value, adapter.base_value):
            return value
        if isinstance(value, builtins.tuple):
            members = [self.constant(member) for member in value]
            types = adapter.core.tuple_type([member.type for member in members], getattr(value, "_fields", None))
            return adapter.tuple(members, types)
        return adapter.constexpr(value)

    def tuple(self, *members: Any) -> Any:
        """Return a tuple of the language."""
        return self.adapter.tuple([self.constant(member) for member in members])

    def assign(self, value: Any) -> Any:
        """Return what an assignment stores: numbers become tensors."""
        adapter = self.adapter
        if isinstance(value, adapter.tensor):
            return value
        if isinstance(value, adapter.tuple):
            members = [self.constant(self.assign(member)) for member in value]
            types = adapter.core.tuple_type([member.type for member in members], value.type.fields)
            return adapter.tuple(members, types)
        value = self.raw(value)
        if isinstance(value, (bool, int, float)):
            return self.semantic.to_tensor(value)
        return value

    def annotated(self, annotation: Any, value: Any) -> Any:
        """Return what ``x: annotation = value`` stores: a constexpr stays one."""
        if self.raw(annotation) is self.adapter.constexpr or annotation == "constexpr":
            return self.constant(value)
        return self.assign(value)

    # -- calls

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """``function(*args, **kwargs)``."""
        function = self.raw(function)
        kind = function.__class__
        if kind is MethodType:
            owner = function.__self__
            if owner.__class__ is self.tensor:
                method = self._methods.get(function.__name__)
                if method is not None:
                    return method(owner, *args, **kwargs)
            return self._other(function, args, kwargs)
        if kind is BoundMethod:
            args = (function.owner, *args)
            function = function.function
        elif kind is BuiltinMethodType and function.__self__.__class__ is not ModuleType:
            # made anew whenever it is looked up
            return self._other(function, args, kwargs)
        known = self._ways.get(id(function))
        if known is None:
            known = self._ways[id(function)] = (function, self._way(function))
        return known[1](args, kwargs)

    def _way(self, function: Any) -> Callable[[Sequence[Any], dict[str, Any]], Any]:
        """Return how ``function``, which is no method of a value, is called."""
        python = self.adapter.jit_function(function)
        if python is not None:
            return partial(self.device_call, python)
        special = self._special_case(function)
        if special is not None:
            return lambda args, kwargs: special(*args, **kwargs)
        if function.__class__ is FunctionType and self.adapter.is_builtin(function):
            return partial(self._language, function)
        return partial(self._other, function)

    def _other(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call what is neither a kernel's code nor done here."""
        adapter = self.adapter
        if isinstance(function, adapter.constexpr_function):
            result = function.fn(*self._plain(args), **{k: adapter.unwrap(v) for k, v in kwargs.items()})
            return self.constant(result)
        bound_to = getattr(function, "__self__", None)
        if adapter.is_builtin(function) or isinstance(bound_to, adapter.base_value):
            return self._language(function, args, kwargs)
        library = adapter.device_library(function)
        if library is not function:
            return self._language(library, args, kwargs)
        if adapter.wants_semantic(function):
            return self.constant(function(*args, **kwargs, _semantic=self.semantic))
        if function in (int, len, float, isinstance, getattr, hasattr, range, list) or bound_to is not None:
            args = tuple(self._plain(args))
        return self.constant(function(*args, **kwargs))

    def _special_case(self, function: Any) -> Callable[..., Any] | None:
        try:
            return self._special.get(function)
        except TypeError:
            return None

    def _language(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if self.adapter.wants_semantic(function):
            kwargs = {**kwargs, "_semantic": self.semantic}
        return self.constant(function(*args, **kwargs))

    def _plain(self, args: Sequence[Any]) -> list[Any]:
        return [self.adapter.unwrap(a) for a in args]

    def _hint(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        return value

    def _multiple_of(self, value: Any, values: Any, **kwargs: Any) -> Any:
        factors = self.raw(values)
        listed = factors if isinstance(factors, Iterable) else [factors]
        if isinstance(value, self.tensor):
            hints.check_multiple(self.builder.execution, value.handle, self._plain(list(listed)))
        return value

    def _assembly(self, asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any, pack: Any) -> Any:
        # Triton wraps no types that stand in a tuple
        types = self.raw(dtype)
        types = self._plain(list(types)) if isinstance(types, Iterable) else types
        return self._language(
            self.adapter.core.inline_asm_elementwise, (asm, constraints, list(args), types, is_pure, pack), {}
        )

    def _static_assert(self, condition: Any, message: Any = "") -> None:
        if not self.raw(condition):
            raise AssertionError(self.raw(message) or "tl.static_assert failed")

    def check(self, condition: Any, message: Any) -> None:
        """``assert condition, message``."""
        if isinstance(condition, self.adapter.tensor):
            self.builder.create_assert(condition.handle, str(self.raw(message)))
        elif not self.raw(condition):
            raise AssertionError(self.raw(message))

    def _min(self, *args: Any, **kwargs: Any) -> Any:
        return self._extreme(builtins.min, self.adapter.core.minimum, args, kwargs)

    def _max(self, *args: Any, **kwargs: Any) -> Any:
        return self._extreme(builtins.max, self.adapter.core.maximum, args, kwargs)

    def _extreme(self, plain: Any, language: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if not any(isinstance(a, self.adapter.tensor) for a in args):
            return self.constant(plain(*self._plain(args)))
        result = args[0]
        for other in args[1:]:
            result = self._language(language, (result, other), kwargs)
        return result

    # -- reductions

    def wrap(self, value: Value, element_type: Any) -> Any:
        """Return ``value`` as a tensor of the language."""
        return self.adapter.make(value, self.adapter.record(element_type, value.shape))

    def _fold(self, function: Any, types: Sequence[Any]) -> reductions.Fold:
        python = self.adapter.jit_function(function)
        if python is None:
            raise TypeError(f"a combine function must be decorated with @triton.jit, got {function!r}")

        def fold(left: Sequence[Value], right: Sequence[Value]) -> Sequence[Value]:
            given = [self.wrap(v, t) for side in (left, right) for v, t in zip(side, types, strict=True)]
            result = self.device_call(python, given, {})
            results = result if isinstance(result, self.adapter.tuple) else (result,)
            return [
                self.semantic.cast(self.semantic.to_tensor(r), self.adapter.type_of(t, left[0].shape)).handle
                for r, t in zip(results, types, strict=True)
            ]

        return fold

    def _reduce(self, input: Any, axis: Any = None, combine_fn: Any = None, keep_dims: Any = False, **rest: Any) -> Any:
        single = isinstance(input, self.adapter.tensor)
        tensors = (input,) if single else builtins.tuple(input)
        axis, keep, function = self.raw(axis), bool(self.raw(keep_dims)), self.raw(combine_fn)
        rank = len(tensors[0].shape)
        types = [t.dtype for t in tensors]
        values = [t.handle for t in tensors]
        if axis is None:
            size = self.raw(tensors[0].numel)
            values = [self.builder.create_reshape(v, (size,), True) for v in values]
            where = 0
        elif -rank <= axis < rank:
            where = axis % rank
        else:
            raise ValueError(f"reduction axis {axis} is not in [{-rank}, {rank})")
        kind = self.adapter.combine_kind(function)
        unsigned = types[0].is_int_unsigned()
        results = reductions.reduce(self.builder, values, where, kind, unsigned, self._fold(function, types))
        if keep:
            axes = range(rank) if axis is None else (where,)
            for new in axes:
                results = [self.builder.create_expand_dims(v, new) for v in results]
        wrapped = [self.wrap(v, t) for v, t in zip(results, types, strict=True)]
        return wrapped[0] if single else self.tuple(*wrapped)

    def _reduce_with_indices(self, input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **rest: Any) -> Any:
        shape = input.handle.shape
        where = self.raw(axis) % len(shape)
        index = self.builder.create_make_range(Block(INT32, shape[where : where + 1]), 0, shape[where])
        for other in range(len(shape)):
            if other != where:
                index = self.builder.create_expand_dims(index, other)
        index = self.builder.create_broadcast(index, shape)
        return self._reduce((input, self.wrap(index, self.adapter.tl.int32)), where, combine_fn, keep_dims)

    def _scan(self, input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **rest: Any) -> Any:
        single = isinstance(input, self.adapter.tensor)
        tensors = (input,) if single else builtins.tuple(input)
        function = self.raw(combine_fn)
        types = [t.dtype for t in tensors]
        rank = len(tensors[0].shape)
        where = self.raw(axis)
        if not -rank <= where < rank:
            raise ValueError(f"scan axis {where} is not in [{-rank}, {rank})")
        results = reductions.scan(
            self.builder,
            [t.handle for t in tensors],
            where % rank,
            self.adapter.combine_kind(function),
            bool(self.raw(reverse)),
            self._fold(function, types),
        )
        wrapped = [self.wrap(v, t) for v, t in zip(results, types, strict=True)]
        return wrapped[0] if single else self.tuple(*wrapped)

    def _map_elementwise(self, scalar_fn: Any, *args: Any, pack: Any = 1, **rest: Any) -> Any:
        function = self.raw(scalar_fn)
        python = self.adapter.jit_function(function)
        if python is None:
            raise TypeError(f"map_elementwise takes a function decorated with @triton.jit, got {function!r}")
        inputs = self.semantic.broadcast_tensors(*(self.semantic.to_tensor(a) for a in args))
        count = self.raw(pack)
        types = [t.dtype for t in inputs for _ in range(count)]
        results: list[Any] = []

        def call(values: Sequence[Value]) -> Sequence[Value]:
            given = [self.wrap(value, type) for value, type in zip(values, types, strict=True)]
            made = self.device_call(python, given, {})
            results[:] = made if isinstance(made, self.adapter.tuple) else [made]
            results[:] = [self.semantic.to_tensor(result) for result in results]
            return [result.handle for result in results]

        values = Lanes(self.builder.execution, [t.handle for t in inputs], count).run(call)
        dtypes = [result.dtype for result in results[::count]]
        blocks = [Value(v.data, v.type, inputs[0].handle.shape) for v in values]
        wrapped = [self.wrap(block, dtype) for block, dtype in zip(blocks, dtypes, strict=True)]
        return wrapped[0] if len(results) == 1 else self.tuple(*wrapped)
