"""Which targets the tests of a run are about: those that ``-m`` names, those emulated, and those that are here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from harness.device import MARKERS, TARGETS, Device, Machine, Target, detect, unmet
from harness.discover import SetupError
from harness.hardware import marks
from harness.hardware.emulation import emulating, lacking
from harness.hardware.placing import device_for, first_of, placed, stand_in, used

#: The fixture that makes a test one about a target.
FIXTURE = "gpu_target"
_PLACED = pytest.StashKey[Device | None]()


def named(expression: str) -> list[str]:
    """Return the target markers that a marker expression (``-m``) asks for, in the order of the table.

    Those for which a test may be selected; a name that is there to leave tests out asks for nothing.
    """
    return [marker for marker in TARGETS if marker in expression and marks.wants(expression, marker)]


def targets(
    machine: Machine, *, expression: str = "", emulated: str | None = None, own: Iterable[str] = ()
) -> list[Target]:
    """Return the targets that a test with the target markers ``own`` (none: any CUDA target) is collected for.

    Those of ``machine``, the one ``emulated`` and those that ``expression`` names: what it does not select of them,
    pytest deselects.  May be empty.  Where a test has markers of its own, all of its parameters have them too, and
    pytest cannot tell: an expression that is nothing but targets leaves the others out here.
    """
    chosen = set(own)
    possible = [
        marker for marker, target in TARGETS.items() if (marker in chosen if chosen else target.vendor == "cuda")
    ]
    present = {device.arch for device in machine.devices}
    wanted = {marker for marker, target in TARGETS.items() if target.arch in present or marker == emulated}
    wanted |= set(named(expression))
    if chosen and set(re.findall(r"\w+", expression)) <= {"or", *TARGETS}:
        wanted &= set(named(expression)) or wanted
    return [TARGETS[marker] for marker in possible if marker in wanted]


def parameters(metafunc: pytest.Metafunc) -> list[Any]:
    """Return pytest's parameters of ``gpu_target``, each with its target's marker; one without where there is none."""
    own = {marker.name for marker in metafunc.definition.iter_markers()} & set(MARKERS)
    config = metafunc.config
    found = targets(
        detect(),
        expression=config.getoption("markexpr", ""),
        emulated=config.getoption("emulate", None),
        own=own & set(TARGETS),
    )
    if not found:
        return [pytest.param(None, id="no-target", marks=[] if own else [pytest.mark.cuda])]
    return [pytest.param(target, id=target.arch, marks=getattr(pytest.mark, target.marker)) for target in found]


def reason_to_skip(item: pytest.Item) -> str | None:
    """Return ``"needs sm_120, found sm_90"`` for a test that lacks its hardware, or None.

    A test about a target needs that target, or a GPU that can stand in for the one that ``--emulate`` names.
    """
    markers = {marker.name for marker in item.iter_markers() if marker.name in MARKERS}
    if not markers:
        return None
    machine = detect()
    target = of(item)
    if target is None:
        return unmet(markers, machine)
    # the target's own marker; the others are alternatives that this test is not about
    others = [name for name in markers if name not in TARGETS]
    missing = unmet([target.marker, *others], machine)
    if missing is None or item.config.getoption("emulate", None) != target.marker:
        return missing
    present = stand_in(target, machine)
    if present is None:
        return f"needs {target.arch} or a GPU that can stand in for it, found {machine}"
    short = lacking(present.target, target)
    if short:
        return f"needs {target.arch}: {present.arch}, which is here, has no {', '.join(short)}"
    return unmet(others, machine)


def lane_target(emulated: str | None) -> Target:
    """Return the target of the device lane: that of the first GPU here, or the one called ``emulated`` in its place.

    Raises SetupError where there is none that could.
    """
    if emulated is not None and emulated not in TARGETS:
        raise SetupError(f"--emulate: no target {emulated!r}; there are: {', '.join(TARGETS)}")
    machine = detect()
    device = first_of((), machine) if emulated is None else device_for(TARGETS[emulated], machine)
    if device is None:
        raise SetupError(f"--lane device: needs a GPU, found {machine}")
    if emulated is None:
        return device.target
    if short := lacking(device.target, TARGETS[emulated]):
        raise SetupError(f"--emulate {emulated}: {device.arch}, which is here, has no {', '.join(short)}")
    return TARGETS[emulated]


def is_emulated(item: pytest.Item) -> bool:
    """Whether ``item`` is about a target that is not here and that another GPU stands in for."""
    target = of(item)
    return (
        target is not None
        and item.config.getoption("emulate", None) == target.marker
        and all(device.arch != target.arch for device in detect().devices)
    )


@contextmanager
def on_its_device(item: pytest.Item, target: Target | None) -> Iterator[None]:
    """Make the device for ``target`` the current one, emulating ``target`` where it only stands in for it."""
    with placed(target) as device:
        item.stash[_PLACED] = device
        with emulating(target) if target is not None and is_emulated(item) else nullcontext():
            yield


def device_index(item: pytest.Item) -> int | None:
    """Return the index of the device that ``item`` uses, None if it uses none."""
    return used(item.stash.get(_PLACED, None))


def of(item: pytest.Item) -> Target | None:
    """Return the target that ``item`` was collected for."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get(FIXTURE)
