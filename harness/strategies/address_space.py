"""Memory that is only touched here and there: address space that costs nothing until it is written."""

from __future__ import annotations

import mmap
import sys

import torch

# Python names it from 3.13 on; this is Linux's value on x86-64 and AArch64.
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


def uncommitted(elements: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> torch.Tensor:
    """Return a tensor ``[elements]`` of ``dtype`` whose pages exist once they are written; on a GPU, plain memory.

    A CPU's are zeros, and reserve nothing: an allocation of more than the machine has is refused, and a process that
    holds several is refused a ``fork``; address space without a reservation is neither.
    """
    if torch.device(device).type != "cpu" or elements == 0:
        return torch.empty(elements, dtype=dtype, device=device)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    return torch.frombuffer(mmap.mmap(-1, elements * dtype.itemsize, flags), dtype=torch.uint8).view(dtype)
