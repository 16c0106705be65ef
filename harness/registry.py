"""Where contracts and implementations are found: the decorator, the contracts shipped here, other people's modules."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Any, TypeVar

from harness.contract import Capturable, CaseT, Compiles, Contract, Implementation, Interleavings, Requires
from harness.known import Known

ENTRY_POINT_GROUP = "harness.register"

_contracts: dict[str, Contract[Any]] = {}
_implementations: dict[tuple[str, str], Implementation] = {}

LaunchT = TypeVar("LaunchT", bound=Callable[..., Any])


def register(contract: Contract[CaseT]) -> Contract[CaseT]:
    """Add ``contract`` and return it; raises ValueError if one of that name is there already."""
    if contract.name in _contracts:
        raise ValueError(f"contract {contract.name!r} is already registered")
    _contracts[contract.name] = contract
    return contract


def implements(
    contract: str,
    *,
    name: str,
    requires: Requires = Requires(),
    known: tuple[Known, ...] = (),
    compiles: Compiles = Compiles(),
    interleavings: Interleavings | None = None,
    capturable: Capturable | None = None,
) -> Callable[[LaunchT], LaunchT]:
    """Put a launch function under every check of ``contract``.

    The function is returned unchanged, so a decorated kernel costs its callers nothing.
    Raises ValueError if ``contract`` already has an implementation called ``name``.
    """

    def decorate(launch: LaunchT) -> LaunchT:
        key = (contract, name)
        if key in _implementations:
            raise ValueError(f"implementation {name!r} of {contract!r} is already registered")
        _implementations[key] = Implementation(
            contract=contract,
            name=name,
            launch=launch,
            requires=requires,
            known=known,
            compiles=compiles,
            interleavings=interleavings,
            capturable=capturable,
        )
        return launch

    return decorate


def load(modules: Iterable[str] = (), *, installed: bool = True) -> None:
    """Import the shipped contracts, each of ``modules`` with its submodules, and ``harness.register`` entry points.

    Idempotent.  Raises ModuleNotFoundError naming a module that is not there.
    """
    for name in ("harness.contracts", *modules):
        root = importlib.import_module(name)
        for module in pkgutil.iter_modules(getattr(root, "__path__", ()), name + "."):
            if not module.name.rpartition(".")[2].startswith("_"):
                importlib.import_module(module.name)
    if installed:
        for entry_point in entry_points(group=ENTRY_POINT_GROUP):
            entry_point.load()


def contracts() -> list[Contract[Any]]:
    """Return every registered contract, by name."""
    return [_contracts[name] for name in sorted(_contracts)]


def contract(name: str) -> Contract[Any]:
    """Return the contract called ``name``; raises KeyError listing the known names."""
    try:
        return _contracts[name]
    except KeyError:
        raise KeyError(f"no contract {name!r}; there are: {', '.join(sorted(_contracts)) or 'none'}") from None


def implementations(contract_name: str | None = None) -> list[Implementation]:
    """Return the implementations of one contract, or of all; raises ValueError for one of an unknown contract."""
    unknown = sorted({c for c, _ in _implementations} - set(_contracts))
    if unknown:
        raise ValueError(f"implementations of unknown contracts: {', '.join(unknown)}")
    return [i for (c, _), i in sorted(_implementations.items()) if contract_name in (None, c)]
