"""Which device of this machine a test about a target runs on: where there are several, device 0 may be another one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from harness.device import TARGETS, Device, Machine, Target, detect
from harness.hardware.emulation import lacking

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ARCHES = frozenset(target.arch for target in TARGETS.values() if target.vendor == "cuda")


def device_of(target: Target, machine: Machine) -> Device | None:
    """Return the first device of ``machine`` that is a ``target``, or None."""
    return next((device for device in machine.devices if device.arch == target.arch), None)


def stand_in(target: Target, machine: Machine) -> Device | None:
    """Return the device on which ``target`` is emulated: the first that lacks nothing for it.

    Where none is such, the first whose architecture has a name here, for a message; None without one.
    """
    named = [device for device in machine.devices if device.arch in _ARCHES]
    return next((device for device in named if not lacking(device.target, target)), named[0] if named else None)


def device_for(target: Target, machine: Machine) -> Device | None:
    """Return the device on which what is about ``target`` runs: one that is such, else one that stands in for it."""
    return device_of(target, machine) or stand_in(target, machine)


def first_of(markers: Iterable[str], machine: Machine) -> Device | None:
    """Return the first device of ``machine`` that is one of the targets ``markers``, with none given the first named.

    None where there is no such device.
    """
    arches = {TARGETS[marker].arch for marker in markers} or _ARCHES
    return next((device for device in machine.devices if device.arch in arches), None)


@contextmanager
def placed(target: Target | None) -> Iterator[Device | None]:
    """Make the device for ``target`` torch's current one inside the block, and the one before it afterwards.

    Yields that device, None where there is none.  With no other device to choose torch is not asked, so that a process
    which does not use CUDA stays so.
    """
    machine = detect()
    device = None if target is None else device_for(target, machine)
    if device is None or sum(other.vendor == device.vendor for other in machine.devices) == 1:
        yield device
        return
    import torch

    with torch.cuda.device(device.index):
        yield device


def only(device: Device | None) -> dict[str, str]:
    """Return the environment variables that leave a child process ``device`` of those that this one sees.

    None that change anything for None, and for a device of another vendor than NVIDIA's.
    """
    if device is None or device.vendor != "cuda":
        return {}
    visible = [name for name in os.environ.get(_VISIBLE, "").split(",") if name]
    return {_VISIBLE: visible[device.index] if device.index < len(visible) else str(device.index)}


def used(device: Device | None) -> int | None:
    """Return the index of the device that this process uses now, or that of ``device`` where it uses none itself.

    What a test changed counts: it ran where torch's current device is, not where it was put.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return int(torch.cuda.current_device())
    return None if device is None else device.index
