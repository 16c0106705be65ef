"""Grids that a barrier may span: bounds worked out by hand from published limits and an H200's driver's answers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

from harness.device import DEVICES, Device, DriverFacts, Machine, target_of
from harness.launch import grids, sm_budget
from harness.launch.physical import Described, NoDevice, physical_from
from harness.launch.residency import Resources
from harness.policies.budgets import Devices
from harness.policies.saying import accepts, differs, standing_in

#: A block of 32 warps with 32 registers a thread: two an SM of sm_90, one of sm_120, and of an MI300's unit.
_WIDE = Resources(num_warps=32, registers=32, shared_dynamic=4)
#: A block of 4 warps: 16 an SM of sm_90.
_SMALL = Resources(num_warps=4, registers=32, shared_dynamic=4)
#: One block an SM of sm_90, by its registers.
_FULL = Resources(num_warps=8, registers=255)

#: What is asked for (blocks, a block, where), how, and the answer: grid, bound, units.
_RIGHT: tuple[tuple[int, Resources, str, dict[str, Any], tuple[int, int, int]], ...] = (
    (1, _WIDE, "H200", {}, (1, 264, 132)),
    (264, _WIDE, "H200", {}, (264, 264, 132)),
    (265, _WIDE, "H200", {}, (264, 264, 132)),
    (265, _WIDE, "H200", {"num_sms": 132}, (264, 264, 132)),
    (9999, _FULL, "H200", {"num_sms": 1}, (1, 1, 1)),
    (9999, _WIDE, "sm_90", {"num_sms": 96}, (192, 192, 96)),
    (9999, _WIDE, "RTX PRO 6000", {}, (188, 188, 188)),
    (264, _WIDE, "H200", {"reserved": 2}, (260, 260, 130)),
    (264, _WIDE, "H200", {"reserved": 131}, (2, 2, 1)),
    (9999, _FULL, "H200", {"reserved": 3}, (129, 129, 129)),
    (133, _WIDE, "H200", {"even": True}, (132, 264, 132)),
    (134, _WIDE, "H200", {"even": True}, (134, 264, 132)),
    (9999, _FULL, "sm_90", {"num_sms": 75, "even": True}, (74, 74, 75)),
    (3, _FULL, "sm_90", {"num_sms": 2, "even": True}, (2, 2, 2)),
    (9999, _WIDE, "H200", {"clusters": 2}, (264, 264, 132)),
    (263, _WIDE, "H200", {"clusters": 2}, (262, 264, 132)),
    # the driver of an H200 finds 528 pairs of this block
    (9999, _SMALL, "H200", {"clusters": 2}, (1056, 1056, 132)),
    # each of the two blocks that a held SM would have may belong to a cluster of its own
    (9999, _WIDE, "H200", {"clusters": 2, "reserved": 1}, (260, 260, 131)),
    (9999, _WIDE, "H200", {"clusters": 4, "active_clusters": 64}, (256, 256, 132)),
    (9999, _WIDE, "H200", {"clusters": 4, "active_clusters": 64, "reserved": 3}, (232, 232, 129)),
    (9999, _WIDE, "H200", {"clusters": 2, "active_clusters": 999}, (264, 264, 132)),
    (9999, _WIDE, "sm_90", {"num_sms": 95, "clusters": 2, "active_clusters": 94}, (188, 188, 95)),
    (9999, _WIDE, "H200", {"clusters": 3, "active_clusters": 40, "even": True}, (120, 120, 132)),
    (119, _WIDE, "H200", {"clusters": 3, "active_clusters": 40, "even": True}, (114, 120, 132)),
    # one cluster is all that is resident, and all that is wanted
    (2, _FULL, "sm_90", {"num_sms": 2, "clusters": 2}, (2, 2, 2)),
)
#: What is asked for, how, and why not: a kind of error, and words of it.
_NOT: tuple[tuple[int, Resources, str, dict[str, Any], type[Exception], str], ...] = (
    (1, Resources(num_warps=4, registers=128, shared_dynamic=131_104), "RTX PRO 6000", {},
     grids.DoesNotFit, "no unit of sm_120 holds a block: 131104 bytes of shared memory"),
    (264, _WIDE, "H200", {"reserved": 132}, grids.DoesNotFit, "reserve of 132 leaves none of 132 units"),
    (264, _WIDE, "H200", {"num_sms": 40, "reserved": 41}, grids.DoesNotFit, "reserve of 41 leaves none of 40 units"),
    (1, _WIDE, "H200", {"even": True}, grids.DoesNotFit, "wanted 1: the smallest grid has 2 blocks"),
    (8, _FULL, "H200", {"num_sms": 1, "even": True}, grids.DoesNotFit, "fewer than the 2 blocks"),
    (9999, _WIDE, "H200", {"num_sms": 2, "clusters": 2, "reserved": 1}, grids.DoesNotFit, "fewer than the 2 blocks"),
    (1, _WIDE, "H200", {"clusters": 2}, grids.DoesNotFit, "wanted 1: the smallest grid has 2 blocks"),
    (9999, _WIDE, "H200", {"num_sms": 95, "clusters": 2}, grids.DoesNotFit, "an odd partition of 95 units"),
    (9999, _WIDE, "H200", {"clusters": 3}, grids.DoesNotFit, "clusters of 3 blocks fit depends on"),
    (9999, _WIDE, "H200", {"clusters": 4}, grids.DoesNotFit, "clusters of 4 blocks fit depends on"),
    (4, _SMALL, "MI300X", {"clusters": 2}, grids.DoesNotFit, "gfx942 launches no clusters of 2"),
    (4, _SMALL, "MI300X", {"clusters": 2, "active_clusters": 9}, grids.DoesNotFit, "gfx942 launches no clusters of 2"),
    (9999, _WIDE, "H200", {"clusters": 2, "active_clusters": 0}, grids.DoesNotFit, "fewer than the 2 blocks"),
    (4, _WIDE, "sm_90", {}, ValueError, "num_sms: wanted a number of units with a Target"),
    (4, _WIDE, "sm_90", {"num_sms": 0}, ValueError, "num_sms: wanted at least 1, got 0"),
    (4, _WIDE, "H200", {"num_sms": 133}, ValueError, "num_sms: wanted at most the 132 units"),
    (0, _WIDE, "H200", {}, ValueError, "wanted: wanted at least 1, got 0"),
    (4, _WIDE, "H200", {"reserved": -1}, ValueError, "reserved: wanted at least 0, got -1"),
    (4, _WIDE, "H200", {"clusters": 0}, ValueError, "clusters: wanted at least 1, got 0"),
    (4, _WIDE, "H200", {"active_clusters": 5}, ValueError, "active_clusters: wanted a count with clusters > 1"),
    (4, _WIDE, "H200", {"clusters": 2, "active_clusters": -1}, ValueError, "active_clusters: wanted a count"),
)  # fmt: skip


def _safe(wanted: int, block: Resources, where: Any, given: dict[str, Any]) -> grids.SafeGrid:
    place = where if not isinstance(where, str) else DEVICES[where] if where in DEVICES else target_of(where)
    return grids.barrier_safe_grid(wanted, block, place, **given)


def a_grid_is_resident_as_a_whole() -> Iterator[str]:
    """At most what is asked for, at most what is resident, whole clusters, even where asked, units left free."""
    with standing_in(grids, detect=Machine):
        for wanted, block, where, given, right in _RIGHT:
            found = _safe(wanted, block, where, given)
            what = f"{wanted} blocks of {block.num_warps} warps on {where} {given}"
            yield from differs(what, (found.grid, found.bound, found.num_sms), right)


def a_grid_that_cannot_be_is_refused() -> Iterator[str]:
    """Refusals come before any number is given out, and say why."""
    with standing_in(grids, detect=Machine):
        for wanted, block, where, given, kind, words in _NOT:
            ask = partial(_safe, wanted, block, where, given)
            yield from accepts(f"{wanted} blocks on {where} {given}", kind, words, ask)


def a_grid_says_why_it_is_no_larger() -> Iterator[str]:
    """The reason names units, blocks, limiter, reserve and clusters."""
    with standing_in(grids, detect=Machine):
        plain, held = _safe(300, _WIDE, "H200", {}), _safe(300, _WIDE, "H200", {"reserved": 2})
        paired = _safe(300, _WIDE, "H200", {"clusters": 2, "reserved": 3})
    units = f"132 units of sm_90 x 2 blocks (warps: {plain.residency.detail})"
    yield from differs("the reason", plain.reason, f"wanted 300, at most 264 resident: {units}")
    left = f"132 - 2 reserved = 130 units of sm_90 x 2 blocks (warps: {plain.residency.detail})"
    yield from differs("with a reserve", held.reason, f"wanted 300, at most 260 resident: {left}")
    left = f"132 - 3 reserved = 129 units of sm_90 x 2 blocks (warps: {plain.residency.detail}), 126 clusters of 2"
    yield from differs("with clusters", paired.reason, f"wanted 300, at most 252 resident: {left}")


def clusters_are_counted_by_the_driver_where_it_can_be_asked() -> Iterator[str]:
    """Of a compiled kernel's function the driver knows how many clusters are resident, if its target has clusters."""
    asked: list[Any] = []

    def count(*given: Any) -> int:
        asked.append(given)
        return 60

    with standing_in(grids, detect=Machine, drivers=SimpleNamespace(active_clusters=count)):
        found = _safe(9999, _WIDE, "H200", {"clusters": 2, "function": 7})
        yield from differs("as the driver says", (found.bound, asked), (120, [(7, 2, _WIDE)]))
        told = _safe(9999, _WIDE, "H200", {"clusters": 2, "function": 7, "active_clusters": 30})
        own = Resources(num_warps=32, registers=32, shared_dynamic=4, cluster_size=2)
        yield from differs("the kernel's own clusters", _safe(9999, own, "H200", {}).bound, 264)
        single = _safe(9999, own, "H200", {"clusters": 1, "function": 7})
        yield from differs("without clusters", single.bound, 264)
        yield from differs("as the caller says", (told.bound, len(asked)), (60, 1))
        why = "gfx942 launches no clusters"
        yield from accepts(
            "where there are none",
            grids.DoesNotFit,
            why,
            lambda: _safe(4, _SMALL, "MI300X", {"clusters": 2, "function": 7}),
        )
        yield from differs("nobody is asked then", len(asked), 1)


def a_real_devices_own_limits_and_units_count() -> Iterator[str]:
    """What a device's driver states stands for what its target has."""
    facts = DriverFacts(threads_per_unit=1024, shared_per_unit=65_536, blocks_per_unit=3)
    device = Device(index=1, vendor="cuda", arch="sm_90", units=16, driver=facts)
    with standing_in(grids, detect=Machine):
        bounds = [_safe(9999, block, device, {}).bound for block in (_SMALL, Resources(num_warps=16, registers=32))]
    yield from differs("blocks of 4 and 16 warps", bounds, [48, 32])


def what_this_context_may_use_of_a_device_counts() -> Iterator[str]:
    """Of this machine's devices the current context's share counts, and the budget; of others the whole."""
    here = Device(index=0, vendor="cuda", arch="sm_90", units=132)
    other = Device(index=1, vendor="cuda", arch="sm_90", units=96)
    absent = Device(index=0, vendor="cuda", arch="sm_90", units=80)
    bounds = []
    with standing_in(grids, detect=lambda: Machine(devices=(here, other))), physical_from(Described(100)):
        bounds += [_safe(9999, _FULL, where, {}).bound for where in (here, "H200", absent, other, "B200")]
        in_part = _safe(9999, _FULL, here, {}).reason
        with sm_budget.sm_budget(10):
            bounds.append(_safe(9999, _FULL, here, {}).bound)
        bounds.append(_safe(9999, _FULL, here, {"num_sms": 132}).bound)
        bounds.append(_safe(9999, _FULL, "sm_90", {"num_sms": 5}).bound)
        yield from accepts(
            "a target alone", ValueError, "num_sms: wanted a number", lambda: _safe(4, _FULL, "sm_90", {})
        )
    # the second device, whose share nobody here can say, is counted whole; so is one that is not here
    yield from differs("blocks of one an SM", bounds, [100, 100, 80, 96, 148, 90, 132, 5])
    yield from differs("it is said", "x 1 blocks" in in_part and "(100 of 132 in this context" in in_part, True)
    with standing_in(grids, detect=lambda: Machine(devices=(here,))), physical_from(Described(200)):
        whole = _safe(9999, _FULL, here, {})
        yield from differs("more than there are", (whole.bound, "in this context" in whole.reason), (132, False))
    twin = Device(index=1, vendor="cuda", arch="sm_90", units=132)
    with standing_in(grids, detect=lambda: Machine(devices=(other, twin))), physical_from(Devices(80, 40)):
        yield from differs("a product that is not the current device", _safe(9999, _FULL, "H200", {}).bound, 132)
        yield from differs("a device that is not the current one", _safe(9999, _FULL, twin, {}).bound, 40)
    with standing_in(grids, detect=Machine), physical_from(_Nobody()):
        yield from differs("without a device", _safe(9999, _FULL, "H200", {}).bound, 132)
        yield from differs("a device of another machine", _safe(9999, _FULL, absent, {}).bound, 80)


class _Nobody(Described):
    """There is no device to be asked."""

    def __init__(self) -> None:
        super().__init__(0)

    def current_device(self) -> int:
        raise NoDevice("nobody is here")


RIGHT = (
    a_grid_is_resident_as_a_whole,
    a_grid_that_cannot_be_is_refused,
    a_grid_says_why_it_is_no_larger,
    clusters_are_counted_by_the_driver_where_it_can_be_asked,
    a_real_devices_own_limits_and_units_count,
    what_this_context_may_use_of_a_device_counts,
)
