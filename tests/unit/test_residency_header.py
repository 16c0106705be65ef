"""Residency against NVIDIA's own ``cuda_occupancy.h``, which ships with Triton, on drawn shapes."""

import ctypes
import importlib.util
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.device.capabilities import installed_triton
from harness.device.limits import NVIDIA
from harness.launch import Resources, resident_blocks

SHAPES = 1500
SOURCE = r"""
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include "cuda_occupancy.h"
int blocks(int major, int minor, int threads, int shared_sm, int optin,
           int regs, int bars, int warps, int dyn, int st) {
    cudaOccDeviceProp device; cudaOccFuncAttributes kernel; cudaOccDeviceState state; cudaOccResult found;
    memset(&device, 0, sizeof device); memset(&kernel, 0, sizeof kernel); memset(&state, 0, sizeof state);
    device.computeMajor = major; device.computeMinor = minor; device.warpSize = 32; device.numSms = 1;
    device.maxThreadsPerBlock = 1024; device.maxThreadsPerMultiprocessor = threads;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536; device.sharedMemPerBlock = 49152;
    device.sharedMemPerMultiprocessor = shared_sm; device.sharedMemPerBlockOptin = optin;
    device.reservedSharedMemPerBlock = 1024;
    kernel.maxThreadsPerBlock = 1024; kernel.numRegs = regs; kernel.sharedSizeBytes = st;
    kernel.maxDynamicSharedSizeBytes = dyn; kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.numBlockBarriers = bars; state.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&found, &device, &kernel, &state, warps * 32, dyn)) return -1;
    return found.activeBlocksPerMultiprocessor;
}
"""


def header_folder():
    # found without importing Triton, which takes seconds
    root = Path(importlib.util.find_spec("triton").origin).parent
    return root / "backends" / "nvidia" / "include"


@pytest.fixture(scope="module")
def header(tmp_path_factory):
    library = tmp_path_factory.mktemp("occupancy") / "occupancy.so"
    command = ["cc", "-shared", "-fPIC", "-w", "-x", "c", f"-I{header_folder()}", "-o", str(library), "-"]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    return ctypes.CDLL(str(library)).blocks


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler, found none")
@pytest.mark.parametrize("arch", NVIDIA)
def test_residency_equals_nvidias_header(header, arch):
    limits = NVIDIA[arch]
    major, minor = divmod(int(arch.removeprefix("sm_")), 10)
    if header(major, minor, 1024, 102_400, 101_376, 32, 1, 1, 0, 0) < 0:
        # the header of Triton 3.6 is older than these two
        assert arch in ("sm_103", "sm_121")
        assert installed_triton() == (3, 6)
        return
    chance = random.Random(arch)
    different = []
    for _ in range(SHAPES):
        block = Resources(
            num_warps=chance.choice([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 33]),
            registers=chance.randint(8, 255),
            shared_dynamic=chance.choice([0, 4, chance.randint(0, 12_000), chance.randint(0, 240_000)]),
            shared_static=chance.choice([0, 0, chance.randint(0, 48_000)]),
            # the header counts twice as many barriers on 10.3 until CUDA 13.5, and ours are the fewer
            barriers=1 if arch == "sm_103" else chance.choice([0, 1, 2, 3, 7, 16]),
        )
        shape = (block.registers, block.barriers, block.num_warps, block.shared_dynamic, block.shared_static)
        expected = header(major, minor, limits.warps * 32, limits.shared, limits.shared_per_block, *shape)
        found = resident_blocks(block, limits).blocks_per_sm
        if found != expected:
            different.append((block, found, expected))
    assert different == []
