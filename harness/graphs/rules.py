"""Which torch operations cannot be in a CUDA graph, by what they do on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from harness.graphs.findings import Rule

OnDevice = Callable[[torch.Tensor], bool]

#: Operations that hand the host a value; those that do so for some arguments only are not here.
_WAITS = {
    "aten::_local_scalar_dense": "reads a value of the device (item(), bool(), int(), float(), or as an index)",
    "aten::equal": "compares tensors of the device on the host (torch.equal)",
    "aten::_linalg_check_errors": "looks on the host whether a factorisation failed (its *_ex form does not)",
}
_INDEXING = frozenset(("aten::index", "aten::_unsafe_index"))
_WRITING = frozenset(
    ("aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index_put")
)  # fmt: skip
_COPIES = frozenset(("aten::copy_", "aten::_copy_from", "aten::_foreach_copy_"))
_MASKS = (torch.bool, torch.uint8)


def broken(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], on_device: OnDevice) -> tuple[Rule, str] | None:
    """Return which rule one operation breaks and how, or None; ``on_device`` tells where a tensor is."""
    name = func._schema.name
    given = list(tensors_of((*args, *kwargs.values())))
    if not any(on_device(tensor) for tensor in given):
        return None
    if name in _WAITS:
        return "waits", f"{_WAITS[name]}: the host waits for the device"
    if name in _INDEXING or name in _WRITING:
        return _indexed(name, args, on_device)
    if name in _COPIES:
        return _copied(args, on_device)
    # repeat_interleave of numbers of times may be told the sum of them
    if torch.Tag.dynamic_output_shape in func.tags and kwargs.get("output_size") is None:
        short = name.removeprefix("aten::").strip("_").rstrip("2")
        return "shape", f"{short} gives a tensor whose shape depends on the data: the host waits for the device"
    return None


def _indexed(name: str, args: tuple[Any, ...], on_device: OnDevice) -> tuple[Rule, str] | None:
    indices = list(tensors_of(args[1:2]))
    masked = any(index.dtype in _MASKS for index in indices)
    if masked and name in _INDEXING:
        return "shape", "a mask as an index gives a tensor whose shape depends on the data: the host waits"
    # a number of the host's is filled in where the mask is set, without counting
    if masked and (args[2].numel() != 1 or on_device(args[2])):
        return "shape", "assigns a tensor where a mask is set: the host waits for the number of places"
    if on_device(args[0]) and not all(on_device(index) for index in indices):
        return "copies", "an index that is a list, an array or a tensor of the host's is copied from pageable memory"
    return None


def _copied(args: tuple[Any, ...], on_device: OnDevice) -> tuple[Rule, str] | None:
    targets, sources = (list(tensors_of((value,))) for value in args[:2])
    for target, source in zip(targets, sources, strict=False):
        if on_device(source) and not on_device(target):
            return "waits", "copies a tensor of the device to the host: the host waits for the device"
        if on_device(target) and not on_device(source):
            return "copies", "copies memory of the host to the device: a replay reads what is there then"
    return None


def tensors_of(values: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors among ``values``, those in lists and tuples too."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_of(value)
