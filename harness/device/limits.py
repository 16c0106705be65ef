"""What one SM, CU or WGP can hold, by architecture: the numbers that decide how many blocks are resident."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class NvidiaLimits:
    """Limits of one SM.  Shared memory in bytes, registers in 32-bit words, everything else in pieces.

    ``shared_per_block`` is the most a kernel may ask for (static and dynamic together, opted in);
    ``shared_reserved`` comes on top of it for each block.  ``barriers`` is None where the hardware barriers of a
    block never limit residency.  ``tensor_memory_columns`` is 0 where there is no tensor memory.
    """

    warps: int
    blocks: int
    shared: int
    shared_per_block: int
    barriers: int | None
    tensor_memory_columns: int = 0
    # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": the same from 8.0 to 12.1
    threads_per_block: int = 1024
    registers: int = 65536
    registers_per_block: int = 65536
    registers_per_thread: int = 255
    warp_size: int = 32
    # cuda_occupancy.h of CUDA 13.5: register allocation granularity (a warp), sub-partitions, shared granularity
    register_unit: int = 256
    sub_partitions: int = 4
    shared_unit: int = 128
    # CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK; measured on sm_90, equal in cuda_occupancy.h's examples
    shared_reserved: int = 1024


@dataclass(frozen=True, kw_only=True)
class AmdLimits:
    """Limits of what the waves of one workgroup share: a CU on CDNA and gfx1250, a WGP (two CUs) on gfx1100.

    ``vgprs`` are per lane and SIMD, ``sgprs`` per SIMD and None where they never limit; ``lds`` is in bytes.
    ``workgroups`` bounds workgroups of two or more waves, which need a hardware barrier.
    """

    simds: int
    waves_per_simd: int
    vgprs: int
    vgpr_unit: int
    vgprs_per_thread: int
    wave_size: int
    lds: int
    lds_per_workgroup: int
    lds_unit: int
    workgroups: int
    sgprs: int | None = None
    sgpr_unit: int = 16
    # The trap handler's, which LLVM counts in its occupancy remark.
    sgprs_reserved: int = 16
    threads_per_workgroup: int = 1024


Limits = NvidiaLimits | AmdLimits

# Threads, blocks and shared memory: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
# Barriers: cuda_occupancy.h of CUDA 13.5, which counts them from compute capability 9.0 on (two a block slot on 9.0
# and 10.0, one on 10.3 and 12.x; the header of CUDA 13.0 still gives 10.3 two, and the smaller number is safe).
# Tensor memory: PTX ISA, "Tensor Memory": 512 columns an SM, taken by tcgen05.alloc and not counted by the driver.
NVIDIA: dict[str, NvidiaLimits] = {
    "sm_80": NvidiaLimits(warps=64, blocks=32, shared=167_936, shared_per_block=166_912, barriers=None),
    "sm_86": NvidiaLimits(warps=48, blocks=16, shared=102_400, shared_per_block=101_376, barriers=None),
    "sm_89": NvidiaLimits(warps=48, blocks=24, shared=102_400, shared_per_block=101_376, barriers=None),
    # Equal to the driver's answers on an H200.
    "sm_90": NvidiaLimits(warps=64, blocks=32, shared=233_472, shared_per_block=232_448, barriers=64),
    "sm_100": NvidiaLimits(
        warps=64, blocks=32, shared=233_472, shared_per_block=232_448, barriers=64, tensor_memory_columns=512
    ),
    "sm_103": NvidiaLimits(
        warps=64, blocks=32, shared=233_472, shared_per_block=232_448, barriers=32, tensor_memory_columns=512
    ),
    "sm_120": NvidiaLimits(warps=48, blocks=24, shared=102_400, shared_per_block=101_376, barriers=24),
    "sm_121": NvidiaLimits(warps=48, blocks=24, shared=102_400, shared_per_block=101_376, barriers=24),
}

# Waves, VGPRs and their units, SGPRs: LLVM's AMDGPUBaseInfo.cpp; the resulting waves a SIMD equal the occupancy remarks
# of 26 Triton kernels on gfx942, gfx950 and gfx1250.  Workgroups: getMaxWorkGroupsPerCU there, 16, and 32 where a
# workgroup has a WGP; for gfx1250 16 is the smaller reading.  LDS units are the blocks that LLVM encodes sizes in.
# No figure here was compared with an AMD device.
AMD: dict[str, AmdLimits] = {
    "gfx942": AmdLimits(
        simds=4, waves_per_simd=8, vgprs=512, vgpr_unit=8, vgprs_per_thread=512, sgprs=800, wave_size=64,
        lds=65_536, lds_per_workgroup=65_536, lds_unit=512, workgroups=16,
    ),
    "gfx950": AmdLimits(
        simds=4, waves_per_simd=8, vgprs=512, vgpr_unit=8, vgprs_per_thread=512, sgprs=800, wave_size=64,
        lds=163_840, lds_per_workgroup=163_840, lds_unit=1280, workgroups=16,
    ),
    # HIP divides 65,536 bytes of LDS even where a workgroup has a WGP, which has twice that: the smaller is safe.
    "gfx1100": AmdLimits(
        simds=4, waves_per_simd=16, vgprs=1536, vgpr_unit=24, vgprs_per_thread=256, wave_size=32,
        lds=65_536, lds_per_workgroup=65_536, lds_unit=512, workgroups=32,
    ),
    "gfx1250": AmdLimits(
        simds=4, waves_per_simd=16, vgprs=1024, vgpr_unit=16, vgprs_per_thread=1024, wave_size=32,
        lds=327_680, lds_per_workgroup=327_680, lds_unit=2048, workgroups=16,
    ),
}  # fmt: skip
