"""Launch arguments as a whole: their tensors, their float64 form, and whether a launch left them alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from harness.compare import bits, breaking
from harness.contract import Inputs

#: Storages up to this size are compared whole, so that a write between the elements of a view shows too.
WHOLE_STORAGE_BYTES = 64 * 2**20
#: Views above this size are left to the lane's own write protection: a copy would commit their memory.
VIEW_BYTES = 256 * 2**20


def tensors(inputs: Inputs) -> dict[str, torch.Tensor]:
    """Return every tensor among the arguments; those inside tuples, lists and dicts as ``name[key]``."""
    return {path: value for name, item in inputs.items() for path, value in _walk(name, item)}


def widened(inputs: Inputs) -> Inputs:
    """Return the arguments with floating tensors of 16 bits and more as float64; all other values are shared.

    8-bit floats stay: they are storage, which an oracle decodes itself.
    """
    return {name: _mapped(value, _widen) for name, value in inputs.items()}


def _walk(path: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(f"{path}[{index}]", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(f"{path}[{key!r}]", item)


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(_mapped(item, change) for item in value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return value


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() and tensor.element_size() > 1 else tensor


@dataclass(frozen=True)
class Snapshot:
    """Copies of the bits of some arguments: of each view, and of its whole storage where that is small."""

    views: dict[str, tuple[torch.Tensor, torch.Tensor]]
    storages: dict[str, tuple[torch.Tensor, torch.Tensor]]

    @classmethod
    def take(cls, inputs: Inputs) -> Snapshot:
        """Copy what ``changes`` compares; the arguments must stay alive and in place."""
        views: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        storages: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        for path, tensor in tensors(inputs).items():
            if tensor.numel() * tensor.element_size() <= VIEW_BYTES:
                views[path] = tensor, bits(tensor).clone()
            if tensor.untyped_storage().nbytes() <= WHOLE_STORAGE_BYTES:
                whole = whole_storage(tensor)
                storages[path] = whole, whole.clone()
        return cls(views, storages)

    def changes(self) -> list[str]:
        """Return one message for each argument that is no longer what it was."""
        messages = []
        for path, (tensor, before) in self.views.items():
            # the view is a part of it
            if path in self.storages and torch.equal(*self.storages[path]):
                continue
            now = bits(tensor)
            # NaN payloads count here: an input's bytes are not the launch's to touch
            if error := breaking(path, now != before, tensor, before.view(tensor.dtype), "inputs untouched"):
                messages.append(error)
            elif path in self.storages:
                whole, old = self.storages[path]
                if error := breaking(path, whole != old, whole, old, "bytes outside the view untouched"):
                    messages.append(error)
        return messages


def whole_storage(tensor: torch.Tensor) -> torch.Tensor:
    """Return every byte of the storage of ``tensor``, uint8, between and outside its elements too; not a copy."""
    storage = tensor.untyped_storage()
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return whole.set_(storage, 0, (storage.nbytes(),), (1,))
