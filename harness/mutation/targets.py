"""What is mutated: the source files behind implementations, and who judges the mutants of each."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from harness.contract import Contract, Implementation
from harness.mutation.behind import SURROUNDINGS, file_of, files, has_kernels, mentioned
from harness.mutation.source import Module, Mutant

Pair = tuple[Contract[Any], Implementation]


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
    alone asks too little of it.  What stands around launches is one where a contract has policies about it.
    """
    behind = {str(implementation): tuple(files([implementation])) for _, implementation in (*every, *chosen)}
    users: dict[str, list[Pair]] = {}
    for pair in every:
        for module in behind[str(pair[1])]:
            users.setdefault(module, []).append(pair)
    shared = [
        module
        for module, pairs in users.items()
        if len({contract.name for contract, _ in pairs}) > 1 and any(source(module, Path()).regions())
    ]
    found, wanted = [], {}
    for name in dict.fromkeys(contract.name for contract, _ in chosen):
        pairs = tuple(pair for pair in chosen if pair[0].name == name)
        loaded = tuple(files(implementation for _, implementation in pairs))
        own = tuple(module for module in loaded if module not in shared and _is_judged(module, pairs))
        found.append(Target(name=name, modules=own, loaded=loaded, pairs=pairs))
        wanted.update(dict.fromkeys(module for module in loaded if module in shared))
    for module in wanted:
        judges = tuple(users[module])
        if not _is_judged(module, judges):
            continue
        loaded = tuple(files(implementation for _, implementation in judges))
        found.append(Target(name=module, modules=(module,), loaded=loaded, pairs=judges))
    return [target for target in found if target.modules]


def _is_judged(module: str, judges: Sequence[Pair]) -> bool:
    return module not in SURROUNDINGS or any(contract.policies() for contract, _ in judges)


def judging_functions(pairs: Iterable[Pair]) -> set[tuple[str, str]]:
    """Return (module, name of the region) of the functions of the contracts in ``pairs``: they judge.

    So do the functions that they call, but for what is called by an implementation too.  A lambda belongs to the
    function around it.
    """
    judges: list[Any] = []
    judged: list[Any] = []
    for contract, implementation in pairs:
        judged.append(inspect.unwrap(implementation.launch))
        judges += [contract.cases, contract.inputs, contract.oracle, contract.magnitude, contract.features]
        judges += [contract.rejects, contract.policies, contract.work, contract.replays, contract.launches]
        judges += map(type, contract.pinned)
        judges += [part for r in contract.relations for part in (r.transform, r.expect)]
    return {_region(one) for one in _with_helpers(judges)} - {_region(one) for one in _with_helpers(judged)}


def _with_helpers(found: Iterable[Any]) -> list[Any]:
    """Return those of ``found`` that have names, and the functions of their own modules that they call."""
    every = [one for one in found if hasattr(one, "__qualname__")]
    for one in every:
        if isinstance(one, FunctionType):
            called = (one.__globals__.get(name) for name in mentioned(one.__code__))
            same = (f for f in called if isinstance(f, FunctionType) and f.__module__ == one.__module__)
            every += [function for function in same if function not in every]
    return every


def _region(function: Any) -> tuple[str, str]:
    return function.__module__, function.__qualname__.replace(".<locals>", "").removesuffix(".<lambda>")


def changing(made: Iterable[Mutant], pairs: Iterable[Pair]) -> list[Mutant]:
    """Return the mutants of ``made`` that are in no function of the contracts of ``pairs``, nor in one inside it."""
    judging = judging_functions(pairs)

    def judges(mutant: Mutant) -> bool:
        names = mutant.function.split(".")
        return any((mutant.module, ".".join(names[:count])) in judging for count in range(1, len(names) + 1))

    return [mutant for mutant in made if not judges(mutant)]


def without_kernels(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Return contract to modules for each contract behind whose implementations no module has a jitted function."""
    found = {}
    for name in dict.fromkeys(contract.name for contract, _ in pairs):
        loaded = files(implementation for contract, implementation in pairs if contract.name == name)
        if not has_kernels(loaded):
            found[name] = loaded
    return found


def source(name: str, folder: Path) -> Module:
    """Return the loaded module called ``name`` as source; its file is named relative to ``folder`` if it lies there."""
    path = file_of(sys.modules[name])
    shown = path.relative_to(folder) if path.is_relative_to(folder) else Path(path.name)
    return Module(name, shown.as_posix(), path.read_text())
