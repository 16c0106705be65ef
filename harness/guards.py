"""Whether a launch on the CPU is where the same launch on a device would find the tensors' device current.

A kernel is launched on the current device, not on that of its tensors.  On the CPU ``torch.cuda.device_of(tensor)``
changes nothing, but it can be seen: inside such a block the tensors' device would be current, outside it need not be.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

import torch

_LOCK = threading.Lock()
#: How many look; for as long as anybody does, the class `torch.cuda.device` and what it has of its own.
_looking = 0
_class: Any = None
_own: dict[str, Any] = {}


class _Thread(threading.local):
    """The device that each block which a thread is in makes current, outermost first; below 0: that of a CPU tensor."""

    def __init__(self) -> None:
        self.blocks: list[int] = []


_thread = _Thread()


class Guards:
    """While it is entered, `inside` says whether this thread is in a block that makes CPU tensors' device current.

    Such blocks are ``torch.cuda.device_of`` and ``torch.cuda.device``, entered after this was.  The innermost counts.
    """

    def __enter__(self) -> Guards:
        """Begin to look; several may, also in several threads."""
        global _looking
        with _LOCK:
            if not _looking:
                _patch()
            _looking += 1
        self._outside = len(_thread.blocks)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave `torch.cuda.device` as it was."""
        global _looking
        del _thread.blocks[self._outside :]
        with _LOCK:
            _looking -= 1
            if not _looking:
                for name, function in _own.items():
                    setattr(_class, name, function)

    @property
    def inside(self) -> bool:
        """Whether a launch here would find the tensors' device current."""
        blocks = _thread.blocks[self._outside :]
        return bool(blocks) and blocks[-1] < 0


def _patch() -> None:
    global _class
    # an emulated device has a class of its own in this place for a while
    _class = torch.cuda.device
    _own.update({name: _class.__dict__[name] for name in ("__enter__", "__exit__")})
    enter, leave = _own["__enter__"], _own["__exit__"]

    def entered(self: Any) -> Any:
        result = enter(self)
        _thread.blocks.append(self.idx)
        return result

    def left(self: Any, *error: Any) -> Any:
        if _thread.blocks:
            _thread.blocks.pop()
        return leave(self, *error)

    _class.__enter__, _class.__exit__ = entered, left
