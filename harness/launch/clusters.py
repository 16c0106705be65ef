"""How many clusters of a compiled kernel are resident at once: the CUDA driver's answer, which knows the GPCs."""

from __future__ import annotations

import ctypes

from harness.launch.residency import Resources

# cuda.h: an attribute of a function, and one of a launch
_MAX_DYNAMIC_SHARED = 8
_CLUSTER_DIMENSION = 4
_WARP = 32
#: Clusters that the driver is asked to launch: more than any device holds.
_MANY = 4096


class _LaunchAttribute(ctypes.Structure):
    """``CUlaunchAttribute``, of whose value three words are used."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16))


class _LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("num_attributes", ctypes.c_uint),
    )


def active_clusters(function: int, cluster: int, resources: Resources, *, library: str = "libcuda.so.1") -> int | None:
    """Return the clusters of ``cluster`` blocks that the current context holds at once, or None without an answer.

    ``function`` is the ``CUfunction`` of the kernel that ``resources`` are of: Triton's ``CompiledKernel.function``.
    None where there is no driver, or one that knows no clusters.  Raises RuntimeError where the driver refuses to
    answer.
    """
    try:
        driver = ctypes.CDLL(library)
        ask = driver.cuOccupancyMaxActiveClusters
    except (OSError, AttributeError):
        return None
    handle = ctypes.c_void_p(function)
    _allow(driver, handle, resources.shared_dynamic)
    dimension = _LaunchAttribute(id=_CLUSTER_DIMENSION, value=(cluster, 1, 1))
    config = _LaunchConfig(
        grid=(cluster * _MANY, 1, 1),
        block=(resources.num_warps * _WARP, 1, 1),
        shared=resources.shared_dynamic,
        attributes=ctypes.pointer(dimension),
        num_attributes=1,
    )
    clusters = ctypes.c_int()
    _check("cuOccupancyMaxActiveClusters", ask(ctypes.byref(clusters), handle, ctypes.byref(config)))
    return clusters.value


def _allow(driver: ctypes.CDLL, handle: ctypes.c_void_p, shared: int) -> None:
    """Let the function have ``shared`` bytes; what it may have already is never made less, for its launches."""
    allowed = ctypes.c_int()
    _check("cuFuncGetAttribute", driver.cuFuncGetAttribute(ctypes.byref(allowed), _MAX_DYNAMIC_SHARED, handle))
    if allowed.value < shared:
        _check("cuFuncSetAttribute", driver.cuFuncSetAttribute(handle, _MAX_DYNAMIC_SHARED, shared))


def _check(name: str, status: int) -> None:
    if status:
        raise RuntimeError(f"{name} returned {status}")
