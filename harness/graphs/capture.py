"""A launch recorded in a CUDA graph on a GPU, with the reason where it cannot be."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from harness.contract import Inputs
from harness.graphs.findings import raising_place
from harness.sanitize.patches import Patches


class CaptureFault(RuntimeError):
    """A launch that cannot be captured; the message says what it did and where."""


@dataclass(frozen=True)
class Captured:
    """A graph and what the launch in it returned, which every replay writes anew.  ``pool`` is its memory pool."""

    graph: torch.cuda.CUDAGraph
    result: Any
    pool: tuple[int, int]


def capture(
    launch: Callable[..., Any], inputs: Inputs, *, stream: torch.cuda.Stream, pool: tuple[int, int] | None = None
) -> Captured:
    """Capture ``launch(**inputs)`` on ``stream``, not the default one, into ``pool``, or into a pool of its own.

    A kernel that would be compiled or tuned is stopped.  After a failure the device can be used as before, unless CUDA
    itself says otherwise.  Raises CaptureFault if the launch raises or CUDA refuses what it does.
    """
    own: Any = pool or torch.cuda.graph_pool_handle()
    graph = torch.cuda.CUDAGraph()
    result: Any = None
    error: Exception | None = None
    stream.wait_stream(torch.cuda.current_stream(stream.device))
    with torch.cuda.stream(stream), _nothing_compiled(), warnings.catch_warnings():
        # a launch with nothing to do makes an empty graph
        warnings.filterwarnings("ignore", "The CUDA Graph is empty")
        graph.capture_begin(pool=own, capture_error_mode="global")
        try:
            result = launch(**inputs)
        except Exception as raised:
            error = raised
        try:
            graph.capture_end()
        except Exception as raised:
            _give_up(stream, own)
            error = error or raised
    torch.cuda.current_stream(stream.device).wait_stream(stream)
    if error is not None:
        raise CaptureFault(_said(error)) from error
    return Captured(graph, result, own)


def _said(error: Exception) -> str:
    """Return where the launch did it, and the first line of what was said about it: CUDA adds a page of advice."""
    kind = "" if isinstance(error, CaptureFault) else f"{type(error).__name__}: "
    first = str(error).partition("\n")[0]
    place = raising_place(error)
    return f"{place}: {kind}{first}" if place else f"{kind}{first}"


def _give_up(stream: torch.cuda.Stream, pool: tuple[int, int]) -> None:
    """Undo what a capture that CUDA ended leaves behind: a pool that takes allocations, a generator in capture."""
    index = torch.cuda.current_device()
    for leave in (torch._C._cuda_endAllocateToPool, torch._C._cuda_releasePool):
        with contextlib.suppress(RuntimeError):
            leave(index, pool)
    again = torch.cuda.CUDAGraph()
    scratch = torch.zeros(1, device=stream.device)
    again.capture_begin(capture_error_mode="global")
    scratch.add_(1)
    again.capture_end()
    again.reset()


@contextmanager
def _nothing_compiled() -> Iterator[None]:
    """Raise CaptureFault where Triton would compile or tune a kernel inside the block."""
    runtime = importlib.import_module("triton.knobs").runtime
    autotuner = importlib.import_module("triton.runtime.autotuner").Autotuner

    def compiles(**about: Any) -> Any:
        name = getattr(about.get("fn"), "name", None) or "a kernel"
        raise CaptureFault(f"{name} is compiled during capture, for something that no call outside launched it with")

    def tunes(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise CaptureFault(f"{self.base_fn.__name__} is tuned during capture, for a key that no call outside had")

    patches = Patches()
    patches.set(autotuner, "_bench", tunes)
    patches.set(runtime, "jit_cache_hook", compiles)
    try:
        yield
    finally:
        patches.restore()
