"""What the device can do, measured in the same run, and the floor that follows for a workload."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import torch

from harness.bench.events import seconds
from harness.contract import Work

_COPY_BYTES = 2 * 2**30
_MATMUL = 8192
_RUNS = 15


@dataclass(frozen=True, kw_only=True)
class Rates:
    """``copy``: bytes read and written a second by a large copy on the device; ``matmul``: bf16 FLOPs a second."""

    copy: float
    matmul: float

    def floor(self, work: Work) -> float:
        """Return seconds that no implementation can be much faster than: the larger of moving and computing."""
        return max(work.bytes / self.copy, work.flops / self.matmul)

    def bound(self, work: Work) -> str:
        """Return which of the two the floor is: ``"memory"`` or ``"compute"``."""
        return "memory" if work.bytes / self.copy >= work.flops / self.matmul else "compute"


def measured(device: torch.device) -> Rates:
    """Measure both: a copy of 2 GiB, and a product of random 8192 x 8192 matrices, which zeros would speed up."""
    rates = Rates(copy=_copy(device), matmul=_matmul(device))
    torch.cuda.empty_cache()
    return rates


def _copy(device: torch.device) -> float:
    source = torch.empty(_COPY_BYTES, dtype=torch.uint8, device=device).random_()
    target = torch.empty_like(source)
    return 2 * _COPY_BYTES / statistics.median(seconds(lambda: target.copy_(source), _RUNS, warm_up=3))


def _matmul(device: torch.device) -> float:
    left, right = (torch.randn(_MATMUL, _MATMUL, dtype=torch.bfloat16, device=device) for _ in range(2))
    return 2 * _MATMUL**3 / statistics.median(seconds(lambda: left @ right, _RUNS, warm_up=3))
