"""Cases launched as if for other targets: what a kernel chooses by target is run on the virtual GPU too.

Launch functions choose tiles, forms and whole paths by target.  One that is pretended shows all of that without the
device: only what the compiler makes of it stays unseen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.contract import Contract, Implementation
from harness.device.targets import TARGETS, Target, target_of
from harness.lanes import Lane, VirtualLane
from harness.outcome import CaseResult
from harness.run import check_case

#: One target for each way to multiply matrices but mma.sync, that of the virtual GPU's default: wgmma, tcgen05, MFMA.
MARKERS = ("sm90", "sm100", "gfx950")


def others(implementation: Implementation) -> tuple[Target, ...]:
    """Return the targets of ``MARKERS`` that ``implementation`` runs on."""
    wanted = implementation.requires.targets
    found = [TARGETS[marker] for marker in MARKERS]
    return tuple(t for t in found if not wanted or t.marker in wanted or t.vendor in wanted)


def check_elsewhere(
    contract: Contract[Any], implementation: Implementation, case: Any, lane: VirtualLane, target: Target
) -> CaseResult:
    """Return what one launch of ``case`` as on ``target`` gets wrong; messages say so."""
    result = check_case(contract, implementation, case, lane=as_on(lane, target), only="memory")
    result.violations = [replace(v, message=f"[as on {target.arch}] {v.message}") for v in result.violations]
    return result


def check_one_elsewhere(
    contract: Contract[Any], implementation: Implementation, number: int, case: Any, lane: Lane
) -> CaseResult:
    """Return what case ``number`` gets wrong as on one other target than the lane's, each target in its turn.

    Nothing where there is no other one, nor on a lane whose target is given.
    """
    targets = others(implementation)
    if not targets or not isinstance(lane, VirtualLane):
        return CaseResult()
    return check_elsewhere(contract, implementation, case, lane, targets[number % len(targets)])


def virtual_lane(target: str | None) -> VirtualLane:
    """Return the virtual GPU as architecture ``target`` (``"sm_90"``), None: as what launch functions choose for.

    Raises ValueError for an unknown one.
    """
    return VirtualLane() if target is None else as_on(VirtualLane(), target_of(target))


def as_on(lane: VirtualLane, target: Target) -> VirtualLane:
    """Return ``lane`` with the launches, and as far as they are known the numerics, of ``target``."""
    from harness.vgpu import profiles

    known = target.arch in profiles.names()
    return replace(lane, target=target.marker, profile=target.arch if known else lane.profile)
