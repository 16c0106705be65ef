"""Target profiles: what one GPU does where the IEEE standard, torch and numpy leave a choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import triton

Fp8Path = Literal["direct", "through_fp16", "bits"]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Numeric rules of one target.

    ``vendor``: ``"cuda"`` or ``"hip"``.
    ``ftz_exp2``, ``ftz_sqrt`` (``tl.sqrt``, ``tl.rsqrt``), ``ftz_libdevice`` (``tl.sin``, ``tl.cos``, ``tl.erf``,
    ``tl.floor``, ``tl.ceil``): float32 subnormal operands and results become zero of their sign.
    ``exp_by_exp2``: ``tl.exp`` is exp2 of the float32 product x * log2(e), never flushed.
    ``tf32``: float32 operands of ``tl.dot`` keep 10 mantissa bits when ``input_precision`` is ``"tf32"``.
    ``fp8_overflow``: conversion of a float beyond the largest finite 8-bit value, infinity included:
    ``"saturate"`` gives that value, ``"special"`` gives infinity, or NaN in a format that has none.
    ``fp8_path``: how float32 reaches 8 bits: in one rounding (``"direct"``), truncated to float16 first
    (``"through_fp16"``), or by adding half a unit to the truncated float16 (``"bits"``: ties away from zero).
    ``fp8_nan_sign``: a NaN converted to 8 bits keeps its sign; otherwise it becomes 0x7F.
    ``canonical_nan``: a 16-bit conversion writes one NaN, 0x7FFF; otherwise it keeps the sign and the upper
    payload bits, made quiet.
    ``fp8e5_to_bf16_scales``: this one cast multiplies the shifted bits by 2**112, so infinity comes out as
    65,536 and the NaNs as 81,920, 98,304 and 114,688.
    ``fp8_types``: the 8-bit types that Triton compiles for the target, by its names.
    ``int64_nan``: what a NaN converts to in a 64-bit integer, as a bit pattern; narrower ones give 0.
    """

    name: str
    vendor: Literal["cuda", "hip"]
    ftz_exp2: bool
    ftz_sqrt: bool
    ftz_libdevice: bool
    exp_by_exp2: bool
    tf32: bool
    fp8_overflow: Literal["saturate", "special"]
    fp8_path: Fp8Path
    fp8_nan_sign: bool
    canonical_nan: bool
    fp8e5_to_bf16_scales: bool
    int64_nan: int
    fp8_types: tuple[str, ...]

    @property
    def native_tma(self) -> bool:
        """Whether a tensor descriptor is one of the hardware's: PTX ISA, "cp.async.bulk.tensor" requires sm_90."""
        return self.vendor == "cuda" and int(self.name.removeprefix("sm_")) >= 90

    @property
    def scaled_dot(self) -> bool:
        """Whether ``tl.dot_scaled`` is an instruction; otherwise its operands are cast to bf16, or fp16, first."""
        target = self.name.removeprefix("sm_")
        return int(target) >= 100 if self.vendor == "cuda" else self.name == "gfx950"

    @property
    def ftz_atomic_add(self) -> bool:
        """Whether float32 ``tl.atomic_add`` flushes subnormals: PTX ISA, "atom": .add.f32 on global memory does."""
        return self.vendor == "cuda"

    @property
    def clamp_by_sign(self) -> bool:
        """Whether Triton compiles ``tl.clamp`` between a constant and its negative to ``min.xorsign.abs``."""
        return self.vendor == "cuda" and int(self.name.removeprefix("sm_")) >= 90


# What a cast compiles to is Triton's choice and changed once, in 3.9.
_BEFORE_3_9 = tuple(int(part) for part in triton.__version__.split(".")[:2]) < (3, 9)


def _cuda(name: str, fp8_path: Fp8Path = "direct") -> Profile:
    """NVIDIA rules, by the instructions that Triton 3.7 to 3.9 emit for each target.

    Those of sm_90 are bit-equal to recordings made on an H200 (``tests/vgpu/recordings``); the other targets share
    its instructions but for ``fp8_path`` and are not measured.
    """
    return Profile(
        name=name,
        vendor="cuda",
        # ex2.approx.ftz.f32; sqrt.approx.ftz.f32 and rsqrt.approx.ftz.f32; cvt.rmi.ftz and libdevice's ftz branches
        ftz_exp2=True,
        ftz_sqrt=True,
        ftz_libdevice=True,
        # mul.f32 by log2(e), ex2.approx.f32
        exp_by_exp2=True,
        # PTX ISA, "mma" with .tf32: the lower 13 bits of an operand are ignored
        tf32=True,
        # cvt.rn.satfinite.e4m3x2 and .e5m2x2 (PTX ISA, "cvt"): magnitudes above MAX_NORM become MAX_NORM, NaN 0x7F
        fp8_overflow="special" if fp8_path == "bits" else "saturate",
        fp8_path=fp8_path,
        fp8_nan_sign=False,
        # PTX ISA, "cvt": NaN results of .f16 and .bf16 are canonical, 0x7FFF
        canonical_nan=True,
        # prmt, shr, mul.rn.bf16x2 by 0x7780 (mul.f32 by 0x77800000 below sm_90) instead of a conversion
        fp8e5_to_bf16_scales=True,
        # cvt.rzi.s64.f32 and cvt.rzi.u64.f32, measured
        int64_nan=1 << 63,
        # Triton's CUDA backend: float8e4nv from compute capability 8.9 on
        fp8_types=("fp8e4b15", "fp8e5") if name == "sm_80" else ("fp8e4b15", "fp8e4nv", "fp8e5"),
    )


def _hip(name: str) -> Profile:
    """AMD rules: read off Triton's lowering and its gfx942 and gfx950 assembly; not measured on a device."""
    return Profile(
        name=name,
        vendor="hip",
        # v_exp_f32 without the scaling that full-range exp2 needs
        ftz_exp2=True,
        ftz_sqrt=False,
        ftz_libdevice=False,
        exp_by_exp2=False,
        # the backend's default input_precision is "ieee"; gfx942 alone accepts "tf32"
        tf32=name == "gfx942",
        # the software downcast saturates; the two fnuz formats turn infinity into NaN
        fp8_overflow="saturate",
        fp8_path="direct",
        fp8_nan_sign=True,
        canonical_nan=False,
        fp8e5_to_bf16_scales=name == "gfx942",
        # v_cvt_*: NaN gives 0 in 32 bits, and 64 bits are built from them
        int64_nan=0,
        fp8_types=("fp8e4b8", "fp8e4nv", "fp8e5", "fp8e5b16"),
    )


_PROFILES = {
    profile.name: profile
    for profile in (
        _cuda("sm_80", "bits" if _BEFORE_3_9 else "through_fp16"),
        _cuda("sm_89", "through_fp16" if _BEFORE_3_9 else "direct"),
        _cuda("sm_90"),
        _cuda("sm_100"),
        _cuda("sm_120"),
        _cuda("sm_121"),
        _hip("gfx942"),
        _hip("gfx950"),
    )
}

DEFAULT = "sm_120"


def profile(name: str = DEFAULT) -> Profile:
    """Return the profile called ``name``; raises ValueError listing the known names."""
    try:
        return _PROFILES[name]
    except KeyError:
        raise ValueError(f"no target profile {name!r}; there are: {', '.join(_PROFILES)}") from None


DEFAULT_PROFILE = profile()


def names() -> tuple[str, ...]:
    """Return the names of all profiles."""
    return tuple(_PROFILES)
