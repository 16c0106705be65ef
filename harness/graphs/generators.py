"""What a capture forbids of random numbers: it keeps the seed of the device's generator, and knows no other one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.sanitize.generators import Generator, is_on_device
from harness.sanitize.patches import Patches

_ANEW = "seeds a generator of the device, whose seed a capture keeps"


def is_unknown(generator: Any, default: Generator) -> bool:
    """Whether ``generator`` is one of the device's that no graph has registered, as it has the ``default`` one."""
    return generator is not None and is_on_device(generator) and generator._cdata != default._cdata


def watch(patches: Patches, add: Callable[[str], object]) -> None:
    """Call ``add`` with what is wrong wherever a generator of the device is made or gets another seed."""
    manual_seed, seed, begin = Generator.manual_seed, Generator.seed, Generator.__init__

    def seeded(generator: Generator, value: int) -> Any:
        # the seed that it has already is allowed
        if is_on_device(generator) and int(value) != generator.initial_seed():
            add(_ANEW)
        return manual_seed(generator, value)

    def reseeded(generator: Generator) -> int:
        if is_on_device(generator):
            add(_ANEW)
        return seed(generator)

    def made(generator: Generator, device: Any = "cpu") -> None:
        if is_on_device(generator):
            add("makes a generator of the device, which cannot be done during capture")
        begin(generator, device)

    patches.set(Generator, "manual_seed", seeded)
    patches.set(Generator, "seed", reseeded)
    patches.set(Generator, "__init__", made)
