"""The emulated device's random numbers: a stream of their own, apart from the CPU's.

The numbers are those of the CPU's generator, not of the hardware's Philox: seeds reproduce, values differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import torch

from harness.sanitize.places import CPU, CUDA, Place, device_of

_RealGenerator = torch._C.Generator
_RealKind: Any = type(_RealGenerator)


#: Generators of the device by address: torch hands a mode a new object for the same generator.
_DEVICE_GENERATORS: WeakValueDictionary[int, Any] = WeakValueDictionary()


class _Kind(_RealKind):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        # torch's own default generator is a generator too
        return isinstance(instance, _RealGenerator)


class Generator(_RealGenerator, metaclass=_Kind):
    """``torch.Generator`` for either device."""

    _on_device: bool
    _cdata: int

    def __new__(cls, device: Any = "cpu") -> Generator:
        found = device_of(device)
        on_device = found == CUDA
        made = super().__new__(cls, CPU if on_device else found)  # type: ignore[call-arg]
        made._on_device = on_device
        if on_device:
            _DEVICE_GENERATORS[made._cdata] = made
        return made

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device that was asked for."""
        return CUDA if self._on_device else CPU


def is_on_device(generator: Any) -> bool:
    """Whether ``generator``, ours or what torch hands a mode for it, is the device's."""
    return generator._cdata in _DEVICE_GENERATORS


class Random:
    """The state of the emulated device's default generator."""

    def __init__(self) -> None:
        self.generator = Generator(CUDA)

    def check(self, generator: Any, place: Place) -> None:
        """Raise RuntimeError if ``generator`` is another device's than the tensor that is to be drawn."""
        if generator is None or place is Place.EITHER:
            return
        wanted = "cuda" if place is Place.DEVICE else "cpu"
        found = "cuda" if is_on_device(generator) else "cpu"
        if wanted != found:
            raise RuntimeError(f"Expected a '{wanted}' device type for generator but found '{found}'")

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Let the CPU's default generator continue the device's stream inside the block."""
        default = torch.default_generator
        outer = default.get_state()
        default.set_state(self.generator.get_state())
        try:
            yield
        finally:
            self.generator.set_state(default.get_state())
            default.set_state(outer)
