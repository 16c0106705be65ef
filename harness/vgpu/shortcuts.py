"""Short ways for the most frequent calls, where no promotion or check of the semantic layer is involved.

Each method falls back to the language's own function for everything else, so none changes what a call means.
"""

from __future__ import annotations

import builtins
from typing import Any

from harness.vgpu.builder import Builder
from harness.vgpu.elements import Element, Pointer, Scalar
from harness.vgpu.operators import Operators
from harness.vgpu.triton_adapter import Adapter
from harness.vgpu.values import LEAD, Value

#: Arguments of ``tl.load`` and ``tl.store`` that change nothing here, but for volatile loads and ``.cv``.
_POLICY = frozenset({"cache_modifier", "eviction_policy", "volatile"})


class Shortcuts(Operators):
    """Loads, stores, selections, casts and index expansion."""

    def __init__(self, adapter: Adapter, builder: Builder) -> None:
        super().__init__(adapter, builder)
        core = adapter.core
        self._special[core.load] = self._load
        self._special[core.store] = self._store
        self._special[core.where] = self._where
        self._methods["to"] = self._to

    def _is_plain(self, tensor: Any) -> bool:
        return isinstance(tensor, self.tensor) and isinstance(tensor.handle, Value)

    def _missing(self, given: Any) -> bool:
        return given is None or (isinstance(given, self.adapter.constexpr) and given.value is None)

    # -- memory

    def _load(self, pointer: Any, mask: Any = None, other: Any = None, **rest: Any) -> Any:
        element = None if self._is_strong(rest) else self._target(pointer)
        if element is not None and rest.keys() <= _POLICY and not (self._missing(mask) and not self._missing(other)):
            where: Value = pointer.handle
            dtype = pointer.dtype.element_ty
            enabled = self._lanes(mask, where.shape)
            if self._missing(mask):
                loaded = self.builder.create_load(where)
                return self.make(loaded, self.adapter.record(dtype, where.shape))
            if enabled is not None:
                instead = None if self._missing(other) else self._filling(other, dtype, element, where.shape)
                if instead is not None or self._missing(other):
                    loaded = self.builder.create_masked_load(where, enabled, instead)
                    return self.make(loaded, self.adapter.record(dtype, where.shape))
        return self._language(self.adapter.core.load, (pointer, mask, other), rest)

    def _is_strong(self, policy: dict[str, Any]) -> bool:
        """Whether a load is one that a loop may wait with: the builder has to know."""
        return bool(self.raw(policy.get("volatile"))) or self.raw(policy.get("cache_modifier")) == ".cv"

    def _store(self, pointer: Any, value: Any, mask: Any = None, **rest: Any) -> Any:
        element = self._target(pointer)
        if element is not None and rest.keys() <= _POLICY and not pointer.dtype.is_const():
            where: Value = pointer.handle
            dtype = pointer.dtype.element_ty
            if self._is_plain(value) and value.dtype is not dtype:
                value = self._to(value, dtype)
            filling = self._filling(value, dtype, element, where.shape)
            if filling is not None and self._missing(mask):
                return self.builder.create_store(where, filling)
            enabled = self._lanes(mask, where.shape)
            if filling is not None and enabled is not None:
                return self.builder.create_masked_store(where, filling, enabled)
        return self._language(self.adapter.core.store, (pointer, value, mask), rest)

    def _target(self, pointer: Any) -> Scalar | None:
        """Return the element type of a block of pointers to numbers, or None."""
        if not self._is_plain(pointer) or not isinstance(pointer.handle.type, Pointer):
            return None
        element = pointer.handle.type.element
        return element if isinstance(element, Scalar) and element.bits > 1 else None

    def _lanes(self, mask: Any, shape: tuple[int, ...]) -> Value | None:
        if not self._is_plain(mask) or mask.dtype is not self.int1:
            return None
        return self._fitted(mask.handle, shape)

    def _filling(self, given: Any, dtype: Any, element: Element, shape: tuple[int, ...]) -> Value | None:
        """Return a number or a tensor of the pointers' element type as a block of ``shape``, or None."""
        if not isinstance(given, self.tensor):
            if element.floating and element.bits == 8 and not isinstance(self.raw(given), float):
                return None
            if element.floating or self.raw(given).__class__ is int:
                return self._number(given, Value(_NOTHING, element, shape), dtype, False)
            return None
        if not self._is_plain(given) or given.dtype is not dtype:
            return None
        return self._fitted(given.handle, shape)

    def _fitted(self, value: Value, shape: tuple[int, ...]) -> Value | None:
        """Return ``value`` broadcast to ``shape``, or None if it does not fit into it."""
        if value.shape == shape:
            return value
        if not value.shape:
            return self.builder.create_splat_to(value, shape)
        if len(value.shape) == len(shape) and all(n in (1, m) for n, m in zip(value.shape, shape, strict=True)):
            return self.builder.create_broadcast(value, shape)
        return None

    # -- numbers

    def _where(self, condition: Any, x: Any, y: Any, **rest: Any) -> Any:
        if not rest and self._is_plain(condition) and condition.dtype is self.int1:
            found = self.operands(x, y)
            if found is not None:
                a, b, record = found
                chooser: Value = condition.handle
                if len(chooser.shape) == len(a.shape) and chooser.shape != a.shape:
                    shape = tuple(max(n, m) for n, m in zip(chooser.shape, a.shape, strict=True))
                    fitted = [self._fitted(v, shape) for v in (chooser, a, b)]
                elif chooser.shape and not a.shape:
                    shape = chooser.shape
                    fitted = [chooser, self._fitted(a, shape), self._fitted(b, shape)]
                else:
                    shape = a.shape
                    fitted = [self._fitted(chooser, shape), a, b]
                if all(v is not None for v in fitted):
                    selected = self.builder.create_select(*fitted)  # type: ignore[arg-type]
                    return self.make(selected, self.adapter.record(record.dtype, shape))
        return self._language(self.adapter.core.where, (condition, x, y), rest)

    def _to(self, tensor: Any, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        target = self.raw(dtype)
        if not args and not kwargs and self._is_plain(tensor) and type(target) is self.adapter.dtype:
            if target is tensor.dtype:
                return tensor
            value = self._cast(tensor.handle, tensor.dtype, target)
            if value is not None:
                return self.make(value, self.adapter.record(target, value.shape))
        elif not args and kwargs.keys() == _BITCAST and self.raw(kwargs["bitcast"]) is True:
            value = self._same_bits(tensor, target)
            if value is not None:
                return self.make(value, self.adapter.record(target, value.shape))
        return self.operators["to"](tensor, dtype, *args, **kwargs, _semantic=self.semantic)

    def _same_bits(self, tensor: Any, target: Any) -> Value | None:
        """Return numbers reinterpreted as another type of their size, or None."""
        if not self._is_plain(tensor) or type(target) is not self.adapter.dtype or target is tensor.dtype:
            return None
        value: Value = tensor.handle
        new = self.adapter.element(target)
        if not isinstance(value.type, Scalar) or new.bits != value.type.bits or new.bits <= 1:
            return None
        return self.builder.create_bitcast(value, new)

    def _cast(self, value: Value, source: Any, target: Any) -> Value | None:
        old, new = value.type, self.adapter.element(target)
        if not isinstance(old, Scalar) or new.bits <= 1 or "fp8e4b15" in (source.name, target.name):
            return None
        build = self.builder
        signed = source.is_int_signed()
        if old.floating and new.floating:
            if old.bits == 8 or new.bits == 8:
                return build.create_fp_to_fp(value, new, None)
            if old.bits == new.bits:
                return None
            return build.create_fp_trunc(value, new) if new.bits < old.bits else build.create_fp_ext(value, new)
        if old.floating:
            if old.bits == 8:
                return None
            return build.create_fp_to_si(value, new) if target.is_int_signed() else build.create_fp_to_ui(value, new)
        if new.floating:
            if new.bits == 8:
                return None
            return build.create_si_to_fp(value, new) if signed else build.create_ui_to_fp(value, new)
        return build.create_int_cast(value, new, signed)

    # -- shapes

    def widened(self, tensor: Any, index: Any) -> Any:
        """Return ``tensor[index]`` for an index of whole slices and None, or None for any other."""
        if not isinstance(index, builtins.tuple) or not self._is_plain(tensor):
            return None
        value: Value = tensor.handle
        shape: list[int] = []
        rest = list(value.shape)
        for part in index:
            if self._missing(part):
                shape.append(1)
            elif isinstance(part, builtins.slice) and rest and part == _WHOLE:
                shape.append(rest.pop(0))
            else:
                return None
        if rest or not value.shape:
            return None
        sizes = builtins.tuple(shape)
        axes = [LEAD + i for i, part in enumerate(index) if self._missing(part)]

        def expand(data: Any) -> Any:
            kept = iter(data.shape[LEAD:])
            block = (1 if LEAD + i in axes else next(kept) for i in range(len(sizes)))
            return data.reshape(data.shape[:LEAD] + builtins.tuple(block))

        return self.make(value.reshaped(expand, sizes), self.adapter.record(tensor.dtype, sizes))


_BITCAST = {"bitcast"}
_WHOLE = builtins.slice(None, None, None)
_NOTHING: Any = None
