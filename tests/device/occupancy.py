"""The CUDA driver's own answers about residency, for kernels made to order; nothing but the driver is needed."""

import ctypes
from contextlib import contextmanager

# As numbered by cuda.h: three attributes of a function, one of a launch, and a CUresult.
_STATIC_SHARED = 1
_REGISTERS = 4
_MAX_DYNAMIC_SHARED = 8
_CLUSTER_DIMENSION = 4
_INVALID_VALUE = 1


def ptx(*, live, barriers, static_shared, target):
    """A kernel that keeps ``live`` values over ``barriers`` barriers and has ``static_shared`` bytes."""
    values = range(live)
    shared = f".shared .align 4 .b8 kept[{static_shared}];" if static_shared else ""
    touch = "st.volatile.shared.u32 [kept], %r0;" if static_shared else ""
    return "\n".join(
        [
            f".version 8.0\n.target {target}\n.address_size 64",
            ".visible .entry kernel(.param .u64 base)\n{",
            f".reg .u64 %base; .reg .b32 %r<{live}>; {shared}",
            "ld.param.u64 %base, [base]; cvta.to.global.u64 %base, %base;",
            *(f"ld.volatile.global.u32 %r{value}, [%base + {4 * value}];" for value in values),
            touch,
            *(f"barrier.sync {number};" for number in range(barriers)),
            *(f"st.volatile.global.u32 [%base + {4 * value}], %r{value};" for value in values),
            "ret;\n}",
        ]
    )


class _Dimensions(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("value", ctypes.c_uint * 16),
    )


class _LaunchConfig(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Dimensions)),
        ("num_attributes", ctypes.c_uint),
    )


class Kernel:
    """A loaded kernel: ``registers`` and ``static_shared`` as the driver states them, and how many blocks it holds.

    ``handle`` is its ``CUfunction``.
    """

    def __init__(self, driver, source):
        module, self._driver, self._function = ctypes.c_void_p(), driver, ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), source.encode())
        self._call("cuModuleGetFunction", ctypes.byref(self._function), module, b"kernel")
        self.handle = self._function.value
        self.registers = self._attribute(_REGISTERS)
        self.static_shared = self._attribute(_STATIC_SHARED)

    def _call(self, name, *arguments):
        status = getattr(self._driver, name)(*arguments)
        assert status == 0, f"{name} returned {status}"

    def _attribute(self, number):
        value = ctypes.c_int()
        self._call("cuFuncGetAttribute", ctypes.byref(value), number, self._function)
        return value.value

    def _allow(self, dynamic_shared):
        status = self._driver.cuFuncSetAttribute(self._function, _MAX_DYNAMIC_SHARED, dynamic_shared)
        assert status in (0, _INVALID_VALUE), f"cuFuncSetAttribute returned {status}"
        return status == 0

    def blocks_per_sm(self, num_warps, dynamic_shared):
        """``cuOccupancyMaxActiveBlocksPerMultiprocessor``; 0 where the driver refuses the shape."""
        if not self._allow(dynamic_shared):
            return 0
        blocks = ctypes.c_int()
        status = self._driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(blocks), self._function, num_warps * 32, ctypes.c_size_t(dynamic_shared)
        )
        assert status in (0, _INVALID_VALUE), f"cuOccupancyMaxActiveBlocksPerMultiprocessor returned {status}"
        return 0 if status else blocks.value

    def active_clusters(self, size, num_warps, dynamic_shared):
        """``cuOccupancyMaxActiveClusters`` for clusters of ``size`` blocks."""
        assert self._allow(dynamic_shared)
        cluster = _Dimensions(id=_CLUSTER_DIMENSION, value=(size, 1, 1))
        config = _LaunchConfig(
            grid=(size * 4096, 1, 1),
            block=(num_warps * 32, 1, 1),
            shared=dynamic_shared,
            attributes=ctypes.pointer(cluster),
            num_attributes=1,
        )
        clusters = ctypes.c_int()
        self._call("cuOccupancyMaxActiveClusters", ctypes.byref(clusters), self._function, ctypes.byref(config))
        return clusters.value


@contextmanager
def retained(index):
    """Device ``index``'s primary context kept alive; yields the driver's library and the context."""
    driver = ctypes.CDLL("libcuda.so.1")
    assert driver.cuInit(0) == 0
    device, context = ctypes.c_int(), ctypes.c_void_p()
    assert driver.cuDeviceGet(ctypes.byref(device), index) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    try:
        yield driver, context
    finally:
        driver.cuDevicePrimaryCtxRelease_v2(device)


@contextmanager
def primary_context(index):
    """The driver with device ``index``'s primary context current; yields the library."""
    before = ctypes.c_void_p()
    with retained(index) as (driver, context):
        assert driver.cuCtxPushCurrent_v2(context) == 0
        yield driver
        assert driver.cuCtxPopCurrent_v2(ctypes.byref(before)) == 0
