"""The same launch arguments at other addresses, storage by storage."""

from __future__ import annotations

from typing import Any

import torch

from harness.arguments import tensors, whole_storage
from harness.contract import Inputs


def copied(inputs: Inputs, device: torch.device | None = None) -> Inputs:
    """Return ``inputs`` with every storage copied whole, to ``device`` or on its own.

    Strides, offsets and shared storages stay as they are.
    """
    storages: dict[int, torch.UntypedStorage] = {}
    return {name: _copied(value, storages, device) for name, value in inputs.items()}


def storage_bytes(inputs: Inputs) -> int:
    """Return the bytes of all storages that ``inputs`` refer to, each counted once."""
    found = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors(inputs).values()}
    return sum(storage.nbytes() for storage in found.values())


def _copied(value: Any, storages: dict[int, torch.UntypedStorage], device: torch.device | None) -> Any:
    if isinstance(value, torch.Tensor):
        # that of the storage: an empty view has no data pointer of its own
        address = value.untyped_storage().data_ptr()
        there = value.device if device is None else device
        if address not in storages:
            storages[address] = whole_storage(value).to(there, copy=True).untyped_storage()
        empty = torch.empty(0, dtype=value.dtype, device=there)
        return empty.set_(storages[address], value.storage_offset(), value.shape, value.stride())
    if type(value) in (list, tuple):
        return type(value)(_copied(item, storages, device) for item in value)
    if isinstance(value, dict):
        return {key: _copied(item, storages, device) for key, item in value.items()}
    return value
