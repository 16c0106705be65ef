"""``torch.cuda.Stream`` and ``Event``: work is done when it is asked for, in the order of the program.

That order is one that every correct program allows, so a result is right; a missing wait between streams is not seen.
"""

from __future__ import annotations

import itertools
import threading
import time
from types import TracebackType
from typing import Any

from harness.sanitize.errors import unsupported
from harness.sanitize.places import CUDA, device_of

_numbers = itertools.count(1)


class Stream:
    """A name for an order of work.  ``cuda_stream`` is 0 for the default stream, else unique."""

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        if options.pop("external", None) or options.pop("stream_ptr", None):
            unsupported("torch.cuda.Stream(stream_ptr=...)")
        self.device = device_of(device) or CUDA
        self.priority = priority
        self.cuda_stream = next(_numbers)

    @property
    def stream_id(self) -> int:
        """Number of the stream."""
        return self.cuda_stream

    device_index = 0
    device_type = 1

    def query(self) -> bool:
        """Whether all work is done: always."""
        return True

    def synchronize(self) -> None:
        """Wait for nothing."""

    def wait_event(self, event: Event) -> None:
        """Order after an event: it has happened."""

    def wait_stream(self, stream: Stream) -> None:
        """Order after another stream: its work is done."""

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, a new one if none is given."""
        made = event or Event()
        made.record(self)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __enter__(self) -> Stream:
        _state.stack.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _state.stack.pop()

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A point in time, on this machine's clock."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        if interprocess:
            unsupported("torch.cuda.Event(interprocess=True)")
        self._timing = enable_timing
        self._at: float | None = None
        self.device = CUDA

    def record(self, stream: Stream | None = None) -> None:
        """Take the time."""
        self._at = time.perf_counter()

    def query(self) -> bool:
        """Whether the event has happened: always."""
        return True

    def synchronize(self) -> None:
        """Wait for nothing."""

    def wait(self, stream: Stream | None = None) -> None:
        """Order a stream after this event: it has happened."""

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this event to ``end_event``; raises ValueError as torch does."""
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end_event._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        # the clock may not have moved, and programs divide by this
        return max((end_event._at - self._at) * 1000, 1e-6)


class _State(threading.local):
    def __init__(self) -> None:
        default = Stream()
        default.cuda_stream = 0
        self.default = default
        self.stack: list[Stream] = [default]


_state = _State()


class StreamContext:
    """``torch.cuda.stream(stream)``; None leaves the stream as it is."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        _state.stack.append(self.stream or _state.stack[-1])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _state.stack.pop()


def current_stream(device: Any = None) -> Stream:
    """Return the stream that this thread works on."""
    device_of(device)
    return _state.stack[-1]


def default_stream(device: Any = None) -> Stream:
    """Return the default stream."""
    device_of(device)
    return _state.default


def set_stream(stream: Stream | None) -> None:
    """Work on ``stream`` from now on."""
    if stream is not None:
        _state.stack[-1] = stream
