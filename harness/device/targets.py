"""The architectures that have a name here: what they hold and what their instructions can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.device.limits import AMD, NVIDIA, Limits

Vendor = Literal["cuda", "rocm"]
Capability = Literal[
    "clusters", "wgmma", "tensor_memory", "fp8_mma", "fp8_is_fnuz", "fp4_mma", "block_scaled_mma", "tf32_mma",
    "cooperative_launch",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Target:
    """One architecture: ``marker`` selects its tests (``-m sm120``), ``arch`` is how compilers and drivers call it.

    Ask ``capabilities`` through the functions of ``harness.device.capabilities``.
    """

    marker: str
    arch: str
    vendor: Vendor
    summary: str
    limits: Limits
    capabilities: frozenset[Capability]


# Each capability lists its targets in full: no ordering of architectures gives any of these sets.
_HAVE: dict[Capability, frozenset[str]] = {
    # CUDA C++ Programming Guide, "Thread Block Clusters".  gfx1250 has clusters, but Triton 3.6 to 3.9 refuses
    # num_ctas=2 there.
    "clusters": frozenset({"sm_90", "sm_100", "sm_103", "sm_120", "sm_121"}),
    # PTX ISA, "wgmma.mma_async": requires sm_90a.
    "wgmma": frozenset({"sm_90"}),
    # PTX ISA, "tcgen05.alloc" and "tcgen05.mma": sm_100a, sm_103a and their families, not 12.x.
    "tensor_memory": frozenset({"sm_100", "sm_103"}),
    # PTX ISA, "mma" with .e4m3: sm_89 and later.  LLVM: v_mfma_f32_*_fp8 (gfx942, gfx950), v_wmma_*_fp8 (gfx1250);
    # gfx1100's v_wmma takes no 8-bit floats.
    "fp8_mma": frozenset(
        {"sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121", "gfx942", "gfx950", "gfx1250"}
    ),
    # CDNA3 ISA: e4m3fnuz and e5m2fnuz; gfx950 and gfx1250 have the OCP formats.
    "fp8_is_fnuz": frozenset({"gfx942"}),
    # PTX ISA: tcgen05.mma kind::mxf4 (sm_100a, sm_103a), mma kind::mxf4 (sm_120a, sm_121a).
    # LLVM: v_mfma_scale_f32_*_f8f6f4 (gfx950), v_wmma_scale_f32_* (gfx1250).
    "fp4_mma": frozenset({"sm_100", "sm_103", "sm_120", "sm_121", "gfx950", "gfx1250"}),
    # The same instructions take one E8M0 scale for 32 elements (block_scale with ue8m0).
    "block_scaled_mma": frozenset({"sm_100", "sm_103", "sm_120", "sm_121", "gfx950", "gfx1250"}),
    # PTX ISA, "mma" with .tf32: sm_80 and later.  CDNA3 ISA: v_mfma_f32_*_xf32, gone from gfx950.
    "tf32_mma": frozenset(
        {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121", "gfx942"}
    ),
    # CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, hipDeviceAttributeCooperativeLaunch; tried on an H200 only.
    "cooperative_launch": frozenset({*NVIDIA, *AMD}),
}  # fmt: skip


def _target(marker: str, arch: str, summary: str) -> Target:
    return Target(
        marker=marker,
        arch=arch,
        vendor="cuda" if arch in NVIDIA else "rocm",
        summary=summary,
        limits=NVIDIA[arch] if arch in NVIDIA else AMD[arch],
        capabilities=frozenset(name for name, archs in _HAVE.items() if arch in archs),
    )


_ALL = (
    _target("sm80", "sm_80", "Ampere: A100"),
    _target("sm86", "sm_86", "Ampere: RTX A6000, RTX 30"),
    _target("sm89", "sm_89", "Ada: L4, L40S, RTX 40"),
    _target("sm90", "sm_90", "Hopper: H100, H200"),
    _target("sm100", "sm_100", "Blackwell: B200, GB200"),
    _target("sm103", "sm_103", "Blackwell Ultra: B300, GB300"),
    _target("sm120", "sm_120", "desktop Blackwell: RTX PRO 6000, RTX 50"),
    _target("sm121", "sm_121", "GB10"),
    _target("gfx942", "gfx942", "MI300"),
    _target("gfx950", "gfx950", "MI350"),
    _target("gfx1100", "gfx1100", "RX 7900"),
    _target("gfx1250", "gfx1250", "MI400"),
)

#: By marker name.
TARGETS: dict[str, Target] = {target.marker: target for target in _ALL}
_BY_ARCH = {target.arch: target for target in _ALL}


def target_of(arch: str) -> Target:
    """Return the target that compilers call ``arch`` (``"sm_120"``); raises ValueError listing the known ones."""
    try:
        return _BY_ARCH[arch]
    except KeyError:
        raise ValueError(f"no target {arch!r}; there are: {', '.join(_BY_ARCH)}") from None
