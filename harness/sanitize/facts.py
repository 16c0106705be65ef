"""What the emulated device says about itself, by target profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.device.limits import AmdLimits, NvidiaLimits
from harness.device.named import DEVICES

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Product:
    """The product that stands for a profile; ``known`` is its name in ``harness.device``.

    Memory and L2 cache in bytes, clock in kHz, bandwidth in bytes a second, bus in bits, all from data sheets.  They
    feed figures that programs print and never a result.
    """

    known: str
    title: str
    memory: int
    l2: int
    clock: int
    bandwidth: int
    bus: int


PRODUCTS = {
    "sm_80": Product(
        known="A100", title="NVIDIA A100-SXM4-80GB", memory=80 * GIB, l2=40 * MIB,
        clock=1_410_000, bandwidth=2_039 * 10**9, bus=5120,
    ),
    "sm_89": Product(
        known="L40S", title="NVIDIA L40S", memory=48 * GIB, l2=96 * MIB,
        clock=2_520_000, bandwidth=864 * 10**9, bus=384,
    ),
    "sm_90": Product(
        known="H200", title="NVIDIA H200", memory=141 * 10**9, l2=50 * MIB,
        clock=1_980_000, bandwidth=4_800 * 10**9, bus=6144,
    ),
    "sm_100": Product(
        known="B200", title="NVIDIA B200", memory=180 * 10**9, l2=126 * MIB,
        clock=1_965_000, bandwidth=8_000 * 10**9, bus=8192,
    ),
    "sm_120": Product(
        known="RTX PRO 6000", title="NVIDIA RTX PRO 6000 Blackwell Workstation Edition", memory=96 * GIB, l2=128 * MIB,
        clock=2_617_000, bandwidth=1_792 * 10**9, bus=512,
    ),
    "sm_121": Product(
        known="GB10", title="NVIDIA GB10", memory=128 * 10**9, l2=24 * MIB,
        clock=2_418_000, bandwidth=273 * 10**9, bus=256,
    ),
    "gfx942": Product(
        known="MI300X", title="AMD Instinct MI300X", memory=192 * 10**9, l2=4 * MIB,
        clock=2_100_000, bandwidth=5_300 * 10**9, bus=8192,
    ),
    "gfx950": Product(
        known="MI355X", title="AMD Instinct MI355X", memory=288 * 10**9, l2=4 * MIB,
        clock=2_400_000, bandwidth=8_000 * 10**9, bus=8192,
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DeviceProperties:
    """What ``torch.cuda.get_device_properties`` returns: torch's names, sizes in bytes."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    gcnArchName: str
    is_integrated: int
    is_multi_gpu_board: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One emulated device: its properties for torch, and Triton's view of the same."""

    arch: str
    hip: bool
    properties: DeviceProperties
    clock: int
    memory_clock: int
    bus: int

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability, major and minor."""
        return self.properties.major, self.properties.minor

    @property
    def triton_properties(self) -> dict[str, Any]:
        """What Triton's driver says: sizes in bytes, clocks in kHz, bus width in bits."""
        found = self.properties
        return {
            "max_shared_mem": found.shared_memory_per_block_optin,
            "max_num_regs": found.regs_per_multiprocessor,
            "multiprocessor_count": found.multi_processor_count,
            "warpSize": found.warp_size,
            "sm_clock_rate": self.clock,
            "mem_clock_rate": self.memory_clock,
            "mem_bus_width": self.bus,
            **({"arch": self.arch} if self.hip else {}),
        }


def facts(profile: str) -> Facts:
    """Return the facts of the product that stands for ``profile``; raises ValueError listing the profiles."""
    if profile not in PRODUCTS:
        raise ValueError(f"no target {profile!r}; there are: {', '.join(PRODUCTS)}")
    product = PRODUCTS[profile]
    device = DEVICES[product.known]
    limits = device.target.limits
    digits = profile.removeprefix("sm_").removeprefix("gfx")
    hip = isinstance(limits, AmdLimits)
    major, minor = (int(digits[0]), int(digits[1])) if hip else (int(digits[:-1]), int(digits[-1]))
    properties = DeviceProperties(
        name=product.title,
        major=major,
        minor=minor,
        total_memory=product.memory,
        multi_processor_count=device.units,
        L2_cache_size=product.l2,
        gcnArchName=f"{profile}:sramecc+:xnack-" if hip else "",
        is_integrated=int(profile == "sm_121"),
        is_multi_gpu_board=0,
        **_sizes(limits),
    )
    # two transfers a clock
    memory_clock = product.bandwidth * 8 // product.bus // 2 // 1000
    return Facts(
        arch=profile, hip=hip, properties=properties, clock=product.clock, memory_clock=memory_clock, bus=product.bus
    )


def _sizes(limits: NvidiaLimits | AmdLimits) -> dict[str, int]:
    if isinstance(limits, AmdLimits):
        threads = limits.simds * limits.waves_per_simd * limits.wave_size
        return {
            "warp_size": limits.wave_size,
            "max_threads_per_block": limits.threads_per_workgroup,
            "max_threads_per_multi_processor": threads,
            "regs_per_multiprocessor": limits.simds * limits.vgprs * limits.wave_size,
            "shared_memory_per_block": limits.lds_per_workgroup,
            "shared_memory_per_block_optin": limits.lds_per_workgroup,
            "shared_memory_per_multiprocessor": limits.lds,
        }
    return {
        "warp_size": limits.warp_size,
        "max_threads_per_block": limits.threads_per_block,
        "max_threads_per_multi_processor": limits.warps * limits.warp_size,
        "regs_per_multiprocessor": limits.registers,
        # CUDA C++ Programming Guide: static shared memory of a block, all architectures
        "shared_memory_per_block": 48 * 1024,
        "shared_memory_per_block_optin": limits.shared_per_block,
        "shared_memory_per_multiprocessor": limits.shared,
    }
