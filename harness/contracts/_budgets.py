"""The budget of an output behind which several roundings lie."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from harness.tolerance import Budget, _Sample


@dataclass(frozen=True, kw_only=True)
class RoundedIntermediates(Budget):
    """A ``Budget`` whose magnitude counts the roundings of intermediates, which one oracle run may draw all small.

    Independent roundings average out over the rows of a tensor, so the gain is judged without them.
    """

    def compare(
        self,
        name: str,
        actual: torch.Tensor,
        low: torch.Tensor,
        high: torch.Tensor,
        magnitude: torch.Tensor | None = None,
    ) -> str | None:
        """Return the first broken rule with its first element or row, or None."""
        if error := super().compare(name, actual, low, high, magnitude):
            return error
        return _Sample.of(self, actual, low, high, None).gain_error(name) if actual.numel() else None
