"""Values drawn on a device instead of the CPU: gibibytes of them in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


@contextmanager
def drawn_on(device: torch.device) -> Iterator[None]:
    """Let tensors that name no device be on ``device``, and generators of the CPU draw there.

    For code that makes generators with seeds of their own.  The values are others than a CPU's, the same each time on
    one kind of device.
    """
    with device, _Generators(device):
        yield


class _Generators(TorchFunctionMode):
    """Replaces each generator by one on the device that starts at the same seed and goes on where it was."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        # the generators themselves too, so that no number is given to another one meanwhile
        self._known: dict[int, tuple[torch.Generator, torch.Generator]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        given = kwargs.get("generator")
        if given is not None and given.device.type == "cpu" and self._draws_here(args, kwargs):
            kwargs["generator"] = self._twin(given)
        return func(*args, **kwargs)

    def _draws_here(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether the values would be on the device: of a tensor there, or of a new tensor."""
        if "device" in kwargs:
            return torch.device(kwargs["device"]).type == self._device.type
        return not args or not isinstance(args[0], torch.Tensor) or args[0].device.type == self._device.type

    def _twin(self, given: torch.Generator) -> torch.Generator:
        if id(given) not in self._known:
            twin = torch.Generator(self._device).manual_seed(given.initial_seed())
            self._known[id(given)] = given, twin
        return self._known[id(given)][1]
