"""AMD devices, read from the kernel driver's topology files; no library is loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.device.limits import AMD
from harness.device.machine import Device

KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


def devices(nodes: Path = KFD_NODES, environment: Mapping[str, str] = os.environ) -> tuple[Device, ...]:
    """Return the GPUs under ``nodes`` that ``environment`` leaves visible, in the order that HIP numbers them.

    Each partition (SPX, DPX, CPX) of a device is a node of its own and has the part's units.  Nodes that cannot be read
    are left out: a container shows the files of devices that it may not use.
    """
    found = []
    for file in sorted(nodes.glob("*/properties"), key=lambda path: int(path.parent.name)):
        facts = _properties(file)
        version = int(facts.get("gfx_target_version", 0))
        if version:
            found.append(_device(version, facts))
    # HIP reads CUDA_VISIBLE_DEVICES where its own variable is not set.
    hip = "HIP_VISIBLE_DEVICES" if "HIP_VISIBLE_DEVICES" in environment else "CUDA_VISIBLE_DEVICES"
    for variable in ("ROCR_VISIBLE_DEVICES", hip):
        if variable in environment:
            found = _visible(found, environment[variable])
    return tuple(
        Device(index=index, vendor="rocm", arch=device.arch, units=device.units, uuid=device.uuid)
        for index, device in enumerate(found)
    )


def _properties(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(" ") for line in lines)}


def _device(version: int, facts: Mapping[str, str]) -> Device:
    # Decimal major * 10000 + minor * 100 + stepping; names write minor and stepping in hexadecimal.
    arch = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
    # The table's number of SIMDs is that of what a workgroup shares (a WGP on gfx1100); KFD's is that of a CU.
    simds = AMD[arch].simds if arch in AMD else int(facts["simd_per_cu"])
    unique = int(facts.get("unique_id", 0))
    return Device(
        index=0,
        vendor="rocm",
        arch=arch,
        units=int(facts["simd_count"]) // simds,
        uuid=f"GPU-{unique:016x}" if unique else "",
    )


def _visible(found: Sequence[Device], value: str) -> list[Device]:
    """Apply one variable's list of indices and UUIDs; like the runtimes, stop at the first that names no device."""
    visible = []
    for entry in (part.strip() for part in value.split(",")):
        if entry.isdecimal() and int(entry) < len(found):
            visible.append(found[int(entry)])
        else:
            named = [device for device in found if device.uuid and device.uuid.lower() == entry.lower()]
            if not named:
                break
            visible += named
    return visible
