"""What a GPU says of itself while it is timed: clocks, temperature, power, and why it is slowed down."""

from __future__ import annotations

import importlib
import subprocess
from typing import Any

#: Bits of NVML's clocks event reasons -> name.  Idle (1) and application clocks (2) slow nothing that is at work.
REASONS = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
}
_QUERY = {
    "sm_mhz": "clocks.sm",
    "memory_mhz": "clocks.mem",
    "celsius": "temperature.gpu",
    "watts": "power.draw",
    "reasons": "clocks_throttle_reasons.active",
}
_DEADLINE_S = 10.0

Reading = dict[str, Any]


def reading(uuid: str) -> Reading:
    """Return ``sm_mhz``, ``memory_mhz``, ``celsius``, ``watts`` and ``throttled``, names of reasons, of one GPU.

    Asked of NVML where its binding is installed, else of ``nvidia-smi`` in a child; empty where neither answers.
    """
    return _from_nvml(uuid) or _from_smi(uuid)


def _from_nvml(uuid: str) -> Reading:
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:
        # missing, or without a driver: NVML's own exceptions are named in the module that is missing
        return {}
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        asked = reasons or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        return {
            "sm_mhz": int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            "memory_mhz": int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            "celsius": int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            "watts": round(nvml.nvmlDeviceGetPowerUsage(handle) / 1e3, 1),
            "throttled": named(int(asked(handle))),
        }
    except nvml.NVMLError:
        return {}
    finally:
        nvml.nvmlShutdown()


def _from_smi(uuid: str) -> Reading:
    command = [
        "nvidia-smi",
        f"--query-gpu={','.join(_QUERY.values())}",
        "--format=csv,noheader,nounits",
        f"--id={uuid}",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return parsed(done.stdout) if done.returncode == 0 else {}


def parsed(line: str) -> Reading:
    """Return a reading from one line of ``nvidia-smi``; a value that it does not know is left out."""
    values = dict(zip(_QUERY, (part.strip() for part in line.strip().split(",")), strict=False))
    found: Reading = {}
    for name, text in values.items():
        try:
            if name == "reasons":
                found["throttled"] = named(int(text, 16))
            else:
                found[name] = float(text) if name == "watts" else int(text)
        except ValueError:
            continue
    return found


def named(bits: int) -> list[str]:
    """Return the names of the reasons in ``bits``."""
    return [name for bit, name in REASONS.items() if bits & bit]
