"""The same launch arguments at other addresses, storage by storage."""

from __future__ import annotations

from typing import Any

import torch

from harness.arguments import tensors, whole_storage
from harness.contract import Inputs

#: Bytes to which torch aligns the storages that it allocates on a CPU.
ALIGNED = 64


def copied(inputs: Inputs, device: torch.device | None = None) -> Inputs:
    """Return ``inputs`` with every storage copied whole, to ``device`` or on its own.

    Strides, offsets and shared storages stay as they are.
    """
    storages: dict[int, torch.UntypedStorage] = {}
    return {name: _copied(value, storages, device) for name, value in inputs.items()}


def is_copied(inputs: Inputs) -> bool:
    """Whether ``copied`` gives arguments that share no state with ``inputs``: plain tensors, numbers, names, dtypes."""
    return all(map(_is_copied, inputs.values()))


def storage_bytes(inputs: Inputs) -> int:
    """Return the bytes of all storages that ``inputs`` refer to, each counted once."""
    found = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors(inputs).values()}
    return sum(storage.nbytes() for storage in found.values())


def _is_copied(value: Any) -> bool:
    kind = type(value)
    if kind is torch.Tensor:
        return _is_plain(value)
    if kind in (list, tuple):
        return all(map(_is_copied, value))
    if kind is dict:
        return all(map(_is_copied, value.values()))
    return value is None or kind in (bool, int, float, str, torch.dtype, torch.Size)


def _is_plain(tensor: torch.Tensor) -> bool:
    if tensor.layout is not torch.strided or tensor.requires_grad or tensor.is_conj() or tensor.is_neg():
        return False
    # another address is one that somebody chose
    return tensor.untyped_storage().data_ptr() % ALIGNED == 0


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
