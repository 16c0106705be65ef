"""The devices, the driver and the versions of the libraries that a run used; nothing here makes a CUDA context."""

from __future__ import annotations

import importlib
import platform
import re
import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.device import detect
from harness.receipts.record import Device

UNKNOWN = "unknown"
_DRIVER = Path("/proc/driver/nvidia/version")
_SECONDS = 30.0


def devices() -> tuple[Device, ...]:
    """Return the GPUs that this environment leaves visible."""
    return tuple(
        Device(name=device.name, arch=device.arch, units=device.units, index=device.index, uuid=device.uuid)
        for device in detect().devices
    )


def driver() -> str:
    """Return the version of NVIDIA's driver, ``"unknown"`` where neither the kernel nor ``nvidia-smi`` says it."""
    return _first(_kernel_module, _smi)


def versions() -> dict[str, str]:
    """Return the versions of Python, torch, Triton, the assembler that Triton calls, pytest and the harness."""
    found = {"python": platform.python_version(), "ptxas": _first(_ptxas)}
    for name in ("torch", "triton", "pytest", "kernel-harness"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = UNKNOWN
    return found


def _first(*ways: Callable[[], str | None]) -> str:
    for way in ways:
        try:
            answer = way()
        except (OSError, subprocess.SubprocessError, ImportError, AttributeError, RuntimeError):
            continue
        if answer:
            return answer
    return UNKNOWN


def _kernel_module() -> str | None:
    # the open one is "Open Kernel Module for x86_64": the version is what has a number of three digits and a point
    found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", _DRIVER.read_text())
    return found and found[0]


def _smi() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=True, timeout=_SECONDS).stdout
    return answer.split("\n")[0].strip()


def _ptxas() -> str:
    knobs = importlib.import_module("triton.knobs")
    return str(knobs.nvidia.ptxas.version)
