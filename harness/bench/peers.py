"""Somebody else's implementations of a contract, timed in the same run: how many times as long as ours they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.bench.store import Entry, Key
from harness.contract import Implementation

_ADAPTERS = "harness.adapters."
#: Our own implementation by PyTorch's operators, where a contract has one, is something to beat as well.
_TORCH = "torch"


def is_peer(implementation: Implementation) -> bool:
    """Whether ``implementation`` comes from an adapter, so that what it does wrong or slowly is not ours."""
    return str(getattr(implementation.launch, "__module__", "")).startswith(_ADAPTERS)


def ratios(entries: Mapping[Key, Entry]) -> dict[str, str]:
    """Return ``"56 x sglang-slot, 3.1 x torch"`` by name of a benchmark of ours: peers' medians over its own.

    A benchmark that has no peer beside it is left out.
    """
    return {
        entry.name: ", ".join(f"{times(other.median / entry.median)} x {other.key[1]}" for other in others)
        for entry, others in beside(entries)
        if others
    }


def beside(entries: Mapping[Key, Entry]) -> Iterator[tuple[Entry, list[Entry]]]:
    """Yield every benchmark of ours, and peers' of the same case and timing."""
    for key, entry in entries.items():
        contract, _, case, timing = key
        if _beaten(entry):
            continue
        yield (
            entry,
            [
                other
                for other in entries.values()
                if (other.key[0], other.key[2], other.key[3]) == (contract, case, timing) and _beaten(other)
            ],
        )


def _beaten(entry: Entry) -> bool:
    return entry.peer or entry.key[1] == _TORCH


def times(ratio: float) -> str:
    """Return how many times as long something takes, with two digits below ten."""
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"
