"""Run as a script: asks the CUDA driver about its devices and writes one JSON list to standard output.

``cuInit`` and ``cuDeviceGetAttribute`` create no context, but ``cuInit`` fixes ``CUDA_VISIBLE_DEVICES`` for its process
and a broken driver may end it: hence a process of its own.  Only the standard library is imported.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

# CUresult
_SUCCESS = 0
_NO_DEVICE = 100
# CUdevice_attribute (cuda.h).  A driver that is older than an attribute refuses it; the first three are in all.
_REQUIRED = {"major": 75, "minor": 76, "units": 16}
_OPTIONAL = {
    "threads_per_unit": 39,
    "blocks_per_unit": 106,
    "registers_per_unit": 82,
    "registers_per_block": 12,
    "threads_per_block": 1,
    "shared_per_unit": 81,
    "shared_per_block": 97,
    "shared_reserved": 111,
    "cooperative_launch": 95,
    "cluster_launch": 120,
}


def _attributes(driver: ctypes.CDLL, device: ctypes.c_int) -> dict[str, int | None]:
    value = ctypes.c_int()
    found: dict[str, int | None] = {}
    for name, number in {**_REQUIRED, **_OPTIONAL}.items():
        status = driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        if status != _SUCCESS and name in _REQUIRED:
            raise SystemExit(f"cuDeviceGetAttribute({number}) returned {status}")
        found[name] = value.value if status == _SUCCESS else None
    return found


def ask(library: str) -> list[dict[str, Any]]:
    """Return one mapping a visible device; ends the process with a sentence where the driver does not answer."""
    try:
        driver = ctypes.CDLL(library)
    except OSError as error:
        raise SystemExit(f"no CUDA driver library: {error}") from None
    status = driver.cuInit(0)
    if status == _NO_DEVICE:
        return []
    if status != _SUCCESS:
        raise SystemExit(f"cuInit returned {status}")
    count, device = ctypes.c_int(), ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    found: list[dict[str, Any]] = []
    for index in range(count.value):
        driver.cuDeviceGet(ctypes.byref(device), index)
        facts: dict[str, Any] = dict(_attributes(driver, device))
        name, uuid = ctypes.create_string_buffer(256), (ctypes.c_ubyte * 16)()
        driver.cuDeviceGetName(name, len(name), device)
        total = ctypes.c_size_t()
        status = driver.cuDeviceTotalMem_v2(ctypes.byref(total), device)
        facts["memory"] = total.value if status == _SUCCESS else None
        get_uuid = getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid
        facts["uuid"] = bytes(uuid).hex() if get_uuid(ctypes.byref(uuid), device) == _SUCCESS else ""
        facts["name"] = name.value.decode(errors="replace")
        found.append(facts)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(ask(sys.argv[1])))
