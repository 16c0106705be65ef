"""A digest of a jitted function's source with all that it calls: the same in every process.

Triton's own ``cache_key`` is not: of the globals that a called function uses it counts only those of functions that
were hashed before, so that it depends on which kernel a process met first (3.6 to 3.9, ``DependenciesFinder``).
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from functools import lru_cache
from typing import Any

#: Modules whose functions are as old as Triton, whose version stands in the key beside this digest.
_TRITON = "triton"


def digest(function: Any) -> str:
    """Return a name for the text of jitted ``function``, of what it calls, and of the constants that these read.

    Where the text stands in its file does not count.
    """
    texts: dict[int, str] = {}
    _collect(function, texts)
    return hashlib.sha256(repr(sorted(texts.values())).encode()).hexdigest()


def _collect(function: Any, texts: dict[int, str]) -> None:
    if id(function) in texts:
        return
    texts[id(function)] = ""
    scope = {**function.fn.__globals__, **inspect.getclosurevars(function.fn).nonlocals}
    constants = {}
    for dotted in _names(function.src):
        value = _resolve(scope, dotted)
        if hasattr(value, "cache_key"):
            if not value.__module__.startswith(_TRITON):
                _collect(value, texts)
        elif type(value).__name__ == "constexpr" or isinstance(value, int | float | str | bool):
            constants[dotted] = str(value)
    name = f"{function.__module__}.{function.__qualname__}"
    texts[id(function)] = repr((name, function.src, sorted(constants.items()), getattr(function, "noinline", False)))


@lru_cache(maxsize=1024)
def _names(source: str) -> tuple[str, ...]:
    """Every name and dotted name that ``source`` reads, once."""
    found = {ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name | ast.Attribute)}
    return tuple(sorted(name for name in found if name.replace(".", "").isidentifier()))


def _resolve(scope: dict[str, Any], dotted: str) -> Any:
    """What ``dotted`` is in ``scope``, or None where it is no more than a local name."""
    first, *rest = dotted.split(".")
    value = scope.get(first)
    for part in rest:
        value = getattr(value, part, None)
    return value
