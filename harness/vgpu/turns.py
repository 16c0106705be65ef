"""What programs that take turns, or would have to, say about themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.vgpu.clocks import Clock
from harness.vgpu.storage import Region


@dataclass
class Activity:
    """What one set of programs did: changes of memory, accesses that synchronise, and since when it has its turn."""

    changes: int = 0
    synchronised: int = 0
    since: float = 0.0
    #: What a single program knows of the others, while races are looked for.
    clock: Clock | None = None


class Sight:
    """What an atomic or volatile access to a single element saw."""

    def __init__(self, region: Region, offset: int, value: Any) -> None:
        self.key = (region.storage.address, offset)
        self._region = region
        self._offset = offset
        self._value = value

    def __str__(self) -> str:
        index = self._region.view.index(self._offset)
        return f"{self._region.name}[{', '.join(map(str, index))}] = {self._value}"


class Interleave(Exception):
    """Programs that run in step must take turns instead: what they do depends on each other."""


class Crowd(Exception):
    """More programs run in step than the device holds, and they wait for each other."""


class Overflow(Exception):
    """Programs that run in step changed more than can be kept for undoing."""
