"""What a tool can judge at all: the cases that it runs on the original, and what it launches there."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.mutation.behind import files
from harness.mutation.judge import Trusted, place
from harness.mutation.plan import Unit


@dataclass(frozen=True, kw_only=True)
class Reach:
    """``units`` are those on which a check of the tool passes on the original, numbered anew; ``trusted`` knows which.

    ``kernels`` are launched there, None where the tool does not tell; ``refused`` maps modules behind other units to
    the tool's words.
    """

    units: list[Unit]
    trusted: Trusted
    kernels: frozenset[str] | None
    refused: dict[str, str]

    @classmethod
    def of(cls, judging: Any, units: Sequence[Unit]) -> Reach:
        """Run all ``units`` on the original."""
        trusted, kept, words = Trusted(), list[Unit](), dict[str, str]()
        for unit in units:
            result = judging.result(unit.contract, unit.implementation, unit.case)
            trusted.add(place(unit), result)
            if trusted.green[place(unit)]:
                kept.append(replace(unit, number=len(kept)))
            else:
                for module in files([unit.implementation]):
                    words.setdefault(module, result.violations[0].message)
            gc.collect()
        run = set(files(unit.implementation for unit in kept))
        kernels = getattr(judging, "kernels", None)
        return cls(
            units=kept,
            trusted=trusted,
            kernels=None if kernels is None else frozenset(kernels),
            refused={module: said for module, said in words.items() if module not in run},
        )

    def refusal(self, module: str) -> str:
        """Return why no mutant of ``module`` can be judged, empty if some can."""
        return self.refused.get(module, "")
