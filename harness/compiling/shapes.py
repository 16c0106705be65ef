"""Tensors of any size that cost nothing: large ones are shaped but never computed or committed to memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from harness.strategies.address_space import uncommitted

#: Elements up to which a tensor is computed as usual: what a launch decides by (routings, lengths) is small.
SMALL = 1 << 18

# Operations whose result may be larger than all that they read; besides these, those that read no tensor.
_ENLARGING = frozenset(
    f"aten::{name}"
    for name in (
        "addmm", "baddbmm", "bmm", "constant_pad_nd", "index", "index_select", "gather", "mm", "new_empty",
        "new_empty_strided", "new_full", "new_ones", "new_zeros", "repeat", "repeat_interleave",
    )
)  # fmt: skip


# Their way over the meta device imports all of torch._dynamo, too.
_WHETHER = frozenset({"aten::any", "aten::all"})


class ShapesOnly(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside this mode an operation that reads or makes more than ``SMALL`` elements only decides shapes.

    Such tensors are real CPU tensors with the strides, dtype and alignment that they would have, so that a launch
    specialises on them as always; their storage is address space without memory, and reads as zeros.  A small result
    of a large operand is zero too.  Views and everything small behave as outside.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # the wrapper that the base class would put around us imports all of torch._dynamo, seconds of it
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        facts = _facts(func)
        if facts.view:
            return func(*args, **kwargs)
        operands = list(_tensors(args, kwargs))
        large = any(operand.numel() > SMALL for operand in operands)
        if facts.written is not None:
            number, name = facts.written
            return (kwargs[name] if name in kwargs else args[number]) if large else func(*args, **kwargs)
        name = facts.name
        if name in _JOINING:
            large = sum(part.numel() for part in args[0]) > SMALL
            return _uncommitted(_JOINING[name](*args, **kwargs)) if large else func(*args, **kwargs)
        if name in _WHETHER and large:
            reduced = torch.sum(_on_meta(args[0]), *args[1:], **kwargs)
            return _uncommitted(reduced.to(torch.uint8 if args[0].dtype == torch.uint8 else torch.bool))
        if facts.pointwise:
            shape = _broadcast(operands)
            if not large and math.prod(shape) <= SMALL:
                return func(*args, **kwargs)
            return _uncommitted(_pointwise(func, args, kwargs, operands, shape))
        if not large and name not in _ENLARGING and (operands or _is_small(args)):
            return func(*args, **kwargs)
        try:
            shaped = func(*tree_map(_on_meta, args), **_without_place(tree_map(_on_meta, kwargs), args))
        except Exception:
            # the shape depends on the values, or the operation knows no shapes: it has to run
            return func(*args, **kwargs)
        made = shaped if isinstance(shaped, (list, tuple)) else (shaped,)
        if not large and all(leaf.numel() <= SMALL for leaf in made if isinstance(leaf, torch.Tensor)):
            return func(*args, **kwargs)
        return tree_map(_uncommitted, shaped)


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among an operation's arguments; they nest in one list at most."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (member for member in value if isinstance(member, torch.Tensor))


class _Facts(NamedTuple):
    """What an operation's schema says; ``written``: place and name of the argument that it writes and returns."""

    name: str
    view: bool
    pointwise: bool
    written: tuple[int, str] | None


@functools.cache
def _facts(func: Any) -> _Facts:
    schema = func._schema
    returns = schema.returns
    written = None
    if len(returns) == 1 and returns[0].alias_info is not None and returns[0].alias_info.is_write:
        arguments = enumerate(schema.arguments)
        written = next(((n, a.name) for n, a in arguments if a.alias_info is not None and a.alias_info.is_write), None)
    return _Facts(schema.name, func.is_view, torch.Tag.pointwise in func.tags, written)


def _is_small(args: tuple[Any, ...]) -> bool:
    """Whether an operation that reads no tensor makes a small one: its size comes first, where it has one."""
    size = args[0] if args else None
    return isinstance(size, (list, tuple)) and math.prod(size) <= SMALL


def _broadcast(operands: list[torch.Tensor]) -> tuple[int, ...]:
    """Return the common shape; torch.broadcast_shapes would import sympy."""
    rank = max(operand.dim() for operand in operands)
    padded = [(1,) * (rank - operand.dim()) + tuple(operand.size()) for operand in operands]
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*padded, strict=True))


def _pointwise(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], operands: list[torch.Tensor], shape: tuple[int, ...]
) -> torch.Tensor:
    """Return the result, of ``shape``, of an elementwise operation on the meta device, from single elements.

    Run there as a whole, such an operation imports all of torch._dynamo.
    """

    def first(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.as_strided((1,) * value.dim(), (1,) * value.dim(), value.storage_offset())

    dtype = func(*tree_map(first, args), **tree_map(first, kwargs)).dtype
    like = next((operand for operand in operands if operand.size() == shape), None)
    if like is None:
        return torch.empty(shape, dtype=dtype, device="meta")
    return torch.empty_like(_on_meta(like), dtype=dtype)


def _joined(parts: list[torch.Tensor], dim: int = 0) -> torch.Tensor:
    """Return the concatenation on the meta device; there may be a hundred thousand parts."""
    # a legacy of torch: an empty vector joins anything
    parts = [part for part in parts if part.size() != (0,)]
    size = list(parts[0].size())
    size[dim] = sum(part.size(dim) for part in parts)
    dtype = functools.reduce(torch.promote_types, {part.dtype for part in parts})
    return torch.empty(size, dtype=dtype, device="meta")


def _stacked(parts: list[torch.Tensor], dim: int = 0) -> torch.Tensor:
    """Return the stack on the meta device."""
    size = list(parts[0].size())
    size.insert(dim % (len(size) + 1), len(parts))
    dtype = functools.reduce(torch.promote_types, {part.dtype for part in parts})
    return torch.empty(size, dtype=dtype, device="meta")


_JOINING = {"aten::cat": _joined, "aten::stack": _stacked}


def _on_meta(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")


def _without_place(kwargs: dict[str, Any], args: tuple[Any, ...]) -> dict[str, Any]:
    """Return ``kwargs`` of a run on the meta device: no generator, no pinned memory, no other device."""
    kept = {name: None if name in ("generator", "pin_memory") else value for name, value in kwargs.items()}
    return kept if any(True for _ in _tensors(args, kept)) and "device" not in kwargs else kept | {"device": "meta"}


def _uncommitted(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    reach = sum((size - 1) * stride for size, stride in zip(value.size(), value.stride(), strict=True)) + 1
    if not value.numel():
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)
    return uncommitted(reach, value.dtype).as_strided(value.size(), value.stride())
