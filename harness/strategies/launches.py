"""Launches around the residency bound, and nests of SM budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hypothesis import strategies as st

from harness.device.capabilities import has_clusters
from harness.device.limits import NvidiaLimits
from harness.device.targets import TARGETS, target_of
from harness.launch.grids import SafeGrid, barrier_safe_grid
from harness.launch.residency import Resources, resident_blocks
from harness.strategies.spec import Spec, require

ARCHS = tuple(target.arch for target in TARGETS.values())
#: The counts of SMs and CUs that contracts name, some odd ones, and both ends of what partitions have.
COUNTS = (48, 49, 78, 80, 84, 95, 96, 131, 132, 148, 152, 160, 170, 188, 192, 256, 304)
# The common one first, for shrinking; then what the granularities of the targets make a difference to.
_WARPS = (4, 1, 2, 3, 5, 6, 8, 16, 32)
_REGISTERS = (32, 16, 33, 65, 72, 96, 128, 168, 255)


@dataclass(frozen=True, kw_only=True, repr=False)
class Launch(Spec):
    """A kernel with a grid barrier that somebody wants to launch with ``wanted`` blocks on ``num_sms`` SMs or CUs.

    ``registers`` a thread, ``shared`` bytes a block, ``clusters`` blocks in a cluster; ``reserved`` SMs may be held by
    another kernel.
    """

    wanted: int
    arch: str = "sm_90"
    num_sms: int = 132
    num_warps: int = 4
    registers: int = 32
    shared: int = 0
    reserved: int = 0
    even: bool = False
    clusters: int = 1

    def __post_init__(self) -> None:
        require(self.arch in ARCHS, "arch", f"one of {', '.join(ARCHS)}", self.arch)
        require(self.wanted >= 1, "wanted", "at least 1", self.wanted)
        require(self.num_sms >= 1, "num_sms", "at least 1", self.num_sms)
        require(self.reserved >= 0, "reserved", "at least 0", self.reserved)

    @property
    def resources(self) -> Resources:
        """What one block takes."""
        return Resources(
            num_warps=self.num_warps,
            registers=self.registers,
            shared_dynamic=self.shared,
            cluster_size=self.clusters,
        )

    @property
    def blocks_per_sm(self) -> int:
        """Blocks that one SM or CU holds; 0 where none fits."""
        return resident_blocks(self.resources, target_of(self.arch).limits).blocks_per_sm

    def safe_grid(self) -> SafeGrid:
        """Ask ``barrier_safe_grid``; raises what it raises."""
        return barrier_safe_grid(
            self.wanted,
            self.resources,
            target_of(self.arch),
            num_sms=self.num_sms,
            reserved=self.reserved,
            even=self.even,
        )


def _shared_edges(arch: str) -> tuple[int, ...]:
    """Bytes of shared memory at which one block fewer fits, and a byte to either side of the most."""
    limits = target_of(arch).limits
    if isinstance(limits, NvidiaLimits):
        whole, most, unit, reserve = limits.shared, limits.shared_per_block, limits.shared_unit, limits.shared_reserved
    else:
        whole, most, unit, reserve = limits.lds, limits.lds_per_workgroup, limits.lds_unit, 0
    edges = {0, most, most + 1}
    for blocks in (2, 3, 8):
        largest = whole // blocks // unit * unit - reserve
        edges |= {largest, largest + 1}
    return tuple(sorted(edges))


@st.composite
def _launches(draw: st.DrawFn, archs: tuple[str, ...], counts: tuple[int, ...], clusters: bool) -> Launch:
    arch = draw(st.sampled_from(archs))
    paired = clusters and has_clusters(target_of(arch)) and draw(st.booleans())
    # few counts are odd, and pairs on an odd number of SMs are what goes wrong
    num_sms = draw(st.sampled_from((*counts, *(count for count in counts if count % 2)) if paired else counts))
    num_warps = draw(st.sampled_from(_WARPS))
    registers = draw(st.sampled_from(_REGISTERS))
    shared = draw(st.sampled_from(_shared_edges(arch)))
    reserved = draw(st.sampled_from(_reserves(num_sms)))
    even = draw(st.booleans())
    kernel = Launch(
        wanted=1,
        arch=arch,
        num_sms=num_sms,
        num_warps=num_warps,
        registers=registers,
        shared=shared,
        reserved=reserved,
        even=even,
        clusters=2 if paired else 1,
    )
    bound = max(1, num_sms - reserved) * max(1, kernel.blocks_per_sm)
    edges = {1, 2, num_sms, num_sms + 1, bound - 1, bound, bound + 1, 2 * bound, num_sms * max(1, kernel.blocks_per_sm)}
    wanted = draw(st.sampled_from(sorted(edge for edge in edges if edge >= 1)))
    return replace(kernel, wanted=wanted)


def _reserves(physical: int) -> tuple[int, ...]:
    """Reserves from none to all, and one more than there is; the commonest first."""
    return tuple(dict.fromkeys((0, 2, 1, 3, max(0, physical - 2), max(0, physical - 1), physical, physical + 1)))


def launches(
    *, archs: Sequence[str] = ARCHS, counts: Sequence[int] = COUNTS, clusters: bool = True
) -> st.SearchStrategy[Launch]:
    """Launches on ``archs`` with one of ``counts`` SMs or CUs, half of them at or past an edge of residency.

    Reaches grids one below, at and one above what is resident; blocks at each step of registers and shared memory, and
    such as no SM holds; reserves from 0 to all and beyond; odd counts; even grids; and, unless ``clusters`` is False,
    clusters of 2 where the target has them.  Shrinks to one block of the first kernel on the first target.
    Raises ValueError on impossible arguments.
    """
    require(bool(archs), "archs", "at least one target", archs)
    for arch in archs:
        require(arch in ARCHS, "archs", f"targets among {', '.join(ARCHS)}", arch)
    require(bool(counts), "counts", "at least one number", counts)
    for count in counts:
        require(count >= 1, "counts", "numbers of at least 1", count)
    return _launches(tuple(archs), tuple(counts), clusters)


#: ``("set", n)`` limits what follows to n SMs, ``("reserve", n)`` leaves n free for what is inside.
BudgetStep = tuple[Literal["set", "reserve"], int]


@dataclass(frozen=True, kw_only=True, repr=False)
class Budgets(Spec):
    """A nest of SM budgets on a device of ``physical`` SMs: ``steps``, the outermost first, and who leaves badly.

    ``raises_at`` is the number of the step in whose body an exception is raised, None for none.
    """

    physical: int
    steps: tuple[BudgetStep, ...] = ()
    raises_at: int | None = None

    def __post_init__(self) -> None:
        require(self.physical >= 1, "physical", "at least 1", self.physical)
        for kind, amount in self.steps:
            require(kind in ("set", "reserve"), "steps", '"set" or "reserve"', kind)
            require(amount >= (1 if kind == "set" else 0), "steps", "a budget from 1, a reserve from 0", amount)
        inside = self.raises_at is None or 0 <= self.raises_at < len(self.steps)
        require(inside, "raises_at", "the number of a step", self.raises_at)


@st.composite
def _budgets(draw: st.DrawFn, counts: tuple[int, ...], max_steps: int) -> Budgets:
    physical = draw(st.sampled_from(counts))
    limits = dict.fromkeys((physical, 1, 2, 3, max(1, physical - 1), max(1, physical - 2), physical + 2))
    step: st.SearchStrategy[BudgetStep] = st.one_of(
        st.tuples(st.just("reserve"), st.sampled_from(_reserves(physical))),
        st.tuples(st.just("set"), st.sampled_from(tuple(limits))),
    )
    steps = tuple(draw(st.lists(step, max_size=max_steps)))
    raises_at = draw(st.none() | st.integers(0, len(steps) - 1)) if steps else None
    return Budgets(physical=physical, steps=steps, raises_at=raises_at)


def budgets(*, counts: Sequence[int] = (*COUNTS, 1, 2, 3), max_steps: int = 4) -> st.SearchStrategy[Budgets]:
    """Nests of at most ``max_steps`` budgets on a device of one of ``counts`` SMs.

    Reaches reserves from 0 to all and beyond, outer budgets of 1, 2 and 3, budgets above what there is, the same
    reserve twice (which must not add up), an exception in any body.  Shrinks to no budget on the first device.
    Raises ValueError on impossible arguments.
    """
    require(bool(counts), "counts", "at least one number", counts)
    for count in counts:
        require(count >= 1, "counts", "numbers of at least 1", count)
    require(max_steps >= 0, "max_steps", "at least 0", max_steps)
    return _budgets(tuple(counts), max_steps)
