"""The caching allocator's memory around a graph: what was allocated outside of its pool, and who writes free memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.graphs.findings import Place, innermost

#: What free memory is filled with; no float or id made of it is in any input.
CANARY = 0xA5
#: Free memory beyond this is left alone.
MOST_BYTES = 2**30
#: The caching allocator's kSmallSize: a larger request is never served from a segment of small blocks, so a larger free
#: block of one can be had in pieces alone.
SMALL_BYTES = 2**20
#: Allocations of one capture that are remembered.
MOST_ENTRIES = 100_000
_NO_POOL = (0, 0)


@dataclass
class Trace:
    """The allocations made inside a ``tracing`` block, known when it ends, in what each lies."""

    allocations: list[tuple[int, int, Place | None, tuple[int, int]]] = field(default_factory=list)
    live: list[tuple[int, int, tuple[int, int]]] = field(default_factory=list)

    def outside(self, pool: tuple[int, int]) -> list[str]:
        """Return what was allocated outside of ``pool``."""
        return [
            f"allocates {size} bytes outside of the graph's pool{_at(place)}: others may get that memory while the "
            "graph uses it"
            for _, size, place, found in self.allocations
            if found != pool
        ]

    def kept(self, pool: tuple[int, int], outputs: list[torch.Tensor]) -> list[str]:
        """Return what of ``pool`` is still allocated and is none of ``outputs``."""
        starts = {tensor.untyped_storage().data_ptr() for tensor in outputs}
        made = {address: place for address, _, place, _ in self.allocations}
        return [
            f"keeps {size} bytes that lie in the pool of the graph{_at(made[address])}: whoever uses them later uses "
            "that graph's memory; allocate them in a first call outside"
            for address, size, found in self.live
            if found == pool and address in made and address not in starts
        ]


def _at(place: Place | None) -> str:
    return "" if place is None else f" ({place})"


@contextmanager
def tracing(device: torch.device) -> Iterator[Trace]:
    """Record every allocation on ``device`` inside the block, with the line that made it."""
    trace = Trace()
    memory: Any = torch.cuda.memory
    memory._record_memory_history("all", context="alloc", stacks="python", max_entries=MOST_ENTRIES, device=device)
    try:
        yield trace
    finally:
        # torch keeps one for each stream that multiplied matrices, and nobody else has it
        torch._C._cuda_clearCublasWorkspaces()
        snapshot = memory._snapshot(device)
        memory._record_memory_history(None, device=device)
    segments = [
        (segment["address"], segment["total_size"], tuple(segment["segment_pool_id"]), segment["blocks"])
        for segment in snapshot["segments"]
    ]

    def pool_of(address: int) -> tuple[int, int]:
        return next((pool for start, size, pool, _ in segments if start <= address < start + size), _NO_POOL)

    for entry in snapshot["device_traces"][_index(device)]:
        frames = [Place(f["filename"], f["line"], f["name"]) for f in entry.get("frames", ())]
        # torch keeps a generator's place in its sequence outside of the pool
        if entry["action"] == "alloc" and all(frame.function != "capture_begin" for frame in frames):
            place = innermost(frames)
            trace.allocations.append((entry["addr"], entry["size"], place, pool_of(entry["addr"])))
    for _, _, pool, blocks in segments:
        for block in blocks:
            if block["state"] == "active_allocated":
                trace.live.append((block["address"], block["requested_size"], pool))


def _free(device: torch.device) -> Iterator[tuple[int, Any]]:
    """Yield size in bytes and stream of every piece of free memory that one request can have."""
    cuda: Any = torch.cuda
    for segment in cuda.memory_snapshot():
        if segment["device"] != _index(device) or tuple(segment["segment_pool_id"]) != _NO_POOL:
            continue
        number = segment["stream"]
        stream = cuda.ExternalStream(number, device) if number else torch.cuda.default_stream(device)
        most = SMALL_BYTES if segment["segment_type"] == "small" else segment["total_size"]
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                for start in range(0, block["size"], most):
                    yield min(most, block["size"] - start), stream


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


class Canaries:
    """All free memory of ``device`` that the caching allocator gives out again, taken and filled.

    What a launch or a replay still writes there is not its own.
    """

    def __init__(self, device: torch.device) -> None:
        self._blocks: list[torch.Tensor] = []
        taken = 0
        # a request may be served from another block than the one that it was made for: until nothing is left
        while pieces := [piece for piece in _free(device) if piece[0] <= MOST_BYTES - taken]:
            for size, stream in pieces:
                if size <= MOST_BYTES - taken:
                    with torch.cuda.stream(stream):
                        filled = torch.full((size,), CANARY, dtype=torch.uint8, device=device)
                    self._blocks.append(filled)
                    taken += size
        torch.cuda.synchronize(device)

    def changed(self) -> str | None:
        """Return what was written since, or None."""
        torch.cuda.synchronize()
        wrong = [(block != CANARY).sum() for block in self._blocks]
        counts = torch.stack(wrong).tolist() if wrong else []
        hit = [(count, block.numel()) for count, block in zip(counts, self._blocks, strict=True) if count]
        if not hit:
            return None
        blocks = ", ".join(f"{count} bytes of a block of {size}" for count, size in hit[:3])
        return f"writes memory that was free when it was replayed and is somebody else's now: {blocks}"


def spoil(device: torch.device) -> None:
    """Fill all free memory of ``device`` and give it back: what was let go of holds nothing that could be used."""
    Canaries(device)
