"""What a test may ask of a machine, as pytest marker names, and whether a machine has it."""

from __future__ import annotations

from collections.abc import Iterable

from harness.device.machine import Machine
from harness.device.targets import TARGETS

_CLASSES = {
    "gpu": "needs a GPU of any kind",
    "cuda": "needs an NVIDIA GPU",
    "rocm": "needs an AMD GPU",
    "multi_gpu": "needs two or more GPUs",
}

#: Marker name -> its description in ``pytest --markers``.
MARKERS: dict[str, str] = _CLASSES | {
    marker: f"needs {target.arch} ({target.summary}); several target markers are alternatives"
    for marker, target in TARGETS.items()
}


def unmet(wanted: Iterable[str], machine: Machine, *, gpus: int = 0) -> str | None:
    """Return ``"needs sm_120, found no GPU"``, or None where ``machine`` has all that ``wanted`` names.

    Target markers are alternatives to each other; the others and ``gpus``, a number of devices, add up.
    Raises KeyError for a name that is not in ``MARKERS``.
    """
    names = list(wanted)
    for name in names:
        if name not in MARKERS:
            raise KeyError(f"no marker {name!r}; there are: {', '.join(MARKERS)}")
    targets = [TARGETS[name].arch for name in MARKERS if name in names and name in TARGETS]
    fitting = [device for device in machine.devices if not targets or device.arch in targets]
    needs = [" or ".join(targets)] if targets else []
    short = bool(targets) and not fitting
    for vendor, word in (("cuda", "an NVIDIA GPU"), ("rocm", "an AMD GPU")):
        if vendor in names:
            fitting = [device for device in fitting if device.vendor == vendor]
            needs.append(word)
            short |= not fitting
    count = max(gpus, 2 if "multi_gpu" in names else 1 if "gpu" in names else 0)
    if count and not (count == 1 and needs):
        needs.append("a GPU" if count == 1 else f"{count} GPUs")
    short |= len(fitting) < count
    return f"needs {', '.join(needs)}, found {machine}" if short else None
