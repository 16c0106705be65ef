"""Which GPUs this process could use, found without touching one: no torch, no context, nothing kept open.

NVIDIA devices are asked for in a child process (``cuInit`` and ``cuDeviceGetAttribute`` create no context, but
``cuInit`` fixes ``CUDA_VISIBLE_DEVICES`` for the process that calls it). AMD devices are read from the kernel's
topology files.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.device.targets import Vendor

# Status 100 is CUDA_ERROR_NO_DEVICE, for example because CUDA_VISIBLE_DEVICES is empty.
# Attributes 75, 76 and 16: compute capability major, minor, multiprocessor count (CUDA driver API, CUdevice_attribute).
_CUDA_CHILD = """
import ctypes, json, sys
driver = ctypes.CDLL("libcuda.so.1")
status = driver.cuInit(0)
if status not in (0, 100):
    raise SystemExit(f"cuInit returned {status}")
count, device, value = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
if status == 0:
    driver.cuDeviceGetCount(ctypes.byref(count))
found = []
for index in range(count.value):
    driver.cuDeviceGet(ctypes.byref(device), index)
    facts = []
    for attribute in (75, 76, 16):
        status = driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        if status:
            raise SystemExit(f"cuDeviceGetAttribute({attribute}) returned {status}")
        facts.append(value.value)
    found.append(facts)
sys.stdout.write(json.dumps(found))
"""
_NVIDIA_NODES = ("/dev/nvidiactl", "/dev/dxg")
_KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")
_DEADLINE_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Device:
    """One visible GPU.  ``units`` counts its SMs or CUs."""

    index: int
    vendor: Vendor
    arch: str
    units: int


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What was found; ``problem`` says why a vendor's devices could not be asked, and is empty otherwise."""

    devices: tuple[Device, ...] = ()
    problem: str = ""

    def __str__(self) -> str:
        """Return ``"2 x sm_90"``, ``"no GPU"`` or ``"no GPU (why)"``."""
        if not self.devices:
            return "no GPU" + (f" ({self.problem})" if self.problem else "")
        arches = [device.arch for device in self.devices]
        counts = {arch: arches.count(arch) for arch in arches}
        return ", ".join(arch if count == 1 else f"{count} x {arch}" for arch, count in counts.items())


@functools.cache
def detect() -> Machine:
    """Return the GPUs of this machine that the environment leaves visible; asked once a process."""
    nvidia, problem = _nvidia() if any(os.path.exists(node) for node in _NVIDIA_NODES) else ((), "")
    return Machine(devices=(*nvidia, *_amd(_KFD_NODES)), problem=problem)


def _nvidia() -> tuple[tuple[Device, ...], str]:
    """Ask the driver from a child; returns the devices, or none and the reason."""
    try:
        child = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _CUDA_CHILD], capture_output=True, text=True, timeout=_DEADLINE_S
        )
    except subprocess.TimeoutExpired:
        return (), f"the CUDA driver did not answer in {_DEADLINE_S:.0f} s"
    if child.returncode:
        lines = child.stderr.strip().splitlines()
        return (), lines[-1] if lines else f"the CUDA driver ended its caller with {child.returncode}"
    return tuple(
        Device(index=index, vendor="cuda", arch=f"sm_{major}{minor}", units=units)
        for index, (major, minor, units) in enumerate(json.loads(child.stdout))
    ), ""


def _amd(nodes: Path) -> tuple[Device, ...]:
    """Read the KFD topology under ``nodes``; CPU nodes have no target version."""
    found = []
    for file in sorted(nodes.glob("*/properties"), key=lambda path: int(path.parent.name)):
        facts = {key: value for key, _, value in (line.partition(" ") for line in file.read_text().splitlines())}
        version = int(facts.get("gfx_target_version", 0))
        if version:
            # Decimal major * 10000 + minor * 100 + stepping; names write minor and stepping in hexadecimal.
            arch = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
            found.append((arch, int(facts["simd_count"]) // int(facts["simd_per_cu"])))
    visible = _visible(len(found), "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    return tuple(
        Device(index=index, vendor="rocm", arch=found[node][0], units=found[node][1])
        for index, node in enumerate(visible)
    )


def _visible(count: int, *variables: str) -> list[int]:
    """Apply each variable's list of indices in turn; entries that are not indices (UUIDs) hide nothing."""
    visible = list(range(count))
    for variable in variables:
        value = os.environ.get(variable)
        if value is None:
            continue
        entries = [entry.strip() for entry in value.split(",") if entry.strip()]
        if all(entry.isdecimal() for entry in entries):
            visible = [visible[int(entry)] for entry in entries if int(entry) < len(visible)]
    return visible
