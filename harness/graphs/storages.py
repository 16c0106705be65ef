"""Memory of the emulated device over several launches: who made it, who used it, and whether it is still there."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from harness.graphs.findings import Finding, Place, user_place
from harness.sanitize.places import StorageWeakRef

_storage: Any = torch._C.TensorBase.untyped_storage


def _key(tensor: torch.Tensor) -> int:
    number: int = _storage(tensor)._cdata
    return number


@dataclasses.dataclass
class _Made:
    reference: Any
    nbytes: int
    phase: str
    place: Place | None


class Storages:
    """What each phase made and used.  ``arguments`` are the launch's tensors by name; they are nobody's find."""

    def __init__(self, arguments: Mapping[str, torch.Tensor]) -> None:
        self.phase = "warm-up"
        self._names = {name: _key(tensor) for name, tensor in arguments.items()}
        self._arguments = set(self._names.values())
        self._made: dict[int, _Made] = {}
        self._used: dict[str, dict[int, Place | None]] = {}

    def made(self, tensor: torch.Tensor) -> None:
        """Note a new allocation; the same storage again says nothing."""
        key = _key(tensor)
        if key not in self._made and key not in self._arguments:
            storage = _storage(tensor)
            # the reference keeps the number from being another storage's
            self._made[key] = _Made(StorageWeakRef(storage), storage.nbytes(), self.phase, user_place())

    def used(self, tensors: Iterable[torch.Tensor]) -> None:
        """Note that a kernel or an operation gets ``tensors``."""
        used = self._used.setdefault(self.phase, {})
        for tensor in tensors:
            try:
                key = _key(tensor)
            except RuntimeError:
                # sparse, or a wrapper: it has no storage
                continue
            if key not in used:
                used[key] = user_place()

    def after_capture(self, result: Any) -> Iterator[Finding]:
        """Yield what is wrong with the memory of a captured launch that returned ``result``."""
        outputs = {_key(tensor) for tensor in returned(result)}
        for made in self._still({key: made for key, made in self._made.items() if made.phase == self.phase}, outputs):
            yield Finding(
                "keeps",
                f"allocates {made.nbytes} bytes during capture that outlive the launch: they lie in the pool of that "
                "graph, whoever uses them later; allocate them in a first call outside",
                made.place,
            )
        for key in sorted(outputs & self._made.keys()):
            if self._made[key].phase != self.phase:
                yield Finding(
                    "shares",
                    "an output lies in memory that an earlier launch made: each launch overwrites what others returned",
                    self._made[key].place,
                )
        first, second = self._used.get("warm-up", {}), self._used.get(self.phase, {})
        for name, key in self._names.items():
            if key in first and key not in second:
                yield Finding(
                    "unread",
                    f"reads {name} in the first call and not again: a copy is kept, which a replay reads in its place",
                    first[key],
                )

    def after_others(self) -> Iterator[Finding]:
        """Yield the buffers of the captured launch that launches of other sizes have put others in the place of."""
        used = self._used.get("capture", {})
        for key, place in used.items():
            made = self._made.get(key)
            if made is not None and made.phase == "warm-up" and made.reference.expired():
                yield Finding(
                    "replaces",
                    f"uses a buffer of {made.nbytes} bytes that a launch of another size has released since: a replay "
                    "would use memory that is somebody else's",
                    place,
                )

    @staticmethod
    def _still(made: Mapping[int, _Made], apart: set[int]) -> list[_Made]:
        def alive() -> list[_Made]:
            return [one for key, one in made.items() if key not in apart and not one.reference.expired()]

        if alive():
            gc.collect()
        return alive()


def returned(result: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of what a launch returned: a tensor, or some in tuples, lists, mappings and dataclasses."""
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, Mapping):
        yield from returned(list(result.values()))
    elif isinstance(result, (list, tuple)):
        for member in result:
            yield from returned(member)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        yield from returned([getattr(result, field.name) for field in dataclasses.fields(result)])
