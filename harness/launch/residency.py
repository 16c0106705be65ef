"""How many blocks of a compiled kernel one SM, CU or WGP holds at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.device.limits import AmdLimits, Limits, NvidiaLimits

#: Stands for "this resource does not limit": more blocks than any unit holds.
UNLIMITED = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one block of a compiled kernel takes.

    ``registers`` is per thread: 32-bit registers on NVIDIA, VGPRs (arch and accumulation together) on AMD.
    ``num_warps`` counts warps, or waves of the target's size.  ``shared_dynamic`` and ``shared_static`` are bytes of
    shared memory or LDS, without the driver's reserve.  ``barriers`` are hardware barriers, at least 1 for a block that
    synchronises.  ``sgprs`` matters on CDNA, ``tensor_memory_columns`` on sm_100 and sm_103.  ``cluster_size`` is
    ``num_ctas``.  Raises ValueError for a negative figure, and for no warps or an empty cluster.
    """

    num_warps: int
    registers: int
    shared_dynamic: int = 0
    shared_static: int = 0
    barriers: int = 1
    sgprs: int = 0
    tensor_memory_columns: int = 0
    cluster_size: int = 1

    def __post_init__(self) -> None:
        for name, least in (
            ("num_warps", 1),
            ("registers", 0),
            ("shared_dynamic", 0),
            ("shared_static", 0),
            ("barriers", 0),
            ("sgprs", 0),
            ("tensor_memory_columns", 0),
            ("cluster_size", 1),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: wanted at least {least}, got {getattr(self, name)}")

    @property
    def shared(self) -> int:
        """Static and dynamic bytes together."""
        return self.shared_dynamic + self.shared_static


@dataclass(frozen=True, kw_only=True)
class Residency:
    """How many blocks one unit holds, and why not more.

    ``limiter`` is the key of ``by_limit`` that allows the fewest blocks, the first of several.  ``detail`` says what a
    block takes of it and what there is.
    """

    blocks_per_sm: int
    limiter: str
    detail: str
    by_limit: Mapping[str, int] = field(default_factory=dict, hash=False)


def resident_blocks(resources: Resources, limits: Limits) -> Residency:
    """Return how many blocks with ``resources`` one unit with ``limits`` holds; 0 where not even one fits.

    NVIDIA: the rules of ``cuda_occupancy.h`` (CUDA 13.5) and, beyond it, tensor memory.  AMD: LLVM's waves a SIMD and
    HIP's blocks a CU, the smaller where the two differ; not compared with a device.
    """
    found = _nvidia(resources, limits) if isinstance(limits, NvidiaLimits) else _amd(resources, limits)
    limiter = min(found, key=lambda name: found[name][0])
    blocks, detail = found[limiter]
    return Residency(
        blocks_per_sm=blocks,
        limiter=limiter,
        detail=detail,
        by_limit={name: most for name, (most, _) in found.items()},
    )


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _nvidia(resources: Resources, limits: NvidiaLimits) -> dict[str, tuple[int, str]]:
    warps = resources.num_warps
    threads = warps * limits.warp_size
    fits = threads <= limits.threads_per_block
    found = {
        "warps": (
            limits.warps // warps if fits else 0,
            f"{warps} of {limits.warps} warps"
            if fits
            else f"{threads} threads, a block may have {limits.threads_per_block}",
        ),
        "registers": _nvidia_registers(resources, limits),
        "shared": _nvidia_shared(resources, limits),
        "blocks": (limits.blocks, f"{limits.blocks} block slots"),
    }
    if limits.barriers is not None and resources.barriers:
        found["barriers"] = (
            limits.barriers // resources.barriers,
            f"{resources.barriers} of {limits.barriers} hardware barriers",
        )
    if resources.tensor_memory_columns:
        # tcgen05.alloc waits while other blocks hold the columns, so a block that lacks them never reaches a barrier
        found["tensor_memory"] = (
            limits.tensor_memory_columns // resources.tensor_memory_columns,
            f"{resources.tensor_memory_columns} of {limits.tensor_memory_columns} tensor memory columns",
        )
    return found


def _nvidia_registers(resources: Resources, limits: NvidiaLimits) -> tuple[int, str]:
    if not resources.registers:
        return UNLIMITED, "no registers"
    a_thread = f"{resources.registers} registers a thread"
    if resources.registers > limits.registers_per_thread:
        return 0, f"{a_thread}, a thread may have {limits.registers_per_thread}"
    a_warp = _up(resources.registers * limits.warp_size, limits.register_unit)
    # the launch check counts as if the warps filled every sub-partition alike
    checked = a_warp * _up(resources.num_warps, limits.sub_partitions)
    if checked > limits.registers_per_block:
        return 0, f"{a_thread}: {checked} a block, a block may have {limits.registers_per_block}"
    # a warp takes its registers in one sub-partition, so what is left over in each is lost
    warps = limits.registers // limits.sub_partitions // a_warp * limits.sub_partitions
    return warps // resources.num_warps, f"{a_thread}: {warps} warps of {a_warp} in {limits.registers}"


def _nvidia_shared(resources: Resources, limits: NvidiaLimits) -> tuple[int, str]:
    taken = _up(resources.shared + limits.shared_reserved, limits.shared_unit)
    if taken > limits.shared_per_block + limits.shared_reserved:
        return 0, f"{resources.shared} bytes of shared memory, a block may have {limits.shared_per_block}"
    return limits.shared // taken, f"{taken} of {limits.shared} bytes of shared memory, the driver's reserve included"


def _amd(resources: Resources, limits: AmdLimits) -> dict[str, tuple[int, str]]:
    warps = resources.num_warps
    threads = warps * limits.wave_size
    if threads > limits.threads_per_workgroup:
        return {"waves": (0, f"{threads} threads, a workgroup may have {limits.threads_per_workgroup}")}
    found = {
        "waves": (
            _workgroups(limits.waves_per_simd, warps, limits.simds),
            f"{warps} waves on {limits.simds} SIMDs of {limits.waves_per_simd}",
        ),
        "registers": _amd_registers(
            "VGPRs", max(1, resources.registers), limits.vgprs, limits.vgpr_unit, limits.vgprs_per_thread, warps, limits
        ),
    }
    if limits.sgprs is not None:
        taken = resources.sgprs + limits.sgprs_reserved
        found["sgprs"] = _amd_registers("SGPRs", taken, limits.sgprs, limits.sgpr_unit, limits.sgprs, warps, limits)
    if resources.shared > limits.lds_per_workgroup:
        found["shared"] = (0, f"{resources.shared} bytes of LDS, a workgroup may have {limits.lds_per_workgroup}")
    elif resources.shared:
        taken = _up(resources.shared, limits.lds_unit)
        found["shared"] = (limits.lds // taken, f"{taken} of {limits.lds} bytes of LDS")
    if warps > 1:
        found["barriers"] = (limits.workgroups, f"{limits.workgroups} workgroups of several waves")
    return found


def _amd_registers(
    what: str, taken: int, of: int, unit: int, most: int, warps: int, limits: AmdLimits
) -> tuple[int, str]:
    if taken > most:
        return 0, f"{taken} {what} a wave, a wave may have {most}"
    waves = of // _up(taken, unit)
    return _workgroups(waves, warps, limits.simds), f"{taken} {what} a wave: {waves} waves a SIMD"


def _workgroups(waves: int, warps: int, simds: int) -> int:
    """Return how many workgroups of ``warps`` waves ``simds`` SIMDs hold that take ``waves`` waves each."""
    together = waves * simds // warps
    # dealt round the SIMDs, a workgroup whose waves do not divide among them leaves places that a like one cannot use
    return together if warps < simds else min(together, waves // -(-warps // simds))
