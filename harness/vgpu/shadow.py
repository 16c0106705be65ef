"""Which bytes of a tensor anybody wrote, from ``torch.empty`` on."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch.multiprocessing import reductions
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.vgpu.geometry import strided
from harness.vgpu.storage import Region, Storage, Written, view_of, whole

#: Larger storages keep whatever they hold: filling would commit memory that nobody meant to touch.
_LARGEST_FILL = 256 << 20

_EMPTY = {
    "aten::empty",
    "aten::empty_like",
    "aten::empty_permuted",
    "aten::empty_strided",
    "aten::new_empty",
    "aten::new_empty_strided",
}
#: Copies that keep every element where it was, so that unwritten stays unwritten; which argument is copied.
_COPIES = {"aten::clone": 0, "aten::_to_copy": 0, "aten::copy_": 1}


#: A reference to a storage that does not keep it alive; torch gives it no types.
StorageWeakRef: Any = reductions.StorageWeakRef


class Pattern(Protocol):
    """What uninitialised memory holds: a byte, a number for wide floats, an integer for ids."""

    @property
    def byte(self) -> int: ...

    @property
    def value(self) -> float: ...

    @property
    def index(self) -> int: ...


@dataclass(frozen=True)
class Unwritten:
    """Elements of a tensor that nobody wrote: how many of how many, and the index of the first."""

    count: int
    total: int
    first_index: tuple[int, ...]


def fill_(tensor: torch.Tensor, pattern: Pattern) -> None:
    """Overwrite ``tensor`` with a pattern, by its dtype."""
    if tensor.dtype in (torch.int16, torch.int32, torch.int64):
        limits = torch.iinfo(tensor.dtype)
        tensor.fill_(min(max(pattern.index, limits.min), limits.max))
    elif tensor.dtype == torch.bool:
        tensor.fill_(pattern.byte != 0)
    elif tensor.is_floating_point() and tensor.element_size() > 1:
        tensor.fill_(min(pattern.value, torch.finfo(tensor.dtype).max))
    else:
        flat = Storage(tensor.untyped_storage(), None).flat
        strided(flat, view_of(tensor))[...] = pattern.byte


class Shadow:
    """Every storage seen in a session, and which of their bytes were written."""

    def __init__(self, fill: Pattern | None) -> None:
        self._fill = fill
        self._seen: dict[int, tuple[StorageWeakRef, Written | None]] = {}
        self._protected: dict[int, list[tuple[str, torch.Tensor]]] = {}
        self._searched = False

    def protect(self, name: str, tensor: torch.Tensor) -> None:
        """Forbid writes to ``tensor``, which is kept alive."""
        self.see(tensor)
        if tensor.untyped_storage().nbytes():
            self._protected.setdefault(tensor.untyped_storage().data_ptr(), []).append((name, tensor))

    def see(self, tensor: torch.Tensor, written: Written | None = None) -> None:
        """Remember the storage of a CPU tensor; a new one counts as written unless ``written`` is given."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address == 0:
            return
        known = self._seen.get(address)
        if known is None or known[0].expired() or written is not None:
            self._seen[address] = (StorageWeakRef(storage), written)

    def empty(self, tensor: torch.Tensor) -> None:
        """Remember a new tensor whose content nobody wrote, and fill it."""
        nbytes = tensor.untyped_storage().nbytes()
        if nbytes == 0:
            return
        self.see(tensor, Written(nbytes))
        if self._fill is not None and nbytes <= _LARGEST_FILL:
            fill_(tensor, self._fill)

    def written(self, tensor: torch.Tensor) -> Written | None:
        """Return the flags of the storage of ``tensor``, or None if all of it counts as written."""
        known = self._seen.get(tensor.untyped_storage().data_ptr())
        if known is None or known[0].expired():
            return None
        return known[1]

    def storage(self, tensor: torch.Tensor) -> Storage:
        """Return the storage of ``tensor`` for kernels to use."""
        self.see(tensor)
        storage = Storage(tensor.untyped_storage(), self.written(tensor))
        for name, other in self._protected.get(storage.address, ()):
            storage.protected.append((name, view_of(other)))
        return storage

    def at(self, address: int) -> Region | None:
        """Return the whole storage that holds ``address``, if any tensor has one."""
        found = self._at(address)
        if found is None and not self._searched:
            # tensors made before the session, and not passed to any kernel so far
            self._searched = True
            for one in gc.get_objects():
                if issubclass(type(one), torch.Tensor) and _on_cpu(one):
                    self.see(one)
            found = self._at(address)
        return found

    def _at(self, address: int) -> Region | None:
        for start, (reference, written) in self._seen.items():
            if start <= address and not reference.expired():
                storage = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
                if storage is not None and address < start + storage.nbytes():
                    found = Storage(storage, written)
                    for name, other in self._protected.get(start, ()):
                        found.protected.append((name, view_of(other)))
                    return whole("<by address>", found)
        return None

    def mark(self, tensor: torch.Tensor) -> None:
        """Count every element of ``tensor`` as written."""
        flags = self.written(tensor)
        if flags is None:
            return
        view = view_of(tensor)
        if view.dense and view.stop - view.start == flags.flat.size:
            self._forget(tensor)
        else:
            flags.set(view)

    def _forget(self, tensor: torch.Tensor) -> None:
        """Drop the flags of a storage that somebody wrote from end to end."""
        address = tensor.untyped_storage().data_ptr()
        self._seen[address] = (self._seen[address][0], None)

    def _incomplete(self, tensor: torch.Tensor) -> Written | None:
        """Return the flags of the storage of ``tensor`` if some byte of it is unwritten."""
        flags = self.written(tensor)
        if flags is not None and flags.complete:
            self._forget(tensor)
            return None
        return flags

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Count an element of ``target`` as written if the one of ``source`` at the same place was."""
        self.see(target)
        flags = self._incomplete(source)
        ok = None if flags is None else flags.elements(view_of(source))
        if ok is None or ok.all():
            self.mark(target)
            return
        known = self.written(target)
        if known is None:
            known = Written(target.untyped_storage().nbytes())
            known.flat[...] = 1
            self.see(target, known)
        view = view_of(target)
        known.set(view, np.broadcast_to(ok, view.shape))

    def unwritten(self, tensor: torch.Tensor) -> Unwritten | None:
        """Return which elements of ``tensor`` nobody wrote, or None if there are none."""
        flags = self._incomplete(tensor)
        if flags is None or tensor.numel() == 0:
            return None
        ok = flags.elements(view_of(tensor))
        count = int(ok.size - np.count_nonzero(ok))
        if not count:
            return None
        first = np.unravel_index(int(np.argmin(ok)), ok.shape)
        return Unwritten(count, int(ok.size), tuple(int(i) for i in first))


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps a ``Shadow`` up to date with what torch operations allocate and write."""

    def __init__(self, shadow: Shadow) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._shadow = shadow
        #: Whether operations pass unseen; those that a kernel's arithmetic uses are no business of the shadow.
        self.paused = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # the wrapper that the base class would put around us imports all of torch._dynamo, seconds of it
        return False

    def __torch_dispatch__(
        self, func: Any, types: Iterable[Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operation and note its effect on memory."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if self.paused:
            return result
        name = func._schema.name
        if name in _EMPTY:
            if _on_cpu(result):
                self._shadow.empty(result)
            return result
        if name in _COPIES:
            source = args[_COPIES[name]]
            if isinstance(source, torch.Tensor) and _on_cpu(source) and _on_cpu(result):
                self._shadow.copy(result, source)
                return result
        for position, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                given = args[position] if position < len(args) else kwargs.get(argument.name)
                for tensor in tree_leaves(given):
                    if isinstance(tensor, torch.Tensor) and _on_cpu(tensor):
                        self._shadow.mark(tensor)
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and _on_cpu(tensor):
                self._shadow.see(tensor)
        return result


def _on_cpu(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.layout == torch.strided
