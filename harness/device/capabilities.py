"""What a target can do, one question each; every answer is looked up by name and none is computed from a number."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import metadata
from typing import Literal

from harness.device.limits import NvidiaLimits
from harness.device.targets import Target

TmaOperation = Literal["load", "store", "gather", "scatter"]
#: ``native``: a bulk-tensor (TMA, TDM) instruction.  ``lowered``: Triton compiles the descriptor to pointer accesses.
#: ``refused``: it does not compile.
Form = Literal["native", "lowered", "refused"]
TritonVersion = tuple[int, int]

_OPERATIONS: tuple[TmaOperation, ...] = ("load", "store", "gather", "scatter")
TRITON_VERSIONS: tuple[TritonVersion, ...] = ((3, 6), (3, 7), (3, 8), (3, 9))

_Row = tuple[Form, Form, Form, Form]
_POINTERS: _Row = ("lowered",) * 4
_HOPPER: _Row = ("native", "native", "refused", "refused")
_DATACENTRE: _Row = ("native",) * 4
_DESKTOP: _Row = ("native", "native", "native", "refused")

# Compiled, one descriptor operation a kernel, bf16 [32, 64], on Triton 3.6.0, 3.7.1, 3.8.0 and 3.9.0 without a GPU.
# sm_90: ptxas "Feature '.tile::gather4 ...' requires .target sm_100 or higher", "'.tile::scatter4' not supported";
# sm_120, sm_121: "Feature '.tile::scatter4' not supported"; gfx1250 on 3.7.1: Triton's pass manager fails.
_TMA: dict[str, dict[TritonVersion, _Row]] = {
    **{
        arch: dict.fromkeys(TRITON_VERSIONS, row)
        for row, archs in {
            _POINTERS: ("sm_80", "sm_86", "sm_89", "gfx942", "gfx950", "gfx1100"),
            _HOPPER: ("sm_90",),
            _DATACENTRE: ("sm_100", "sm_103"),
            _DESKTOP: ("sm_120", "sm_121"),
        }.items()
        for arch in archs
    },
    "gfx1250": {(3, 6): _POINTERS, (3, 7): _HOPPER, (3, 8): _DATACENTRE, (3, 9): _DATACENTRE},
}


@cache
def installed_triton() -> TritonVersion:
    """Return the installed Triton's (major, minor), read from its metadata: Triton is not imported.

    Raises ``importlib.metadata.PackageNotFoundError`` where there is none.
    """
    major, minor, *_ = metadata.version("triton").split(".")
    return int(major), int(minor)


def tma_form(target: Target, operation: TmaOperation, triton: TritonVersion | None = None) -> Form:
    """Return what becomes of a tensor descriptor's ``operation`` on ``target`` under ``triton`` (default: installed).

    Raises ValueError for a Triton that is not among ``TRITON_VERSIONS``: a version nobody tried is not guessed.
    """
    version = installed_triton() if triton is None else triton
    if version not in TRITON_VERSIONS:
        known = ", ".join(f"{major}.{minor}" for major, minor in TRITON_VERSIONS)
        raise ValueError(f"triton: wanted one of {known}, got {version[0]}.{version[1]}")
    return _TMA[target.arch][version][_OPERATIONS.index(operation)]


def has_tma_load(target: Target, triton: TritonVersion | None = None) -> bool:
    """Whether a descriptor load compiles to a bulk-tensor instruction."""
    return tma_form(target, "load", triton) == "native"


def has_tma_store(target: Target, triton: TritonVersion | None = None) -> bool:
    """Whether a descriptor store compiles to a bulk-tensor instruction."""
    return tma_form(target, "store", triton) == "native"


def has_tma_gather(target: Target, triton: TritonVersion | None = None) -> bool:
    """Whether a descriptor gather of rows compiles to a bulk-tensor instruction."""
    return tma_form(target, "gather", triton) == "native"


def has_tma_scatter(target: Target, triton: TritonVersion | None = None) -> bool:
    """Whether a descriptor scatter of rows compiles to a bulk-tensor instruction."""
    return tma_form(target, "scatter", triton) == "native"


def has_clusters(target: Target) -> bool:
    """Whether a Triton kernel with ``num_ctas`` > 1 can be launched."""
    return "clusters" in target.capabilities


def has_wgmma(target: Target) -> bool:
    """Whether there are asynchronous warp-group products (wgmma)."""
    return "wgmma" in target.capabilities


def has_tensor_memory(target: Target) -> bool:
    """Whether there are tensor memory and tcgen05 products."""
    return "tensor_memory" in target.capabilities


def has_fp8_mma(target: Target) -> bool:
    """Whether there are products of 8-bit floats, in whatever encoding (see ``fp8_is_fnuz``)."""
    return "fp8_mma" in target.capabilities


def fp8_is_fnuz(target: Target) -> bool:
    """Whether the 8-bit floats of its products are the fnuz formats and not the OCP ones."""
    return "fp8_is_fnuz" in target.capabilities


def has_fp4_mma(target: Target) -> bool:
    """Whether there are products of E2M1 values."""
    return "fp4_mma" in target.capabilities


def has_block_scaled_mma(target: Target) -> bool:
    """Whether there are products that apply an E8M0 scale to each 32 elements."""
    return "block_scaled_mma" in target.capabilities


def has_tf32_mma(target: Target) -> bool:
    """Whether there are products of float32 operands cut to 10 mantissa bits."""
    return "tf32_mma" in target.capabilities


def has_cooperative_launch(target: Target) -> bool:
    """Whether the driver can refuse, at the launch, a grid that is not resident as a whole."""
    return "cooperative_launch" in target.capabilities


def shared_memory_per_block(target: Target) -> int:
    """Return the most shared memory or LDS that one block may ask for, in bytes."""
    limits = target.limits
    return limits.shared_per_block if isinstance(limits, NvidiaLimits) else limits.lds_per_workgroup


#: Every yes-or-no question that needs no Triton version, by name.
PREDICATES: dict[str, Callable[[Target], bool]] = {
    function.__name__: function
    for function in (
        has_clusters,
        has_wgmma,
        has_tensor_memory,
        has_fp8_mma,
        fp8_is_fnuz,
        has_fp4_mma,
        has_block_scaled_mma,
        has_tf32_mma,
        has_cooperative_launch,
    )
}
#: Every yes-or-no question about descriptors, by operation.
TMA_PREDICATES: dict[TmaOperation, Callable[[Target, TritonVersion | None], bool]] = {
    "load": has_tma_load,
    "store": has_tma_store,
    "gather": has_tma_gather,
    "scatter": has_tma_scatter,
}
