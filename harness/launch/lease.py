"""One kernel with a grid barrier in flight on a device: two that each fit can wait for each other's SMs for ever."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from harness.launch.physical import Physical, device_index, source

# A waiting thread looks again after this long. It is not woken: an interrupt inside Condition or Event can leave their
# lock taken for good, while a lock's own `with` cannot be interrupted between taking it and entering the block.
_LOOK_AGAIN_S = 0.005


class LeaseError(RuntimeError):
    """The lease cannot be given to this thread, now or later."""


class LeaseTimeout(LeaseError, TimeoutError):
    """Another thread kept the lease for longer than the caller would wait."""


@dataclass(eq=False, repr=False)
class Lease:
    """The right to launch, held by one thread; says what a later launch has to wait for."""

    _slot: _Slot
    _kernel: str
    _thread: threading.Thread = field(default_factory=threading.current_thread)
    _since: float = field(default_factory=time.monotonic)

    def until(self, wait: Callable[[], object]) -> None:
        """Keep later holders behind ``wait``, which they call in their own thread before their block begins.

        A launch returns before its kernel has ended, so leaving the block is not the end of it. Give
        ``event.wait`` of an event recorded after the launch (their stream waits, the host does not) or
        ``event.synchronize``. Without it the kernel counts as ended with the block. If ``wait`` raises, the holder
        gets the exception and the next one is kept behind it too.
        """
        self._slot.pending = wait

    def __repr__(self) -> str:
        kernel = f" for {self._kernel}" if self._kernel else ""
        return f"held by thread {self._thread.name!r}{kernel} for {time.monotonic() - self._since:.1f} s"


class _Slot:
    def __init__(self) -> None:
        self.holder: Lease | None = None
        self.pending: Callable[[], object] | None = None


_slots: weakref.WeakKeyDictionary[Physical, dict[int, _Slot]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


@contextmanager
def launch_lease(device: Any = None, *, kernel: str = "", timeout_s: float = 60.0) -> Iterator[Lease]:
    """Hold the only right to have a kernel with a grid barrier in flight on ``device``, among this process's threads.

    ``kernel`` is a name for other threads' messages. Waits up to ``timeout_s`` seconds for another thread to leave,
    then raises LeaseTimeout, which says who holds it. Raises LeaseError at once if this thread holds it already (it
    would wait for itself), ValueError unless ``timeout_s`` is above 0. Launches by other processes and replays of
    captured graphs do not pass here and are not seen.
    """
    if not timeout_s > 0:
        raise ValueError(f"timeout_s: want seconds above 0, got {timeout_s!r}")
    index = device_index(device)
    with _lock:
        slot = _slots.setdefault(source(), {}).setdefault(index, _Slot())
    lease = Lease(slot, kernel)
    try:
        _acquire(slot, lease, f"launch lease of device {index}", timeout_s)
        if slot.pending is not None:
            slot.pending()
            slot.pending = None
        yield lease
    finally:
        if slot.holder is lease:
            slot.holder = None


def lease_holders() -> dict[int, Lease]:
    """Return device number -> the lease that is held on it, for the devices of the source in force here."""
    with _lock:
        slots = dict(_slots.get(source(), {}))
    return {index: slot.holder for index, slot in slots.items() if slot.holder is not None}


def _acquire(slot: _Slot, lease: Lease, what: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        with _lock:
            holder = slot.holder
            if holder is None:
                slot.holder = lease
                return
        if holder._thread is threading.current_thread():
            raise LeaseError(f"{what}: this thread holds it already ({holder})")
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise LeaseTimeout(f"{what}: waited {timeout_s:g} s, {holder}")
        time.sleep(min(remaining, _LOOK_AGAIN_S))
