"""From the names on a command line to contracts, implementations and targets."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from harness import registry
from harness.contract import Contract, Implementation
from harness.device.targets import TARGETS, Target
from harness.discover import SetupError

#: How near a target's name has to be: all of them begin alike, and of five characters one may differ.
_NEAR = 0.75


def contract(name: str) -> Contract[Any]:
    """Return the contract called ``name``; raises SetupError with the nearest names."""
    names = [known.name for known in registry.contracts()]
    if name not in names:
        raise SetupError(f"no contract {name!r}{_hint(name, names)}")
    return registry.contract(name)


def pairs(contracts: Sequence[str] = (), impl: str | None = None) -> list[tuple[Contract[Any], Implementation]]:
    """Return every (contract, implementation) of the named contracts, of all where none is named.

    ``impl`` keeps implementations of exactly that name, or whose name continues it after a dash. Raises SetupError
    for an unknown name and where nothing is left.
    """
    chosen = [contract(name) for name in dict.fromkeys(contracts)] or registry.contracts()
    found = [(owner, implementation) for owner in chosen for implementation in registry.implementations(owner.name)]
    if not found:
        among = f" for {', '.join(owner.name for owner in chosen)}" if contracts else ""
        raise SetupError(f"no implementation is registered{among}; name its module: --module, or conformance_modules")
    kept = [pair for pair in found if impl is None or f"{pair[1].name}-".startswith(f"{impl}-")]
    if not kept:
        names = sorted({implementation.name for _, implementation in found})
        raise SetupError(f"no implementation {impl!r}{_hint(str(impl), names)}")
    return kept


def targets(names: Sequence[str] = ()) -> list[Target]:
    """Return the targets called so, by architecture or marker, all where none is named.

    Raises SetupError with the nearest name for one that is not there.
    """
    known = {target.arch: target for target in TARGETS.values()} | TARGETS
    for name in names:
        if name not in known:
            raise SetupError(f"no target {name!r}{_hint(name, [target.arch for target in TARGETS.values()], _NEAR)}")
    chosen = [known[name] for name in names]
    return [target for target in TARGETS.values() if not names or target in chosen]


def virtual_target(name: str) -> str:
    """Return the architecture that the virtual GPU is to be, called by it or by its marker.

    Raises SetupError for one that is not there, or whose numerics are not known.
    """
    from harness.vgpu import profiles

    (target,) = targets([name])
    if target.arch not in profiles.names():
        known = ", ".join(profiles.names())
        raise SetupError(f"--target {target.arch}: its numerics are not known; there are: {known}")
    return target.arch


def _hint(name: str, names: Sequence[str], cutoff: float = 0.6) -> str:
    """``"; did you mean ...?"``, or all there is."""
    near = difflib.get_close_matches(name, names, n=1, cutoff=cutoff)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; there are: {', '.join(names) or 'none'}"
