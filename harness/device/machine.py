"""What detection finds: devices and machines, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.device.limits import Limits, NvidiaLimits
from harness.device.targets import Target, Vendor, target_of


@dataclass(frozen=True, kw_only=True)
class DriverFacts:
    """Limits as the CUDA driver states them; None where the driver does not know the attribute.  Bytes and pieces."""

    threads_per_unit: int | None = None
    blocks_per_unit: int | None = None
    registers_per_unit: int | None = None
    registers_per_block: int | None = None
    threads_per_block: int | None = None
    shared_per_unit: int | None = None
    shared_per_block: int | None = None
    shared_reserved: int | None = None
    cooperative_launch: int | None = None
    cluster_launch: int | None = None
    memory: int | None = None


@dataclass(frozen=True, kw_only=True)
class Device:
    """One visible GPU.

    ``units`` counts its SMs, CUs or (gfx11) WGPs; of a partition or a MIG instance, the part's own.  ``index`` is the
    one that this environment gives it.  ``mig`` and ``clock_mhz`` (the highest SM clock) need NVML and are False and
    None without it.
    """

    index: int
    vendor: Vendor
    arch: str
    units: int
    name: str = ""
    uuid: str = ""
    mig: bool = False
    clock_mhz: int | None = None
    driver: DriverFacts | None = None

    @property
    def target(self) -> Target:
        """The architecture; raises ValueError for one that has no name here."""
        return target_of(self.arch)

    @property
    def limits(self) -> Limits:
        """The target's limits, with what this device's driver states in place of the table's figures."""
        limits = self.target.limits
        facts = self.driver
        if facts is None or not isinstance(limits, NvidiaLimits):
            return limits
        warps = None if facts.threads_per_unit is None else facts.threads_per_unit // limits.warp_size
        stated = {
            "warps": warps,
            "blocks": facts.blocks_per_unit,
            "registers": facts.registers_per_unit,
            "registers_per_block": facts.registers_per_block,
            "threads_per_block": facts.threads_per_block,
            "shared": facts.shared_per_unit,
            "shared_per_block": facts.shared_per_block,
            "shared_reserved": facts.shared_reserved,
        }
        return replace(limits, **{name: value for name, value in stated.items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What was found; ``problem`` says why a vendor's devices could not be asked, and is empty otherwise."""

    devices: tuple[Device, ...] = ()
    problem: str = ""

    def __str__(self) -> str:
        """Return ``"2 x sm_90"``, ``"no GPU"`` or ``"no GPU (why)"``."""
        if not self.devices:
            return "no GPU" + (f" ({self.problem})" if self.problem else "")
        arches = [device.arch for device in self.devices]
        counts = {arch: arches.count(arch) for arch in arches}
        return ", ".join(arch if count == 1 else f"{count} x {arch}" for arch, count in counts.items())
