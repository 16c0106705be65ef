"""Memory of a device around a launch: new memory filled, arguments too large to copy summed up."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.arguments import VIEW_BYTES, tensors, whole_storage
from harness.contract import Inputs
from harness.poison import Pattern, Poison

_CHUNK_WORDS = 2**24

_NEW = frozenset(
    f"aten::{name}" for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
)  # fmt: skip


class Filled(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, memory that torch allocates without content on a ``device`` of this type holds a pattern.

    ``pattern``: by dtype, as in ``Poison``; an int is one byte, repeated, whatever the dtype.
    """

    def __init__(self, device: torch.device, pattern: Pattern | int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device = device
        self._pattern = pattern

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # the wrapper that the base class would put around us imports all of torch._dynamo, seconds of it
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func._schema.name in _NEW and made.device.type == self._device.type and made.numel():
            if isinstance(self._pattern, int):
                whole_storage(made).fill_(self._pattern)
            else:
                Poison(self._pattern).fill_(made, "new memory")
        return made


def digests(inputs: Inputs) -> dict[str, int]:
    """Return a sum over the storage of every argument that is too large for a copy to compare (``Snapshot``).

    A tensor on ``meta``, which an illegal call may be made with, has no content.  Each 8 bytes count with an odd weight
    of their own, modulo 2^64: one change is always seen.
    """
    return {
        path: _digest(whole_storage(tensor))
        for path, tensor in tensors(inputs).items()
        if tensor.numel() * tensor.element_size() > VIEW_BYTES and not tensor.is_meta
    }


def _digest(content: torch.Tensor) -> int:
    words = content[: content.numel() // 8 * 8].view(torch.int64)
    weights = torch.arange(1, 2 * min(_CHUNK_WORDS, words.numel()), 2, device=words.device)
    total = torch.zeros((), dtype=torch.int64, device=words.device)
    for number, chunk in enumerate(words.split(_CHUNK_WORDS)):  # type: ignore[no-untyped-call]
        total += (chunk * (weights[: chunk.numel()] + 2 * number * _CHUNK_WORDS)).sum()
    return int(total + content[words.numel() * 8 :].sum())
