"""What a launch leaves changed in its process, found in microseconds, and put back before it spoils another check."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from harness.state import Snapshot, diff, restore, snapshot

#: The states of the ledger that no launch has any business changing, and that are cheap to read.
WATCHED = (
    "environment", "cwd", "sys.path", "recursion limit", "numpy errors", "torch default dtype", "torch default device",
    "torch precision", "torch determinism", "torch autograd", "torch threads",
)  # fmt: skip
SEED = "torch generator"


@dataclass(frozen=True)
class _Known:
    """What stood when the process was last as it should be, in full."""

    mark: tuple[Any, ...]
    values: Snapshot


_known: _Known | None = None


def _mark() -> tuple[Any, ...]:
    """Return what differs wherever something that is watched does; reading all of it in full costs 50 times as much."""
    return (
        # its values, each decoded anew, are two thirds of a whole snapshot's cost
        dict(getattr(os.environ, "_data", os.environ)),
        os.getcwd(),
        tuple(sys.path),
        sys.getrecursionlimit(),
        None if "numpy" not in sys.modules else tuple(sys.modules["numpy"].geterr().values()),
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.backends.cuda.matmul.fp32_precision,
        torch.get_deterministic_debug_mode(),
        torch.backends.cudnn.benchmark,
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_autocast_enabled("cuda"),
        torch.get_num_threads(),
    )


def watched() -> Callable[[], list[tuple[str, str]]]:
    """Return a function to be called after a launch: it undoes what has changed since, and returns what that was.

    Each change is what was changed and a message, such as ``("environment['X']", "environment['X']: unset -> '1'")``.
    A generator that is advanced is no change, one that is seeded anew is.
    """
    global _known
    mark, seed, generator = _mark(), torch.initial_seed(), torch.get_rng_state()
    if _known is None or _known.mark != mark:
        _known = _Known(mark, snapshot(WATCHED))
    before = _known.values

    def changes() -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        if _mark() != mark:
            found += [(change.what, str(change)) for change in diff(before, snapshot(WATCHED))]
            restore(before)
        if torch.initial_seed() != seed:
            found.append((SEED, f"{SEED}: seed {seed} -> {torch.initial_seed()}"))
            torch.set_rng_state(generator)
        return found

    return changes
