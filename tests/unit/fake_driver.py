"""A CUDA driver that can be described: a shared library with the few entry points that detection may call.

It has no function that creates a context, so whoever tries finds no symbol.
"""

import json
import subprocess
from pathlib import Path

H200 = {
    "major": 9, "minor": 0, "units": 132, "threads_per_unit": 2048, "blocks_per_unit": 32, "registers_per_unit": 65536,
    "registers_per_block": 65536, "threads_per_block": 1024, "shared_per_unit": 233_472, "shared_per_block": 232_448,
    "shared_reserved": 1024, "cooperative_launch": 1, "cluster_launch": 1,
    "memory": 150_754_820_096,
}  # fmt: skip
RTX_PRO_6000 = H200 | {
    "major": 12, "units": 188, "threads_per_unit": 1536, "blocks_per_unit": 24, "shared_per_unit": 102_400,
    "shared_per_block": 101_376, "memory": 102_641_958_912,
}  # fmt: skip
#: A MIG instance, whose SM count is its own.
MIG = H200 | {"units": 16}
_NUMBERS = {
    "major": 75, "minor": 76, "units": 16, "threads_per_unit": 39, "blocks_per_unit": 106, "registers_per_unit": 82,
    "registers_per_block": 12, "threads_per_block": 1, "shared_per_unit": 81, "shared_per_block": 97,
    "shared_reserved": 111, "cooperative_launch": 95, "cluster_launch": 120,
}  # fmt: skip

_SOURCE = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int visible[16], count;
int cuInit(unsigned flags) {
    @INIT@
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; i < @COUNT@; i++) visible[i] = i;
    count = @COUNT@;
    if (list) {
        count = 0;
        for (const char *at = list; *at >= '0' && *at <= '9' && atoi(at) < @COUNT@; at = strchr(at, ',') + 1) {
            visible[count++] = atoi(at);
            if (!strchr(at, ',')) break;
        }
    }
    return count ? 0 : 100;
}
int cuDeviceGetCount(int *n) { *n = count; return 0; }
int cuDeviceGet(int *device, int index) { *device = visible[index]; return index < count ? 0 : 101; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (device * 1000 + attribute) { @ATTRIBUTES@ }
    return 1;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    switch (device) { @MEMORY@ }
    return 1;
}
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "fake", size); return 0; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { memset(uuid, 0xa0 + device, 16); return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)@CONTEXT@; return @INITIALISED@; }
int cuCtxGetDevResource(void *context, int *resource, int kind) {
    resource[0] = kind; resource[24] = @CONTEXT_UNITS@; return kind == 1 ? @RESOURCE_STATUS@ : 1;
}
static int allowed = @ALLOWED@;
int cuFuncGetAttribute(int *value, int attribute, void *function) { *value = allowed; return attribute != 8; }
int cuFuncSetAttribute(void *function, int attribute, int value) { allowed = value; return attribute != 8; }
struct attribute { int id, padding; unsigned value[16]; };
struct config {
    unsigned grid[3], block[3], shared; void *stream; struct attribute *attributes; unsigned count;
};
int cuOccupancyMaxActiveClusters(int *clusters, void *function, struct config *asked) {
    struct attribute *first = asked->attributes;
    if (asked->count != 1 || first->id != 4 || first->value[1] * first->value[2] != 1) return 1;
    if (asked->shared > allowed || asked->grid[0] % first->value[0]) return 2;
    *clusters = (long)function * 1000000 + first->value[0] * 10000 + asked->block[0] * asked->block[1];
    return @CLUSTER_STATUS@;
}
int allowed_shared(void) { return allowed; }
"""


def build(
    folder: Path,
    *,
    devices=(H200,),
    init="",
    context_units: int | None = None,
    initialised: bool = True,
    resource_status: int = 0,
    allowed: int = 49_152,
    cluster_status: int = 0,
) -> str:
    """Compile a driver into ``folder`` and return its path.

    ``devices`` are the attributes of each device, by name; one that is left out is unknown to this driver.  ``init`` is
    C that ``cuInit`` begins with.  ``context_units`` are the SMs of the current context, None for no context.
    ``allowed`` are the bytes of dynamic shared memory that a function may have.
    """
    attributes = "".join(
        f"case {index * 1000 + _NUMBERS[name]}: *value = {value}; return 0;"
        for index, facts in enumerate(devices)
        for name, value in facts.items()
        if name != "memory"
    )
    memory = "".join(
        f"case {index}: *bytes = {facts['memory']}; return 0;"
        for index, facts in enumerate(devices)
        if "memory" in facts
    )
    source = _SOURCE
    for key, value in {
        "INIT": init,
        "COUNT": len(devices),
        "ATTRIBUTES": attributes,
        "MEMORY": memory,
        "CONTEXT": int(context_units is not None),
        "INITIALISED": 0 if initialised else 3,
        "CONTEXT_UNITS": context_units or 0,
        "RESOURCE_STATUS": resource_status,
        "ALLOWED": allowed,
        "CLUSTER_STATUS": cluster_status,
    }.items():
        source = source.replace(f"@{key}@", str(value))
    library = folder / "libcuda.so.1"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-o", str(library), "-"]
    subprocess.run(command, input=source, text=True, check=True)
    return str(library)


def uuid_of(device: int, prefix: str = "GPU") -> str:
    """The UUID of the device that the driver above calls ``device``, as NVML writes it."""
    pair = f"{0xA0 + device:02x}"
    return f"{prefix}-{pair * 4}-{pair * 2}-{pair * 2}-{pair * 2}-{pair * 6}"


class FakeNvml:
    """The functions of ``pynvml`` that detection calls, over ``[(uuid, clock_mhz, [MIG uuid, ...]), ...]``."""

    NVML_CLOCK_SM = 1
    NVML_DEVICE_MIG_ENABLE = 1

    class NVMLError(Exception):
        """What NVML raises."""

    def __init__(self, devices, *, broken=False):
        self._devices = json.loads(json.dumps(devices))
        self._broken = broken
        self.open = 0

    def nvmlInit(self):
        if self._broken:
            raise self.NVMLError("driver not loaded")
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlDeviceGetCount(self):
        return len(self._devices)

    def nvmlDeviceGetHandleByIndex(self, index):
        if self._devices[index] is None:
            raise self.NVMLError("GPU is lost")
        return self._devices[index]

    def nvmlDeviceGetUUID(self, handle):
        return handle[0]

    def nvmlDeviceGetMaxClockInfo(self, handle, kind):
        if handle[1] is None:
            raise self.NVMLError("not supported")
        return handle[1]

    def nvmlDeviceGetMigMode(self, handle):
        if len(handle) < 3:
            raise self.NVMLError("not supported")
        return (1, 1)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):
        if index >= len(handle[2]):
            raise self.NVMLError("no instance")
        return [handle[2][index]]
