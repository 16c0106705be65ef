"""Launches that write to their arguments: each call gets copies of those, which are outputs afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch

from harness.arguments import WHOLE_STORAGE_BYTES
from harness.compare import bits, breaking
from harness.contract import Inputs


@dataclass(frozen=True)
class InPlace:
    """What a launch returned, and its copies of the arguments that it may write to, by name."""

    result: Any
    written: dict[str, torch.Tensor]

    def outside(self, inputs: Inputs) -> list[str]:
        """Return a message for each argument of ``inputs`` whose copy changed outside of the view that was given."""
        messages = []
        for name, copy in self.written.items():
            given = inputs[name]
            if not _copied_whole(given):
                continue
            before, after = _whole(given), _whole(copy)
            bad = bits(before) != bits(after)
            bad.as_strided(given.shape, given.stride(), given.storage_offset()).fill_(False)
            if error := breaking(name, bad, after, before, "elements outside the view untouched"):
                messages.append(error)
        return messages


def on_copies(launch: Callable[..., Any], names: Sequence[str]) -> Callable[..., InPlace]:
    """Return ``launch`` with the arguments ``names`` copied for each call: strides, offset and gaps are the same.

    Of a storage above 64 MiB the view alone is copied.  What is no tensor is handed on, for ``launch`` to refuse.
    """

    @wraps(launch)
    def run(**inputs: Any) -> InPlace:
        written = {name: _copy(inputs[name]) for name in names if isinstance(inputs.get(name), torch.Tensor)}
        return InPlace(launch(**{**inputs, **written}), written)

    return run


def returned(result: Any, outputs: tuple[str, ...]) -> tuple[dict[str, torch.Tensor], tuple[str, ...], Any]:
    """Return the outputs that are arguments, the names of the others, and what was returned for those.

    An argument that was written and is no output may hold anything.  One that is returned too counts once.
    """
    if not isinstance(result, InPlace):
        return {}, outputs, result
    written = {name: tensor for name, tensor in result.written.items() if name in outputs}
    rest = tuple(name for name in outputs if name not in written)
    own = result.result

    def is_written(value: Any) -> bool:
        return any(value is tensor for tensor in result.written.values())

    if isinstance(own, list | tuple):
        own = tuple(value for value in own if not is_written(value))
    elif own is None or is_written(own):
        own = ()
    return written, rest, own


def _copied_whole(tensor: torch.Tensor) -> bool:
    return tensor.untyped_storage().nbytes() <= WHOLE_STORAGE_BYTES


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """Every element of the storage of ``tensor``, in order; not a copy."""
    return tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    if _copied_whole(tensor):
        return _whole(tensor).clone().as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)
