"""Which GPUs this process could use, found without touching one: no torch, no context, nothing kept open."""

from __future__ import annotations

import functools
import importlib
import os
from typing import Any

from harness.device import amd, nvidia
from harness.device.machine import Machine

_NVIDIA_NODES = ("/dev/nvidiactl", "/dev/dxg")
#: What decides which devices are visible, and under which index.
_VISIBILITY = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
)  # fmt: skip


def detect() -> Machine:
    """Return the GPUs of this machine that the environment leaves visible.

    Asked once a process and environment: a changed ``CUDA_VISIBLE_DEVICES`` is asked for again.
    """
    return _detect(tuple(os.environ.get(variable) for variable in _VISIBILITY))


@functools.cache
def _detect(environment: tuple[str | None, ...]) -> Machine:
    found, problem = nvidia.devices() if any(os.path.exists(node) for node in _NVIDIA_NODES) else ((), "")
    nvml = _nvml() if found else None
    if nvml is not None:
        found = nvidia.joined(found, nvml)
    return Machine(devices=(*found, *amd.devices()), problem=problem)


def _nvml() -> Any | None:
    """Import NVML's binding, which is optional."""
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return None
