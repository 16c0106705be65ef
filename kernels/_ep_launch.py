"""How the kernels of ``ep_dispatch_combine`` are launched: what is asked for, and how much of it is safe.

Both kernels have grid-wide barriers, so no launch may have more blocks than are resident at the same time, whoever asks
for them.  How many that is follows from the kernel as compiled and from the device that the tensors are on.
"""

from __future__ import annotations

import enum
import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch

from harness.compiling import amdgcn
from harness.device import Device, NamedDevice, Target, detect
from harness.launch import Resources, SafeGrid, barrier_safe_grid
from harness.launch.current import current_target
from harness.launch.grid_barrier import BarrierLaunch, barrier_launch
from harness.launch.physical import Described, NoDevice, device_index, physical_from

logger = logging.getLogger(__name__)


class EpKernelType(enum.Enum):
    """Where the ranks are: all that decides whether the kernels within a node, and their grids, are used."""

    INTRA_NODE = "intra_node"
    INTER_NODE = "inter_node"


class DispatchDtype(enum.Enum):
    """What a dispatched row is made of."""

    BF16 = "bf16"
    FP8 = "fp8"
    MXFP8 = "mxfp8"
    FP4 = "fp4"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A launch as somebody asks for it; ``auto`` where the defaults do, which never want more blocks than rows."""

    block_num: int
    warp_num_per_block: int
    auto: bool


@dataclass(frozen=True, kw_only=True)
class LaunchShape:
    """What ``kernel`` was launched with, and why; ``bound`` is the number of blocks that are resident together."""

    kernel: str
    block_num: int
    warp_num_per_block: int
    bound: int
    reason: str


#: MORI's grid within a node; FP4 rows are short, and a few of them go to many small blocks.
DEFAULT_WISH = Wish(block_num=80, warp_num_per_block=16, auto=True)
FP4_WISH = Wish(block_num=256, warp_num_per_block=16, auto=True)
FEW_FP4_WISH = Wish(block_num=225, warp_num_per_block=5, auto=True)
#: Tokens a rank below which FP4 rows are few.
FEW_TOKENS = 128
#: 1,024 threads, the most that a block may have, where a warp has 64.
MAX_WARPS = 16
#: Registers a thread at which nothing spills and an SM holds two blocks of 16 warps.
NVIDIA_REGISTERS = 64
#: Compute units left to the kernels of other streams.
RESERVED_UNITS = 2
#: What no compilation of either kernel exceeds: stands for it where there is no device to compile for.
CEILING = Resources(num_warps=MAX_WARPS, registers=128, sgprs=108, shared_dynamic=16_384)
# On the virtual GPU.  So few that a block has several rows to move, as on a device.
_VIRTUAL_UNITS = 6


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a launch is planned for: device ``index`` of this process, or (None) one that is only named.

    ``num_units``: the SMs or CUs of a named device that can be used, such as a partition's; default all.
    """

    where: Target | NamedDevice | Device
    num_units: int | None = None
    index: int | None = None

    @property
    def units(self) -> int:
        """Units of a named device that can be used; raises ValueError for a target alone, which has none."""
        units = None if isinstance(self.where, Target) else self.where.units
        units = units if self.num_units is None else self.num_units
        if units is None:
            raise ValueError("place: wanted num_units with a target, got None")
        return units


def place_of(device: torch.device) -> Place:
    """Return the place of tensors on ``device``; raises NoDevice for a GPU that detection does not find."""
    if device.type == "cpu":
        return _virtual(current_target(device, "sm_120"))
    index = device_index(device)
    for found in detect().devices:
        if found.index == index:
            return Place(where=found, index=index)
    raise NoDevice(f"device {index}: not among what detection finds, {detect()}")


@functools.cache
def _virtual(target: Target) -> Place:
    return Place(where=target, num_units=_VIRTUAL_UNITS)


@functools.cache
def _described(place: Place) -> Described:
    # One object a place: budgets, leases and barrier words are kept by its identity.
    return Described(place.units)


def wish(
    dtype: DispatchDtype,
    kernel_type: EpKernelType,
    max_tokens: int,
    block_num: int | None = None,
    warp_num_per_block: int | None = None,
) -> Wish:
    """Return the launch that is asked for; a number that the caller does not give is the default for ``dtype``.

    Raises ValueError for ranks that are not within a node, TypeError or ValueError for a number that is no count.
    """
    if kernel_type is not EpKernelType.INTRA_NODE:
        raise ValueError(f"kernel_type: wanted {EpKernelType.INTRA_NODE}, got {kernel_type!r}")
    found = DEFAULT_WISH
    if dtype is DispatchDtype.FP4:
        found = FEW_FP4_WISH if max_tokens < FEW_TOKENS else FP4_WISH
    if block_num is not None:
        found = replace(found, block_num=block_num, auto=False)
    if warp_num_per_block is not None:
        found = replace(found, warp_num_per_block=warp_num_per_block)
    return found


@contextmanager
def launching(kernel: str, device: torch.device, place: Place) -> Iterator[BarrierLaunch]:
    """Stand around one launch of ``kernel`` at ``place``: units reserved, no other barrier kernel in flight."""
    with (
        physical_from(_described(place)) if place.index is None else nullcontext(),
        barrier_launch(device, kernel=kernel, reserve=RESERVED_UNITS) as launch,
    ):
        yield launch


def resources_of(kernel, arguments, options, place: Place) -> Resources:
    """Return what one block of ``kernel`` takes as compiled for these ``arguments`` and ``options`` at ``place``."""
    if place.index is None:
        return replace(CEILING, num_warps=options["num_warps"])
    # Triton keeps what it compiled by device and specialisation, and launches the same object afterwards.
    compiled = kernel.warmup(*arguments, grid=(1,), **options)
    shared = compiled.metadata.shared
    if "amdgcn" in compiled.asm:
        info = amdgcn.parse(compiled.asm["amdgcn"])
        return Resources(num_warps=options["num_warps"], registers=info.vgprs, sgprs=info.sgprs, shared_dynamic=shared)
    # What ptxas found out is known only once the binary is loaded.
    compiled._init_handles()
    return Resources(num_warps=options["num_warps"], registers=compiled.n_regs, shared_dynamic=shared)


def warps_of(wished: Wish) -> int:
    """Return the warps that a block gets: Triton launches powers of two, so the largest up to the wish.

    Nobody wishes for more than ``MAX_WARPS``, a power of two.
    """
    return 1 << (wished.warp_num_per_block.bit_length() - 1)


def options_of(wished: Wish, place: Place) -> dict[str, int]:
    """Return the compiler's options for a launch at ``place``."""
    target = place.where if isinstance(place.where, Target) else place.where.target
    # Left alone, ptxas spills to get more blocks on an SM than the grid has.
    registers = {"maxnreg": NVIDIA_REGISTERS} if target.vendor == "cuda" else {}
    return {"num_warps": warps_of(wished), **registers}


@functools.lru_cache(maxsize=1024)
def plan(kernel: str, wished: Wish, rows: int, resources: Resources, place: Place, num_sms: int) -> LaunchShape:
    """Return the launch of ``kernel`` for ``rows`` rows that is nearest to the wish and safe, and log a new one.

    ``resources`` are the kernel's as compiled, ``num_sms`` the units that this launch may use.  Raises DoesNotFit where
    not even one block is resident.
    """
    blocks = min(wished.block_num, rows) if wished.auto else wished.block_num
    safe: SafeGrid = barrier_safe_grid(blocks, resources, place.where, num_sms=num_sms)
    asked = f"{wished.block_num} x {wished.warp_num_per_block} {'by default' if wished.auto else 'asked for'}"
    shape = LaunchShape(
        kernel=kernel,
        block_num=safe.grid,
        warp_num_per_block=resources.num_warps,
        bound=safe.bound,
        reason=f"{asked}, {rows} rows, {safe.reason}",
    )
    logger.info("%s: %d blocks x %d warps: %s", kernel, shape.block_num, shape.warp_num_per_block, shape.reason)
    return shape
