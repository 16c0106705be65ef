"""NVIDIA devices: the driver is asked in a child process, NVML adds what it knows of the same UUIDs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from harness.device.machine import Device, DriverFacts

_CHILD = Path(__file__).with_name("_driver_child.py")
_DEADLINE_S = 30.0


@dataclass(frozen=True, kw_only=True)
class NvmlFacts:
    """What NVML says of one device or MIG instance."""

    uuid: str
    mig: bool
    clock_mhz: int | None


def devices(*, library: str = "libcuda.so.1", deadline_s: float = _DEADLINE_S) -> tuple[tuple[Device, ...], str]:
    """Return the devices that the driver ``library`` lets this environment see, or none and the reason.

    The driver numbers them, so ``CUDA_VISIBLE_DEVICES`` and MIG are honoured; the asking process loads no driver.
    """
    try:
        # -I and -S: no site packages and no PYTHON* variables, which may import anything
        child = subprocess.run(
            [sys.executable, "-I", "-S", str(_CHILD), library], capture_output=True, text=True, timeout=deadline_s
        )
    except subprocess.TimeoutExpired:
        return (), f"the CUDA driver did not answer in {deadline_s:g} s"
    if child.returncode < 0:
        return (), f"the CUDA driver ended its caller with {signal.Signals(-child.returncode).name}"
    if child.returncode:
        lines = child.stderr.strip().splitlines()
        return (), lines[-1] if lines else f"the CUDA driver ended its caller with exit status {child.returncode}"
    try:
        answers = json.loads(child.stdout)
        return tuple(_device(index, facts) for index, facts in enumerate(answers)), ""
    except (ValueError, KeyError, TypeError):
        return (), f"the process that asks the CUDA driver answered {child.stdout[:60]!r}"


def _device(index: int, facts: dict[str, Any]) -> Device:
    uuid = facts["uuid"]
    known = {field.name for field in fields(DriverFacts)}
    return Device(
        index=index,
        vendor="cuda",
        arch=f"sm_{facts['major']}{facts['minor']}",
        units=facts["units"],
        name=facts["name"],
        uuid=f"GPU-{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}" if uuid else "",
        driver=DriverFacts(**{name: value for name, value in facts.items() if name in known}),
    )


def joined(found: tuple[Device, ...], nvml: Any) -> tuple[Device, ...]:
    """Return ``found`` with what the module ``nvml`` (``pynvml``) says of the same UUIDs.

    NVML lists the whole machine whatever ``CUDA_VISIBLE_DEVICES`` says, in an order of its own, so nothing but the
    UUID links the two.  A device that NVML does not list, or an NVML that fails, changes nothing.
    """
    facts = {_digits(item.uuid): item for item in _nvml_facts(nvml)}
    return tuple(_with(device, facts.get(_digits(device.uuid))) for device in found)


def _with(device: Device, facts: NvmlFacts | None) -> Device:
    if facts is None or not device.uuid:
        return device
    stated = {field.name: getattr(device, field.name) for field in fields(device)}
    return Device(**{**stated, "uuid": facts.uuid, "mig": facts.mig, "clock_mhz": facts.clock_mhz})


def _digits(uuid: str) -> str:
    """Drop "GPU-", "MIG-" and dashes: the driver gives the 16 bytes alone."""
    return uuid.removeprefix("GPU-").removeprefix("MIG-").replace("-", "").lower()


def _nvml_facts(nvml: Any) -> Iterator[NvmlFacts]:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                clock = _clock(nvml, handle)
                yield NvmlFacts(uuid=nvml.nvmlDeviceGetUUID(handle), mig=False, clock_mhz=clock)
            except nvml.NVMLError:
                # one lost device must not hide the others
                continue
            for instance in _instances(nvml, handle):
                yield NvmlFacts(uuid=nvml.nvmlDeviceGetUUID(instance), mig=True, clock_mhz=clock)
    except nvml.NVMLError:
        return
    finally:
        nvml.nvmlShutdown()


def _clock(nvml: Any, handle: Any) -> int | None:
    try:
        return int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))
    except nvml.NVMLError:
        return None


def _instances(nvml: Any, handle: Any) -> Iterator[Any]:
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError:
        # a device without MIG says "not supported"
        return
    if current != nvml.NVML_DEVICE_MIG_ENABLE:
        return
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError:
            # a slot without an instance
            continue
        yield instance
