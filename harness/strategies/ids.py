"""Ids that name nothing: what a kernel must neither follow nor count."""

from __future__ import annotations

import torch

from harness.poison import INT32_MAX

INT32_MIN = -(2**31)
#: These become 0, a valid id, when they are narrowed to 32 bits.
WRAPS_TO_ZERO, NEGATIVE_WRAPS_TO_ZERO = 2**32, -(2**32)
WRAPPING = (WRAPS_TO_ZERO, NEGATIVE_WRAPS_TO_ZERO)
ID_DTYPES = (torch.int32, torch.int64)


def invalid_ids(*, limit: int, dtype: torch.dtype = torch.int32) -> tuple[int, ...]:
    """Return ids outside ``[0, limit)`` that fit ``dtype``, the commonest and simplest first."""
    return (-1, limit, limit + 1, INT32_MAX, INT32_MIN, *(WRAPPING if dtype == torch.int64 else ()))
