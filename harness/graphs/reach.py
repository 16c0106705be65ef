"""Which ways through a launch function there are: the kernels that a case launches, with their tiles.

A launch function takes one way or another by shapes: more kernels, larger tiles, more warps.  What holds on one side of
such a switch says nothing about the other, so a case that stands for real sizes has to take the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.compiling.recording import Specialisation, record
from harness.compiling.shapes import ShapesOnly
from harness.contract import Contract, Implementation
from harness.device.targets import Target
from harness.poison import Poison

#: Options of a launch that its tiles are chosen with.
_OPTIONS = ("num_warps", "num_stages", "maxnreg")
#: Part of the name of a compile-time constant that is an extent of a tile.
_TILE = "BLOCK"


@dataclass(frozen=True)
class Step:
    """One kernel with the constants that are tiles or switches, and the options that it is compiled with."""

    kernel: str
    constants: tuple[tuple[str, Any], ...]
    options: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        return f"{self.kernel}({', '.join(f'{name}={value}' for name, value in (*self.constants, *self.options))})"


#: What one launch consists of, each specialisation once, in order.
Way = tuple[Step, ...]


@dataclass(frozen=True)
class Users:
    """A case and the ways that the launch functions of ``implementations`` take for it, by target and name."""

    case: Any
    ways: dict[tuple[str, str], Way]


def ways(
    contract: Contract[Any],
    implementations: Sequence[Implementation],
    cases: Iterable[Any],
    targets: Sequence[Target],
) -> list[Users]:
    """Return for each case the way of every implementation on each of ``targets`` that it runs on.

    Arguments are made once a case, and without memory.  Raises what a launch function raises.
    """
    found = []
    for case in cases:
        with ShapesOnly():
            inputs = contract.inputs(case, torch.device("cpu"), Poison())
        found.append(
            Users(
                case,
                {
                    (target.arch, implementation.name): tuple(
                        _step(one) for one in record(implementation.launch, inputs, target)
                    )
                    for implementation in implementations
                    for target in targets
                    if not implementation.requires.targets or target.marker in implementation.requires.targets
                },
            )
        )
    return found


def unreached(wanted: Iterable[Users], standing: Iterable[Users]) -> dict[tuple[str, str], list[tuple[Any, Way]]]:
    """Return, by target and implementation, the first case of each way in ``wanted`` that none ``standing`` takes."""
    taken: dict[tuple[str, str], set[Way]] = {}
    for users in standing:
        for place, way in users.ways.items():
            taken.setdefault(place, set()).add(way)
    missing: dict[tuple[str, str], list[tuple[Any, Way]]] = {}
    for users in wanted:
        for place, way in users.ways.items():
            if way not in taken.setdefault(place, set()):
                taken[place].add(way)
                missing.setdefault(place, []).append((users.case, way))
    return missing


def _step(one: Specialisation) -> Step:
    constants = {name: value for name, value in one.constants.items() if _TILE in name or isinstance(value, bool)}
    return Step(
        kernel=one.kernel,
        constants=tuple(sorted(constants.items())),
        options=tuple((name, one.asked[name]) for name in _OPTIONS if name in one.asked),
    )
