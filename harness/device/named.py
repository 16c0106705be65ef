"""Products by name: how many SMs, CUs or WGPs they have, whole and partitioned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.device.targets import Target, target_of


@dataclass(frozen=True, kw_only=True)
class NamedDevice:
    """One product.  ``units`` counts its SMs, CUs or (gfx1100) WGPs; ``partitions`` gives the units of one part.

    ``source`` says where the counts are from; ``verified`` is False where no vendor's document or measurement gives
    them.
    """

    name: str
    arch: str
    units: int
    source: str
    verified: bool = True
    partitions: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def target(self) -> Target:
        """The architecture."""
        return target_of(self.arch)

    def units_of(self, partition: str | None = None) -> int:
        """Return the units of one part of ``partition``, of the whole device for None.

        Raises ValueError for a partition that the device is not known to have.
        """
        if partition is None:
            return self.units
        try:
            return self.partitions[partition]
        except KeyError:
            known = ", ".join(self.partitions) or "none"
            raise ValueError(f"{self.name} has no partition {partition!r}; known: {known}") from None


# The SM column of "nvidia-smi mig -lgip"; the fractions are those of NVIDIA's MIG User Guide, "Supported MIG Profiles".
_A100_MIG = {"1g": 14, "2g": 28, "3g": 42, "4g": 56, "7g": 98}
_H100_MIG = {"1g": 16, "2g": 32, "3g": 60, "4g": 64, "7g": 132}

_ALL = (
    NamedDevice(name="A100", arch="sm_80", units=108, source="NVIDIA A100 architecture paper", partitions=_A100_MIG),
    NamedDevice(name="RTX 3090", arch="sm_86", units=82, source="NVIDIA GA102 architecture paper"),
    NamedDevice(name="RTX A6000", arch="sm_86", units=84, source="NVIDIA GA102 architecture paper"),
    NamedDevice(name="L4", arch="sm_89", units=58, source="7,424 cores in NVIDIA's data sheet, 128 an SM"),
    NamedDevice(name="L40S", arch="sm_89", units=142, source="18,176 cores in NVIDIA's data sheet, 128 an SM"),
    NamedDevice(name="RTX 4090", arch="sm_89", units=128, source="NVIDIA Ada architecture paper"),
    NamedDevice(
        name="H20", arch="sm_90", units=78, source="SM counts that public reports test reserves on", verified=False
    ),
    NamedDevice(name="H100 PCIe", arch="sm_90", units=114, source="NVIDIA H100 architecture paper"),
    NamedDevice(
        name="H100 SXM", arch="sm_90", units=132, source="NVIDIA H100 architecture paper", partitions=_H100_MIG
    ),
    # Of its MIG profiles only the whole one is known to be as the H100's.
    NamedDevice(name="H200", arch="sm_90", units=132, source="measured"),
    NamedDevice(name="B200", arch="sm_100", units=148, source="18,944 cores, 128 an SM; upstream reports"),
    NamedDevice(
        name="GB200", arch="sm_100", units=152, source="SM counts that public reports test reserves on", verified=False
    ),
    NamedDevice(name="GB300", arch="sm_103", units=160, source="NVIDIA's description of the full GPU", verified=False),
    NamedDevice(name="RTX PRO 6000", arch="sm_120", units=188, source="24,064 cores in NVIDIA's data sheet"),
    NamedDevice(name="RTX 5090", arch="sm_120", units=170, source="NVIDIA RTX Blackwell architecture paper"),
    NamedDevice(name="GB10", arch="sm_121", units=48, source="6,144 cores in NVIDIA's data sheet, 128 an SM"),
    # Partitions: AMD Instinct GPU partitioning guides; one XCD of an MI300 has 38 CUs, of an MI350 32.
    NamedDevice(
        name="MI300X",
        arch="gfx942",
        units=304,
        source="AMD Instinct MI300X data sheet",
        partitions={"SPX": 304, "DPX": 152, "QPX": 76, "CPX": 38},
    ),
    NamedDevice(
        name="MI300A",
        arch="gfx942",
        units=228,
        source="AMD Instinct MI300A data sheet",
        partitions={"SPX": 228, "TPX": 76, "CPX": 38},
    ),
    NamedDevice(
        name="MI308X", arch="gfx942", units=80, source="upstream reports", verified=False, partitions={"SPX": 80}
    ),
    NamedDevice(
        name="MI355X",
        arch="gfx950",
        units=256,
        source="AMD Instinct MI355X data sheet",
        partitions={"SPX": 256, "DPX": 128, "QPX": 64, "CPX": 32},
    ),
    NamedDevice(name="RX 7900 XTX", arch="gfx1100", units=48, source="96 CUs in AMD's data sheet, two a WGP"),
    # Finer partitions of this part are not published.
    NamedDevice(
        name="MI400",
        arch="gfx1250",
        units=192,
        source="upstream report of a grid wider than a partition",
        verified=False,
        partitions={"SPX": 192, "DPX": 96},
    ),
)

#: By product name.
DEVICES: dict[str, NamedDevice] = {device.name: device for device in _ALL}
