"""A mutated module in the place of the original, for as long as a ``with`` block lasts."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

from harness import registry
from harness.contract import Implementation
from harness.mutation.behind import file_of, imports


class NotImportable(Exception):
    """The mutated module, or one that imports from it, raised while it was executed."""


@contextmanager
def installed(module: str, source: str, others: Sequence[str]) -> Iterator[None]:
    """Execute ``source`` as the loaded ``module``, and again each of ``others`` that imports it, directly or not.

    ``others`` are names of loaded modules, used ones before users.  Inside the block their functions, Triton's own
    view of their source and what they register are the mutated ones; afterwards everything is as before.  Raises
    NotImportable where executing the source raises.
    """
    names = [module, *_users(module, others)]
    modules = [sys.modules[name] for name in names]
    before = [dict(vars(loaded)) for loaded in modules]
    registered, contracts = registry._implementations, registry._contracts
    registry._implementations = {key: kept for key, kept in registered.items() if kept.launch.__module__ not in names}
    registry._contracts = {key: kept for key, kept in contracts.items() if kept.inputs.__module__ not in names}
    path = str(modules[0].__file__)
    lines = source.splitlines(keepends=True)
    # without a time of change the entry is never checked against the file
    linecache.cache[path] = (len(source), None, lines, path)
    try:
        try:
            _execute(modules[0], source)
            for user in modules[1:]:
                _execute(user, file_of(user).read_text())
        except Exception as error:
            raise NotImportable(f"{type(error).__name__} on import: {' '.join(str(error).split())}") from error
        yield
    finally:
        linecache.cache.pop(path, None)
        registry._implementations, registry._contracts = registered, contracts
        for loaded, content in zip(modules, before, strict=True):
            vars(loaded).clear()
            vars(loaded).update(content)


def current(implementation: Implementation) -> Implementation:
    """Return what is registered now under the names of ``implementation``."""
    return registry._implementations.get((implementation.contract, implementation.name), implementation)


def _users(module: str, others: Sequence[str]) -> list[str]:
    stale = {module}
    for name in others:
        if name not in stale and stale.intersection(imports(sys.modules[name])):
            stale.add(name)
    return [name for name in others if name in stale and name != module]


def _execute(module: ModuleType, source: str) -> None:
    path = str(module.__file__)
    code = compile(source, path, "exec", dont_inherit=True)
    exec(code, vars(module))
