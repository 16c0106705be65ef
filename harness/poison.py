"""Bytes for everything whose content must not matter, and a record of where they were put."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class Pattern:
    """One kind of junk: a byte for storage and packed formats, a number for floats, a number for ids."""

    name: str
    byte: int
    value: float
    index: int


#: 0x00 decodes to zero in every format used here, so a dependence on it shows only against the others.
QUIET = Pattern("quiet", 0x00, 0.0, 0)
#: 0xFF is NaN in e4m3, e5m2, e8m0 and, doubled, in bfloat16; ids point far outside.
NAN = Pattern("nan", 0xFF, float("nan"), INT32_MAX)
#: 0x7B is finite in every 8-bit format and near the top of both E4M3 and E5M2, where 0x7E is already NaN; doubled
#: it is 1.3e36 as bfloat16; ids are the usual "nowhere".
HUGE = Pattern("huge", 0x7B, 3.0e38, -1)
PATTERNS = (QUIET, NAN, HUGE)


@dataclass
class Poison:
    """Fills don't-care regions with one pattern.

    ``inputs()`` of a contract calls ``fill_`` for each region with a short name of what it is
    (``"page padding"``, ``"unrouted experts"``).  With ``only`` set, just that region gets ``pattern``
    and all others stay quiet: this is how a failure is traced to one region.
    """

    pattern: Pattern = QUIET
    only: str | None = None
    regions: set[str] = field(default_factory=set)

    def pattern_for(self, region: str) -> Pattern:
        """Return the pattern of ``region`` and remember that it exists."""
        self.regions.add(region)
        return self.pattern if self.only in (None, region) else QUIET

    def fill_(self, tensor: torch.Tensor, region: str) -> torch.Tensor:
        """Overwrite every element of ``tensor`` (a view of an input): bytes, floats or ids by its dtype."""
        import torch

        pattern = self.pattern_for(region)
        if tensor.dtype in (torch.int32, torch.int64, torch.int16):
            return tensor.fill_(max(pattern.index, torch.iinfo(tensor.dtype).min))
        if tensor.is_floating_point() and tensor.element_size() > 1:
            return tensor.fill_(min(pattern.value, torch.finfo(tensor.dtype).max))
        tensor.view(torch.uint8).fill_(pattern.byte)
        return tensor
