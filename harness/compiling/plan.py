"""Which specialisations are compiled for which targets: those that implementations launch on their contract's cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from harness import cases
from harness.compiling import sources
from harness.compiling.cache import key_of
from harness.compiling.figures import Result
from harness.compiling.messages import one_line
from harness.compiling.naming import config_of, parts_of, qualified
from harness.compiling.recording import Specialisation, record
from harness.compiling.shapes import ShapesOnly
from harness.contract import Contract, Expected, Implementation, Requires
from harness.device.capabilities import installed_triton
from harness.device.targets import TARGETS, Target
from harness.poison import Poison

Pair = tuple[Contract[Any], Implementation]
_VENDORS = ("cuda", "rocm")
#: Where a contract's pinned cases are compiled besides its workloads: one target for each way to multiply small
#: matrices (wgmma, mma.sync, MFMA; tcgen05 takes the workloads' tiles only).  Elsewhere they would cost as much again
#: and show the same.
CORNER_TARGETS = frozenset({"sm90", "sm120", "gfx950"})


@dataclass(frozen=True, kw_only=True)
class Use:
    """One implementation's need of one specialisation: ``key`` says which, ``case`` is the first that asks for it.

    ``kernel`` is the qualified name of the jitted function, ``config`` what tells its configurations apart, the same
    on every target. Where the launch itself raised, ``kernel`` is ``"(launch)"`` and ``problem`` the result.
    """

    contract: str
    implementation: str
    target: Target
    kernel: str
    config: str
    key: str
    case: str
    expected: Expected | None = None
    problem: Result | None = None


@dataclass(kw_only=True)
class Plan:
    """Every use, each distinct specialisation by its key, and all grids by implementation, kernel and target."""

    uses: list[Use] = field(default_factory=list)
    specialisations: dict[str, Specialisation] = field(default_factory=dict)
    grids: dict[tuple[str, str, str], set[tuple[int, ...]]] = field(default_factory=dict)


def without_cases(pairs: Sequence[Pair]) -> list[str]:
    """Return the names of the contracts that give nothing to launch: no workload, no pinned case, none declared."""
    declaring = {contract.name for contract, implementation in pairs if implementation.compiles.cases}
    named = {contract.name: contract for contract, _ in pairs if not (contract.workloads or contract.pinned)}
    return [name for name in named if name not in declaring]


def targets_of(implementation: Implementation, targets: Sequence[Target]) -> list[Target]:
    """Return those of ``targets`` that ``implementation`` runs on, or of which it declares what happens there."""
    named = _named(implementation.requires)
    declared = {marker for expected in _expectations(implementation) for marker in expected.targets}
    return [t for t in targets if named is None or t.marker in named | declared]


def make(
    pairs: Sequence[Pair], targets: Sequence[Target], on_case: Callable[[str], object] = lambda text: None
) -> Plan:
    """Launch every implementation on its cases as if on each of ``targets``, and return what would be compiled.

    ``on_case`` is told what is about to be launched.
    """
    plan = Plan()
    # sources are read once: what they say cannot change while they are launched
    digest = cache(sources.digest)
    seen: set[tuple[str, str, str, str]] = set()
    for contract in {id(contract): contract for contract, _ in pairs}.values():
        implementations = [implementation for owner, implementation in pairs if owner is contract]
        for case, users, places in _cases(contract, implementations, targets):
            on_case(f"{contract.name} {case!r}")
            with ShapesOnly():
                inputs = contract.inputs(case, torch.device("cpu"), Poison())
            for implementation in users:
                for target in targets_of(implementation, places):
                    for use, specialisation in _uses(contract, implementation, target, case, inputs, digest):
                        once = (use.implementation, use.contract, target.arch, use.key)
                        if once not in seen:
                            seen.add(once)
                            plan.uses.append(use)
                        if specialisation is not None:
                            plan.specialisations.setdefault(use.key, specialisation)
                            plan.grids.setdefault((str(implementation), use.kernel, target.arch), set()).update(
                                specialisation.grids
                            )
    return plan


def _named(requires: Requires) -> set[str] | None:
    """Return the markers of the targets that ``requires`` admits, None for all."""
    vendors = {name for name in requires.targets if name in _VENDORS}
    chosen = {name for name in requires.targets if name in TARGETS}
    if not vendors and not chosen:
        return None
    fitting = chosen or set(TARGETS)
    return {marker for marker in fitting if not vendors or TARGETS[marker].vendor in vendors}


def _expectations(implementation: Implementation) -> list[Expected]:
    version = installed_triton()
    return [e for e in implementation.compiles.expected if not e.triton or version in e.triton]


def _cases(
    contract: Contract[Any], users: Sequence[Implementation], targets: Sequence[Target]
) -> list[tuple[Any, Sequence[Implementation], Sequence[Target]]]:
    """Return each case with who launches it and where: the contract's, and those that single ones of ``users`` declare.

    A contract without workloads has its pinned cases compiled for every target.
    """
    corners = [t for t in targets if t.marker in CORNER_TARGETS] if contract.workloads else targets
    own = [(cases.parse(contract, text), [user], targets) for user in users for text in user.compiles.cases]
    return [
        *((case, users, targets) for case in contract.workloads),
        *own,
        *((case, users, corners) for case in contract.pinned if corners),
    ]


def _uses(
    contract: Contract[Any],
    implementation: Implementation,
    target: Target,
    case: Any,
    inputs: dict[str, Any],
    digest: Callable[[Any], str],
) -> list[tuple[Use, Specialisation | None]]:
    common: dict[str, Any] = {
        "contract": contract.name,
        "implementation": implementation.name,
        "target": target,
        "case": repr(case),
    }
    declared = [e for e in _expectations(implementation) if target.marker in e.targets]
    try:
        found = record(implementation.launch, inputs, target)
    except Exception as error:
        message = one_line(f"the launch raised {type(error).__name__}: {error}")
        expected = next((e for e in declared if not e.kernel), None)
        problem = Result(ending="refused", message=message)
        use = Use(kernel="(launch)", config="", key=message, expected=expected, problem=problem, **common)
        return [(use, None)]
    return [
        (
            Use(
                kernel=qualified(one),
                config=config_of(one),
                key=key_of(parts_of(one, digest)),
                expected=next((e for e in declared if e.kernel in ("", one.kernel)), None),
                **common,
            ),
            one,
        )
        for one in found
    ]
