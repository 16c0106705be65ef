"""Where contracts and implementations are found: the decorator, the contracts shipped here, other people's modules."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from harness.contract import Capturable, CaseT, Compiles, Contract, Implementation, Interleavings, Requires
from harness.known import Known

ENTRY_POINT_GROUP = "harness.register"

_contracts: dict[str, Contract[Any]] = {}
#: Contract -> file and line of its registration.
_places: dict[str, tuple[str, int]] = {}
_implementations: dict[tuple[str, str], Implementation] = {}

LaunchT = TypeVar("LaunchT", bound=Callable[..., Any])


def register(contract: Contract[CaseT]) -> Contract[CaseT]:
    """Add ``contract`` and return it; raises ValueError if one of that name is there already."""
    if contract.name in _contracts:
        raise ValueError(f"contract {contract.name!r} is already registered")
    _contracts[contract.name] = contract
    caller = sys._getframe(1)
    _places[contract.name] = caller.f_code.co_filename, caller.f_lineno
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
    mutates: Sequence[str] = (),
) -> Callable[[LaunchT], LaunchT]:
    """Put a launch function under every check of ``contract``.

    The function is returned unchanged, so a decorated kernel costs its callers nothing.
    ``mutates`` names arguments that it writes to.  Under the checks each call gets copies of them, and one that has the
    name of an output is that output; it need not be returned.
    Raises ValueError if ``contract`` already has an implementation called ``name``.
    """

    def decorate(launch: LaunchT) -> LaunchT:
        key = (contract, name)
        if key in _implementations:
            raise ValueError(f"implementation {name!r} of {contract!r} is already registered")
        _implementations[key] = Implementation(
            contract=contract,
            name=name,
            launch=_on_copies(launch, mutates) if mutates else launch,
            requires=requires,
            known=known,
            compiles=compiles,
            interleavings=interleavings,
            capturable=capturable,
        )
        return launch

    return decorate


def _on_copies(launch: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    # loads torch, which registering alone does not
    from harness.in_place import on_copies

    return on_copies(launch, names)


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


def place(contract: Contract[Any]) -> str:
    """Return ``"FILE:LINE"`` of the registration of ``contract``, or of its ``inputs`` where it is not registered.

    The file is given as seen from the working folder, by its name alone where it lies elsewhere.
    """
    code = getattr(contract.inputs, "__code__", None)
    file, line = ("", 0) if code is None else (code.co_filename, code.co_firstlineno)
    if _contracts.get(contract.name) is contract:
        file, line = _places.get(contract.name, (file, line))
    path = Path(file)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name
    return f"{shown}:{line}"


def implementations(contract_name: str | None = None) -> list[Implementation]:
    """Return the implementations of one contract, or of all; raises ValueError for one of an unknown contract."""
    unknown = sorted({c for c, _ in _implementations} - set(_contracts))
    if unknown:
        raise ValueError(f"implementations of unknown contracts: {', '.join(unknown)}")
    return [i for (c, _), i in sorted(_implementations.items()) if contract_name in (None, c)]
