"""How workers share a machine's memory, and how many there are where ``--gpu-workers`` says ``auto``; without torch."""

from __future__ import annotations

import os

from harness.device import Machine

#: Share of a device's memory that one case may take.
SHARE = 0.6
#: Share that all cases together may take; the rest is for tests that do not ask, and for fragments.
TOGETHER = 0.8
#: Bytes of a device's memory for a worker's context, and for its small cases.
WORKER = 1.5 * 2**30
#: Bytes of the host's memory for a worker: 15 of them ran the suites of ``kernels/`` in 128 GiB.
HOST_BYTES = 8 * 2**30
#: More share a GPU's work no further: they wait for the longest test.
MOST = 16
#: Workers on a GPU whose memory the driver does not state.
UNSTATED = 4


def size(machine: Machine, *, cores: int | None = None, host_bytes: int | None = None) -> int:
    """Return how many workers ``machine`` has room for: one a core, but one core; 1 without a GPU.

    As many as the host's memory holds and the smallest GPU's, where workers may take what the largest case leaves.
    ``cores`` and ``host_bytes`` are by default what this process may use and what the machine has.
    """
    if not machine.devices:
        return 1
    cores = len(os.sched_getaffinity(0)) if cores is None else cores
    host_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if host_bytes is None else host_bytes
    stated = [device.driver.memory for device in machine.devices if device.driver and device.driver.memory]
    on_device = int((TOGETHER - SHARE) * min(stated) / WORKER) if stated else UNSTATED
    return max(1, min(cores - 1, host_bytes // HOST_BYTES, on_device, MOST))
