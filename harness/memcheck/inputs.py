"""Launch arguments on a device, each storage an allocation of its own size, all of it written."""

from __future__ import annotations

import torch

from harness.contract import Inputs
from harness.copies import copied
from harness.memcheck.stream import TOO_LARGE

#: A case whose arguments hold more stays away: a tool instruments every access, and pools are as large as they get.
MOST_BYTES = 64 * 2**20


def moved(inputs: Inputs, device: torch.device) -> Inputs:
    """Return ``inputs``, built on the CPU, on ``device``, with the same strides, offsets and shared storages.

    They are built on the CPU because what builds them is not under test: its kernels would cost time under a tool,
    and report.  Whole storages are copied, so that no byte of an input counts as uninitialised.
    """
    return copied(inputs, device)


def too_large(size: int) -> str:
    """Return why arguments of ``size`` bytes stay away: what they take, and what there is for them under a tool."""
    return f"{TOO_LARGE}{size / 2**20:.1f} MiB, under a tool there are {MOST_BYTES / 2**20:.1f} MiB"
