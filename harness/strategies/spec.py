"""The base of every drawn description: a frozen dataclass whose repr is short and evaluates back to it."""

from __future__ import annotations

import hashlib
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypothesis.vendor.pretty import RepresentationPrinter


class Spec:
    """Mixin for ``@dataclass(frozen=True, kw_only=True, repr=False)`` that leaves defaults out of the repr.

    What is left in a printed, shrunk case is therefore what matters to the failure.
    """

    def __repr__(self) -> str:
        shown = []
        for item in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, item.name)
            default = item.default if item.default_factory is MISSING else item.default_factory()
            if default is MISSING or value != default:
                shown.append(f"{item.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        # Hypothesis prints dataclasses field by field unless the class says otherwise
        printer.text(repr(self))


def derived_seed(seed: int, name: str) -> int:
    """Return a seed for the tensor called ``name``, so that tensors of one case do not repeat each other's values."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=7).digest()
    return int.from_bytes(digest, "little")


def require(condition: bool, argument: str, wanted: str, got: object) -> None:
    """Raise ValueError naming ``argument``, what was wanted and what came, unless ``condition`` holds."""
    if not condition:
        raise ValueError(f"{argument}: wanted {wanted}, got {got!r}")
