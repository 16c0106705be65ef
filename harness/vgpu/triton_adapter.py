"""The only module that knows Triton's private interfaces; Triton 3.6 to 3.9."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import torch

from harness.vgpu.builder import Builder
from harness.vgpu.elements import SCALARS, Element, Pointer
from harness.vgpu.triton_names import ANNOTATIONS, BYTES, DTYPES

SUPPORTED = ((3, 6), (3, 7), (3, 8), (3, 9))


@dataclass(frozen=True)
class TypeRecord:
    """A type of the language with everything that a tensor of it carries; ``sizes`` is its shape as plain numbers."""

    type: Any
    dtype: Any
    shape: Any
    numel: Any
    sizes: tuple[int, ...]
    signed: bool


class Adapter:
    """Names and classes of the installed Triton, under stable names."""

    def __init__(self) -> None:
        triton = importlib.import_module("triton")
        found = re.match(r"(\d+)\.(\d+)", triton.__version__)
        version = (int(found[1]), int(found[2])) if found else (0, 0)
        if version not in SUPPORTED:
            raise RuntimeError(f"the virtual GPU needs Triton 3.6\u20133.9, found {triton.__version__}")
        self.version = version
        self.library = str(Path(str(triton.__file__)).parent)
        self.tl = importlib.import_module("triton.language")
        self.core = importlib.import_module("triton.language.core")
        self._standard = importlib.import_module("triton.language.standard")
        self._jit = importlib.import_module("triton.runtime.jit")
        self._autotuner = importlib.import_module("triton.runtime.autotuner")
        self._semantic = importlib.import_module("triton.language.semantic")
        self._descriptor = importlib.import_module("triton.tools.tensor_descriptor")
        self.tensor: Any = self.core.tensor
        self.constexpr: Any = self.core.constexpr
        self.tuple: Any = self.core.tuple
        self.dtype: Any = self.core.dtype
        self.block_type: Any = self.core.block_type
        self.base_value: Any = self.core.base_value
        self.condition: Any = self.core.condition
        self.static_range: Any = self.core.static_range
        self.range: Any = self.core.range
        self.unwrap: Callable[[Any], Any] = self.core._unwrap_if_constexpr
        self.callable: Any = self._jit.JITCallable
        self.constexpr_function: Any = self._jit.ConstexprFunction
        self.descriptor: Any = self._descriptor.TensorDescriptor
        self.wrapper: Any = self._jit.TensorWrapper
        self.out_of_resources: Any = importlib.import_module("triton.runtime.errors").OutOfResources
        self._kinds = self._combine_kinds()
        self._records: dict[tuple[str, tuple[int, ...]], TypeRecord] = {}
        self._semantic_wanted: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
        # Triton compares types by identity in places, so these must be its own objects
        own = [v for v in vars(self.core).values() if type(v) is self.dtype]
        self.dtypes = {v.name: v for v in own if v.name in SCALARS}

    # -- language

    def semantic(self, builder: Builder) -> Any:
        """Return Triton's semantic layer on top of ``builder``."""
        builder.codegen_fns["convert_custom_types"] = self._convert_custom
        semantic = self._semantic.TritonSemantic(builder)
        # Triton would ask the driver
        native = builder.options.profile.native_tma
        semantic._has_native_tma = lambda: native
        return semantic

    def _convert_custom(self, input: Any, type: Any, rounding: Any, *, _semantic: Any) -> Any:
        builder = _semantic.builder
        builder.execution.untrusted.add("fp8e4b15 conversion")
        return self.tensor(builder.create_fp_to_fp(input.handle, type.to_ir(builder), rounding), type)

    def jit_function(self, fn: Any) -> FunctionType | None:
        """Return the Python function under a ``@triton.jit`` object, in either mode, or None if it is none."""
        if isinstance(fn, self._jit.JITFunction):
            return fn.fn  # type: ignore[no-any-return]
        if type(fn).__name__ == "InterpretedFunction":
            return fn.fn  # type: ignore[no-any-return]
        return None

    @staticmethod
    def _interpreted() -> Any:
        # there only if somebody set TRITON_INTERPRET or imported it; importing it is not ours to do
        module = sys.modules.get("triton.runtime.interpreter")
        return None if module is None else module.InterpretedFunction

    def is_builtin(self, fn: Any) -> bool:
        """Whether ``fn`` is a function of the language, which takes the semantic layer as an argument."""
        return bool(self.core.is_builtin(fn))

    def wants_semantic(self, fn: Any) -> bool:
        """Whether ``fn`` has a parameter for the semantic layer."""
        key = getattr(fn, "__func__", fn)
        try:
            found = self._semantic_wanted.get(key)
            if found is None:
                found = self._semantic_wanted[key] = self._has_semantic(key)
        except TypeError:
            # some callables cannot be hashed, others not be referred to weakly
            return self._has_semantic(fn)
        return found

    def _has_semantic(self, fn: Any) -> bool:
        signature = getattr(fn, "signature", None)
        if signature is None:
            try:
                signature = inspect.signature(fn)
            except (TypeError, ValueError):
                return False
        return "_semantic" in signature.parameters

    def operator(self, name: str) -> Callable[..., Any] | None:
        """Return the tensor method ``name`` without its check for the semantic layer, or None."""
        method = getattr(self.tensor, name, None)
        return getattr(method, "__wrapped__", method)

    @cached_property
    def operators(self) -> dict[str, Any]:
        """The methods of tensors that are operators, or casts, by name."""
        names = [n for n in dir(self.tensor) if n == "to" or n.startswith(("__", "logical_"))]
        found = {n: f for n in names if (f := self.operator(n)) is not None}
        # object's own comparisons are no operators of tensors
        for inherited in ("__rlt__", "__rle__", "__rgt__", "__rge__", "__req__", "__rne__"):
            if inherited not in self.tensor.__dict__:
                found.pop(inherited, None)
        return found

    def combine_kind(self, fn: Any) -> str | None:
        """Return the name of a combine function of Triton's standard library, or None for any other."""
        function = self.jit_function(fn)
        return None if function is None else self._kinds.get(function)

    def _combine_kinds(self) -> dict[Any, str]:
        names = {
            "_sum_combine": "sum",
            "_prod_combine": "prod",
            "_elementwise_max": "max",
            "_elementwise_min": "min",
            "_argmax_combine_tie_break_left": "argmax",
            "_argmax_combine_tie_break_fast": "argmax",
            "_argmin_combine_tie_break_left": "argmin",
            "_argmin_combine_tie_break_fast": "argmin",
            "_xor_combine": "xor",
            "_or_combine": "or",
        }
        found = {}
        for name, kind in names.items():
            fn = getattr(self._standard, name, None)
            if fn is not None:
                found[fn.fn] = kind
        return found

    def device_library(self, fn: Any) -> Any:
        """Return the implementation behind a stub of ``tl.extra.libdevice``; any other function is itself."""
        if getattr(fn, "__module__", None) == "triton.language.extra.libdevice":
            module: ModuleType = importlib.import_module("triton.language.extra.cuda.libdevice")
            return getattr(module, fn.__name__)
        return fn

    # -- types

    def pointer_dtype(self, dtype: torch.dtype) -> Any:
        """Return Triton's element type for tensors of ``dtype``; raises TypeError if there is none."""
        name = DTYPES.get(dtype)
        if name is None and str(dtype).removeprefix("torch.") in BYTES:
            name = "uint8"
        if name is None:
            raise TypeError(f"no Triton type for {dtype}")
        return self.dtypes[name]

    def element(self, type: Any) -> Element:
        """Return the virtual GPU's element type for a scalar or pointer type of Triton's."""
        if type.is_ptr():
            return Pointer(self.element(type.element_ty))
        return SCALARS[type.name]

    def record(self, element_type: Any, shape: tuple[int, ...]) -> TypeRecord:
        """Return the record of a block, or of a scalar if ``shape`` is empty; types are made once."""
        key = (element_type.name, shape)
        found = self._records.get(key)
        if found is None:
            model = self.tensor(None, self.type_of(element_type, shape))
            signed = not element_type.is_ptr() and element_type.is_int_signed()
            found = TypeRecord(model.type, model.dtype, model.shape, model.numel, shape, signed)
            self._records[key] = found
        return found

    def make(self, handle: Any, record: TypeRecord) -> Any:
        """Return ``tl.tensor(handle, record.type)`` without computing again what depends on the type alone."""
        made = self.tensor.__new__(self.tensor)
        made.handle = handle
        made.type = record.type
        made.dtype = record.dtype
        made.shape = record.shape
        made.numel = record.numel
        return made

    def type_of(self, element_type: Any, shape: tuple[int, ...]) -> Any:
        """Return Triton's type of a block, or of a scalar if ``shape`` is empty."""
        return self.block_type(element_type, list(shape)) if shape else element_type

    def annotated_type(self, annotation: Any) -> Any:
        """Return the Triton type that a parameter's annotation demands, "constexpr", or None."""
        if annotation is inspect.Parameter.empty or annotation is None:
            return None
        name: str = self._jit._normalize_ty(annotation)
        if "constexpr" in name:
            return "constexpr"
        pointer = name.startswith("*")
        name = name.removeprefix("*k").removeprefix("*")
        base = self.dtypes.get(ANNOTATIONS.get(name, name))
        if base is None:
            return None
        return self.tl.pointer_type(base) if pointer else base

    # -- launches

    def scratch(self) -> None:
        """Raise what a launch that needs memory of its own raises while nobody has said where to get it."""
        allocation = importlib.import_module("triton.runtime._allocation")
        chosen = allocation._allocator.get()
        if isinstance(chosen, allocation.NullAllocator):
            chosen(0, 1, None)

    def specialises(self, fn: Any, number: int, name: str) -> bool:
        """Whether an integer 1 passed for this parameter becomes a compile-time constant."""
        listed = getattr(fn, "do_not_specialize", None) or getattr(fn, "kwargs", {}).get("do_not_specialize") or ()
        return number not in listed and name not in listed

    @contextmanager
    def patched(self, run: Callable[..., Any], tune: Callable[..., Any]) -> Iterator[None]:
        """Send kernel launches of this thread to ``run(fn, args, kwargs, grid)`` and autotuned ones to ``tune``."""
        owner = threading.get_ident()
        interpreted = self._interpreted()
        classes = [self._jit.JITFunction, *([] if interpreted is None else [interpreted])]
        with _LOCK:
            if owner in _ACTIVE:
                raise RuntimeError("a virtual GPU is already active in this thread")
            if not _ACTIVE:
                for cls in classes:
                    _replace(cls, "run", _launch_hook)
                _replace(self._autotuner.Autotuner, "run", _tune_hook)
            _ACTIVE[owner] = (run, tune)
        try:
            yield
        finally:
            with _LOCK:
                del _ACTIVE[owner]
                if not _ACTIVE:
                    while _REPLACED:
                        cls, name, original = _REPLACED.pop()
                        setattr(cls, name, original)


_LOCK = threading.Lock()
_ACTIVE: dict[int, tuple[Callable[..., Any], Callable[..., Any]]] = {}
_REPLACED: list[tuple[type, str, Any]] = []


def _replace(cls: type, name: str, hook: Callable[[Any], Any]) -> None:
    original = cls.__dict__[name]
    _REPLACED.append((cls, name, original))
    setattr(cls, name, hook(original))


def _launch_hook(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        active = _ACTIVE.get(threading.get_ident())
        if active is None:
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        return None if warmup else active[0](self, args, kwargs, grid)

    return run


def _tune_hook(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        active = _ACTIVE.get(threading.get_ident())
        if active is None:
            return original(self, *args, **kwargs)
        return active[1](self, args, kwargs)

    return run


@cache
def adapter() -> Adapter:
    """Return the adapter for the installed Triton; raises RuntimeError if its version is not supported."""
    return Adapter()
