"""Which streams a capture has taken in: those that wait for it, by stream or by event, until it waits for them."""

from __future__ import annotations

from typing import Any

from harness.sanitize import streams
from harness.sanitize.patches import Patches


class Captured:
    """The streams of one capture; ``forked`` are those that the capturing stream has not waited for since."""

    def __init__(self) -> None:
        self.capturing: Any = None
        self.inside: set[Any] = set()
        self.forked: set[Any] = set()
        self._recorded: dict[int, tuple[Any, Any]] = {}

    def begin(self, stream: Any) -> None:
        """Capture what ``stream`` does from now on."""
        self.end()
        self.capturing = stream
        self.inside = {stream}

    def end(self) -> None:
        """Capture nothing any more."""
        self.capturing = None
        self.inside = set()
        self.forked = set()
        self._recorded = {}

    def install(self, patches: Patches) -> None:
        """Follow what the emulated streams and events wait for."""
        ours = self
        wait_stream, record, wait = streams.Stream.wait_stream, streams.Event.record, streams.Event.wait

        def waits_for(self: Any, stream: Any) -> None:
            wait_stream(self, stream)
            ours._wait(self, stream)

        def waits_for_event(self: Any, event: Any) -> None:
            event.wait(self)

        def recorded(self: Any, stream: Any = None) -> None:
            record(self, stream)
            # the event is kept, so that its number is no other's
            ours._recorded[id(self)] = (stream or streams.current_stream(), self)

        def waited(self: Any, stream: Any = None) -> None:
            wait(self, stream)
            source, _ = ours._recorded.get(id(self), (None, None))
            if source is not None:
                ours._wait(stream or streams.current_stream(), source)

        patches.set(streams.Stream, "wait_stream", waits_for)
        patches.set(streams.Stream, "wait_event", waits_for_event)
        patches.set(streams.Event, "record", recorded)
        patches.set(streams.Event, "wait", waited)

    def _wait(self, waiting: Any, source: Any) -> None:
        if source in self.inside and waiting not in self.inside:
            self.inside.add(waiting)
            self.forked.add(waiting)
        elif waiting in self.inside:
            self.forked.discard(source)
