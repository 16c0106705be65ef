"""Seconds on the device, between two events of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def seconds(
    run: Callable[[], object], count: int, *, before: Callable[[], object] | None = None, warm_up: int = 1
) -> list[float]:
    """Return the device's seconds of each of ``count`` calls of ``run``, with ``before`` called outside of them.

    All are queued before the first is waited for, so that the host's pace does not show.
    """
    for _ in range(warm_up):
        run()
    events = [(_event(), _event()) for _ in range(count)]
    for start, end in events:
        if before is not None:
            before()
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [float(start.elapsed_time(end)) / 1e3 for start, end in events]


def _event() -> Any:
    # torch's own class has no types
    made: Callable[..., Any] = torch.cuda.Event
    return made(enable_timing=True)
