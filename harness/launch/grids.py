"""Grids that a grid-wide barrier may span: no larger than what is resident at the same time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.device.capabilities import has_clusters
from harness.device.detect import detect
from harness.device.machine import Device
from harness.device.named import NamedDevice
from harness.device.targets import Target
from harness.launch import clusters as drivers
from harness.launch.physical import NoDevice, source
from harness.launch.residency import Residency, Resources, resident_blocks
from harness.launch.sm_budget import available_sms

#: Blocks an SM holds as parts of clusters.  Measured: cuOccupancyMaxActiveClusters gives 528 pairs of a tiny 4-warp
#: block on an H200 (132 SMs), 8 blocks an SM, where 16 single ones fit.
CLUSTERED_BLOCKS = 8


class DoesNotFit(ValueError):
    """No grid of this kernel is resident as a whole; the message says what does not fit."""


@dataclass(frozen=True, kw_only=True)
class SafeGrid:
    """``grid`` blocks of the ``bound`` that are resident at the same time, and the ``reason`` for the bound.

    ``num_sms`` are the units counted on, the reserved ones left out.
    """

    grid: int
    bound: int
    reason: str
    num_sms: int
    residency: Residency


def barrier_safe_grid(
    wanted: int,
    resources: Resources,
    where: Target | NamedDevice | Device,
    *,
    num_sms: int | None = None,
    reserved: int = 0,
    even: bool = False,
    clusters: int | None = None,
    active_clusters: int | None = None,
    function: int | None = None,
) -> SafeGrid:
    """Return the largest grid of at most ``wanted`` blocks in which every block can wait for every other.

    ``num_sms`` is the number of units that this launch can use where it is not all of ``where``'s: that of a green
    context (``context_units``), a MIG instance or a partition; it must be given with a ``Target``, which has none.
    Without it a device of this machine, one that ``detect()`` returns or the current one by its product, is asked what
    the current context may use of it, and no more than the ``sm_budget`` in force is taken; any other device counts
    whole.  ``reserved`` units may be held by somebody else's kernel.  ``even`` asks for an even grid.  ``clusters`` is
    the number of blocks in a cluster, by default the kernel's own, and ``active_clusters`` the answer of
    ``cuOccupancyMaxActiveClusters`` on the whole device or context, for which the driver is asked where ``function``
    is given, the ``CUfunction`` of the compiled kernel (Triton's ``CompiledKernel.function``).

    Without that answer clusters of 2 are counted by pairs of SMs, which always share a GPC, and at most
    ``CLUSTERED_BLOCKS`` blocks an SM; larger ones, whose number depends on how the GPCs of this very device are
    populated, are refused, and so is an odd number of SMs.  A reserved SM may break a whole cluster for each block that
    it would hold, and is counted so.

    Raises DoesNotFit where no block is resident, where nothing is left, or where no grid up to ``wanted`` is even or
    made of whole clusters; ValueError for arguments that make no sense.  Holds only while no other kernel takes more
    than the reserve: two kernels with barriers in flight need a lease.
    """
    cluster = resources.cluster_size if clusters is None else clusters
    target = where if isinstance(where, Target) else where.target
    units, said = _units(where, num_sms)
    _check(wanted, reserved, cluster, active_clusters)
    residency = resident_blocks(resources, where.limits if isinstance(where, Device) else target.limits)
    blocks = residency.blocks_per_sm
    if not blocks:
        raise DoesNotFit(f"no unit of {target.arch} holds a block: {residency.detail}")
    left = units - reserved
    if left < 1:
        raise DoesNotFit(f"reserve of {reserved} leaves none of {units} units of {target.arch}{said}")
    why = f"{left} units of {target.arch}{said} x {blocks} blocks ({residency.limiter}: {residency.detail})"
    if reserved:
        why = f"{units} - {reserved} reserved = {why}"
    bound = left * blocks
    if cluster > 1:
        if active_clusters is None and function is not None and has_clusters(target):
            active_clusters = drivers.active_clusters(function, cluster, resources)
        pairs = _clusters(target, units, blocks, cluster, active_clusters)
        bound = (pairs - reserved * blocks) * cluster
        why += f", {bound // cluster} clusters of {cluster}"
    step = math.lcm(cluster, 2 if even else 1)
    bound -= bound % step
    if bound < 1:
        raise DoesNotFit(f"{why}: fewer than the {step} blocks of the smallest grid")
    grid = min(wanted, bound)
    grid -= grid % step
    if not grid:
        raise DoesNotFit(f"wanted {wanted}: the smallest grid has {step} blocks")
    return SafeGrid(
        grid=grid,
        bound=bound,
        reason=f"wanted {wanted}, at most {bound} resident: {why}",
        num_sms=left,
        residency=residency,
    )


def _units(where: Target | NamedDevice | Device, num_sms: int | None) -> tuple[int, str]:
    """Return how many units there are, and what limits them."""
    whole = None if isinstance(where, Target) else where.units
    if num_sms is None and (index := _index_here(where)) is not None:
        assert whole is not None
        may = _may_use(index, whole)
        return may, "" if may == whole else f" ({may} of {whole} in this context and budget)"
    units = whole if num_sms is None else num_sms
    if units is None:
        raise ValueError("num_sms: wanted a number of units with a Target, got None")
    if units < 1:
        raise ValueError(f"num_sms: wanted at least 1, got {units}")
    if whole is not None and units > whole:
        raise ValueError(f"num_sms: wanted at most the {whole} units of the device, got {units}")
    return units, ""


def _index_here(where: Target | NamedDevice | Device) -> int | None:
    """Return the index of ``where`` if it is one of this machine's devices, a product if it is the current one."""
    devices = detect().devices
    if isinstance(where, Device):
        return where.index if where in devices else None
    if isinstance(where, Target) or not devices:
        return None
    current = source().current_device()
    alike = (device.index == current and (device.arch, device.units) == (where.arch, where.units) for device in devices)
    return current if any(alike) else None


def _may_use(index: int, whole: int) -> int:
    try:
        return min(whole, available_sms(index))
    except NoDevice:
        # what was detected and cannot be asked has no context either
        return whole


def _check(wanted: int, reserved: int, cluster: int, active_clusters: int | None) -> None:
    for name, value, least in (("wanted", wanted, 1), ("reserved", reserved, 0), ("clusters", cluster, 1)):
        if value < least:
            raise ValueError(f"{name}: wanted at least {least}, got {value}")
    if active_clusters is not None and (cluster == 1 or active_clusters < 0):
        raise ValueError(f"active_clusters: wanted a count with clusters > 1, got {active_clusters}")


def _clusters(target: Target, units: int, blocks: int, cluster: int, active: int | None) -> int:
    """Return how many clusters of ``cluster`` blocks are resident on ``units`` units that nobody else uses."""
    if not has_clusters(target):
        raise DoesNotFit(f"{target.arch} launches no clusters of {cluster} blocks")
    if active is not None:
        # the driver knows the GPCs; the product of units and blocks stays a bound whatever it was asked about
        return min(active, units * blocks // cluster)
    if cluster > 2:
        raise DoesNotFit(
            f"how many clusters of {cluster} blocks fit depends on the GPCs of the device: "
            "pass active_clusters from cuOccupancyMaxActiveClusters"
        )
    if units % 2:
        raise DoesNotFit(
            f"an odd partition of {units} units splits a pair, and clusters of 2 need whole ones: "
            "pass active_clusters from cuOccupancyMaxActiveClusters"
        )
    return units // 2 * min(blocks, CLUSTERED_BLOCKS)
