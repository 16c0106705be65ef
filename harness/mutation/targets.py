"""What is mutated: the source files behind implementations, and who judges the mutants of each."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from harness.contract import Contract, Implementation
from harness.mutation.source import Module

Pair = tuple[Contract[Any], Implementation]
_HARNESS = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Target:
    """``modules`` are mutated, ``pairs`` judge; ``name`` is the contract's, or the module's if contracts share it.

    ``loaded`` are all modules behind the pairs, used ones before users.
    """

    name: str
    modules: tuple[str, ...]
    loaded: tuple[str, ...]
    pairs: tuple[Pair, ...]


def targets(chosen: Sequence[Pair], every: Sequence[Pair]) -> list[Target]:
    """Return one target for each contract of ``chosen``, and one for each of their files that contracts share.

    A file behind implementations of several contracts in ``every`` is a target of its own, judged by all of them: one
    alone asks too little of it.
    """
    behind = {str(implementation): tuple(_files([implementation])) for _, implementation in (*every, *chosen)}
    users: dict[str, list[Pair]] = {}
    for pair in every:
        for module in behind[str(pair[1])]:
            users.setdefault(module, []).append(pair)
    shared = [module for module, pairs in users.items() if len({contract.name for contract, _ in pairs}) > 1]
    found, wanted = [], {}
    for name in dict.fromkeys(contract.name for contract, _ in chosen):
        pairs = tuple(pair for pair in chosen if pair[0].name == name)
        loaded = tuple(_files(implementation for _, implementation in pairs))
        own = tuple(module for module in loaded if module not in shared)
        found.append(Target(name=name, modules=own, loaded=loaded, pairs=pairs))
        wanted.update(dict.fromkeys(module for module in loaded if module in shared))
    for module in wanted:
        judges = tuple(users[module])
        loaded = tuple(_files(implementation for _, implementation in judges))
        found.append(Target(name=module, modules=(module,), loaded=loaded, pairs=judges))
    return [target for target in found if target.modules]


def judging_functions(pairs: Iterable[Pair]) -> set[tuple[str, str]]:
    """Return (module, qualified name) of the functions of the contracts in ``pairs``, which judge and do not change."""
    found: list[Any] = []
    for contract, _ in pairs:
        found += [contract.cases, contract.inputs, contract.oracle, contract.magnitude, contract.features]
        found += [contract.rejects, *(part for r in contract.relations for part in (r.transform, r.expect))]
    return {(f.__module__, f.__qualname__) for f in found if hasattr(f, "__qualname__")}


def source(name: str, folder: Path) -> Module:
    """Return the loaded module called ``name`` as source; its file is named relative to ``folder`` if it lies there."""
    path = file_of(sys.modules[name])
    shown = path.relative_to(folder) if path.is_relative_to(folder) else Path(path.name)
    return Module(name, shown.as_posix(), path.read_text())


def file_of(module: ModuleType) -> Path:
    """Return the path of a module's source."""
    return Path(str(module.__file__)).resolve()


def _files(implementations: Iterable[Implementation]) -> Iterator[str]:
    """Yield the modules behind ``implementations``, those that are used before those that use them."""
    seen: dict[str, None] = {}
    for implementation in implementations:
        for root in _roots(implementation):
            for name in _closure(root):
                seen.setdefault(name)
    yield from seen


def _roots(implementation: Implementation) -> list[ModuleType]:
    """The module of a launch function, or, for an adapter, the loaded modules that the function mentions."""
    home = sys.modules[implementation.launch.__module__]
    if not file_of(home).is_relative_to(_HARNESS):
        return [home]
    mentioned = [vars(home).get(name) for name in _mentioned(inspect.unwrap(implementation.launch).__code__)]
    modules = [value for value in mentioned if isinstance(value, ModuleType) and _is_private_copy(value)]
    return list(dict.fromkeys(modules))


def _mentioned(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _mentioned(constant)


def _is_private_copy(module: ModuleType) -> bool:
    """Whether an adapter loaded ``module`` by path under a name of its own."""
    return module.__name__.startswith("_harness_")


def _closure(root: ModuleType) -> list[str]:
    """``root`` and what it imports from its own package, imports first."""
    package = root.__name__.partition(".")[0]
    done: dict[str, None] = {}

    def visit(name: str) -> None:
        for imported in imports(file_of(sys.modules[name]).read_text()):
            inside = imported in sys.modules and imported.startswith(f"{package}.") and imported not in done
            if inside and imported != name and not hasattr(sys.modules[imported], "__path__"):
                visit(imported)
        done.setdefault(name)

    visit(root.__name__)
    return list(done)


def imports(text: str) -> Iterator[str]:
    """Yield the modules that a source imports; for ``from a import b`` both ``a`` and ``a.b``."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
