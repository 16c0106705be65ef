"""Failures that are known, owned by an issue, and reported as soon as they are gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Known:
    """Cases on which ``check`` is known to fail.

    ``tolerated``: the case still runs; a matching failure does not count, and a run in which every
    matching case passed is STALE, which fails.  ``quarantine``: matching cases do not run at all (for
    hangs and crashes).  ``issue`` is required: ``"#41"`` or a URL.
    """

    match: Callable[[Any], bool]
    issue: str
    check: str = "*"
    kind: Literal["tolerated", "quarantine"] = "tolerated"

    def __post_init__(self) -> None:
        if not self.issue.strip():
            raise ValueError("a known failure needs an issue reference, such as '#41'")
