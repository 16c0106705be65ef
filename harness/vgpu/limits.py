"""When a loop counts as a hang."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """When a loop counts as a hang.

    ``spins``: iterations of a ``while`` loop without a change of memory; ``seconds``: in one ``while`` loop; ``steps``:
    iterations of one loop of either kind, in a program.
    """

    spins: int = 20_000
    seconds: float = 60.0
    steps: int = 1 << 24
