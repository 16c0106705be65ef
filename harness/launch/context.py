"""How many SMs the current CUDA context may use: a green context and a MIG instance have fewer than the device."""

from __future__ import annotations

import ctypes

_SUCCESS = 0
_SM_RESOURCE = 1  # CU_DEV_RESOURCE_TYPE_SM
_MULTIPROCESSOR_COUNT = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT


class _DevResource(ctypes.Structure):
    """``CUdevResource`` (cuda.h, ABI version 1), with room for what later versions append."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("padding", ctypes.c_ubyte * 92),
        ("sm_count", ctypes.c_uint),
        ("rest", ctypes.c_ubyte * 156),
    )


def context_units(*, library: str = "libcuda.so.1") -> int | None:
    """Return the SMs of the calling thread's current CUDA context, or None where it has none.

    Creates no context and does not initialise the driver: a process without a context gets None.  Ask inside the
    context that launches, each time, and pass the answer to ``barrier_safe_grid(num_sms=...)``: device properties give
    the whole device's number even there.  A driver before CUDA 12.4, which has no green contexts, is asked for the
    device's.  Raises RuntimeError where the driver has a context and refuses to answer.
    """
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return None
    context = ctypes.c_void_p()
    # CUDA_ERROR_NOT_INITIALIZED where nobody called cuInit
    if driver.cuCtxGetCurrent(ctypes.byref(context)) != _SUCCESS or not context.value:
        return None
    if not hasattr(driver, "cuCtxGetDevResource"):
        return _of_the_device(driver)
    resource = _DevResource()
    status = driver.cuCtxGetDevResource(context, ctypes.byref(resource), _SM_RESOURCE)
    if status != _SUCCESS:
        raise RuntimeError(f"cuCtxGetDevResource returned {status} for the current context")
    return int(resource.sm_count)


def _of_the_device(driver: ctypes.CDLL) -> int:
    device, units = ctypes.c_int(), ctypes.c_int()
    for name, arguments in (
        ("cuCtxGetDevice", (ctypes.byref(device),)),
        ("cuDeviceGetAttribute", (ctypes.byref(units), _MULTIPROCESSOR_COUNT, device)),
    ):
        if (status := getattr(driver, name)(*arguments)) != _SUCCESS:
            raise RuntimeError(f"{name} returned {status} for the current context")
    return units.value
