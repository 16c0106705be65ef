"""One fault, as a search reports it: what remains of violations after shrinking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.outcome import Violation


@dataclass(frozen=True)
class Fault:
    """What remains of violations after shrinking: check, features and message of the smallest case found.

    ``case`` is the contract's Case, or a string for an illegal call; ``site`` is its cause, if known.
    """

    check: str
    features: frozenset[str]
    case: Any
    message: str
    site: str = ""

    def explains(self, check: str, features: frozenset[str], site: str = "") -> bool:
        """Whether a violation of ``check`` on a case with ``features``, from ``site``, may be this fault again."""
        return check == self.check and (self.features <= features or (site != "" and site == self.site))


def fault_of(violation: Violation, features: frozenset[str], case: Any) -> Fault:
    """Return the fault that ``violation`` shows on ``case``."""
    return Fault(violation.check, features, case, violation.message, violation.site)
