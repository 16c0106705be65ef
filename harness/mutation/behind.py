"""Which modules are behind an implementation: where its launch function stands, and where the kernels come from."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import harness
from harness.contract import Implementation

_HARNESS = Path(harness.__path__[0])
#: Nothing of these is mutated for what is launched through them.
_FOREIGN = frozenset(("harness", "triton", "torch"))
#: But for what of the harness stands around launches.  The package hands on what is in it.
SURROUNDINGS = frozenset(
    ("harness.launch", "harness.launch.grid_barrier", "harness.launch.grids", "harness.launch.sm_budget")
)
_EVERYTHING = "*"


def file_of(module: ModuleType) -> Path:
    """Return the path of a module's source."""
    return Path(str(module.__file__)).resolve()


def imports(module: ModuleType) -> Iterator[str]:
    """Yield the modules that a loaded module imports, relative ones by their full names.

    For ``from a import b`` these are ``a`` and ``a.b``.
    """
    for statement in _parsed(module)[0]:
        yield statement.module
        if statement.attribute:
            yield f"{statement.module}.{statement.attribute}"


def files(implementations: Iterable[Implementation]) -> list[str]:
    """Return the modules behind ``implementations``, those that are used before those that use them.

    These are the module of a launch function; what it imports from its own package, also through the package itself;
    the modules of the kernels that it names, wherever they stand; those of the functions that the launch function
    calls, where they are not installed; and what it imports of the ``SURROUNDINGS``.  Of each the same again, but for
    those of functions.
    """
    graph = _Graph()
    for implementation in implementations:
        for root, names in _roots(implementation):
            graph.visit(root.__name__, _EVERYTHING, names)
    return graph.ordered()


def has_kernels(modules: Iterable[str]) -> bool:
    """Whether one of these loaded modules defines a jitted function."""
    names = set(modules)
    values = [value for name in names for value in vars(sys.modules[name]).values()]
    return any(_home(value) in names for value in values)


def _roots(implementation: Implementation) -> Iterator[tuple[ModuleType, frozenset[str]]]:
    """The module of a launch function and the names in that; for an adapter the private copies that it mentions."""
    home = sys.modules[implementation.launch.__module__]
    code = getattr(inspect.unwrap(implementation.launch), "__code__", None)
    names = frozenset(() if code is None else mentioned(code))
    if not file_of(home).is_relative_to(_HARNESS):
        yield home, names
        return
    for name in sorted(names):
        value = vars(home).get(name)
        # an adapter loads them by path under names of its own
        if isinstance(value, ModuleType) and value.__name__.startswith("_harness_"):
            yield value, frozenset()


def mentioned(code: CodeType) -> Iterator[str]:
    """Yield the names of what is no local variable in a function or in one inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from mentioned(constant)


@dataclass(frozen=True)
class _Statement:
    """``attribute`` (empty: the module itself) of ``module`` is called ``name`` from here on."""

    module: str
    attribute: str
    name: str


def _parsed(module: ModuleType) -> tuple[tuple[_Statement, ...], frozenset[str]]:
    """The imports of a module, and the attributes that it asks for."""
    return _parsed_text(file_of(module).read_text(), str(vars(module).get("__package__") or ""))


@cache
def _parsed_text(text: str, package: str) -> tuple[tuple[_Statement, ...], frozenset[str]]:
    found: list[_Statement] = []
    attributes: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [_Statement(one.name, "", one.asname or one.name.partition(".")[0]) for one in node.names]
        elif isinstance(node, ast.ImportFrom) and (source := _absolute(node, package)):
            found += [_Statement(source, one.name, one.asname or one.name) for one in node.names]
        elif isinstance(node, ast.Attribute):
            attributes.add(node.attr)
    return tuple(found), frozenset(attributes)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """The full name of the module that is imported from, empty where there is none."""
    try:
        return importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return ""


@dataclass
class _Graph:
    """Modules and which others of them each uses."""

    uses: dict[str, dict[str, None]] = field(default_factory=dict)
    visited: set[tuple[str, str]] = field(default_factory=set)

    def visit(self, name: str, wanted: str, called: frozenset[str] = frozenset()) -> None:
        """Add a module, and what is behind ``wanted`` of it: of packages alone, all others have one job.

        ``called`` are names in a function that it launches with.
        """
        module = sys.modules[name]
        wanted = wanted if hasattr(module, "__path__") else _EVERYTHING
        if (name, wanted) in self.visited and not called:
            return
        self.visited.add((name, wanted))
        self.uses.setdefault(name, {})
        statements, attributes = _parsed(module)
        for statement in statements:
            if wanted not in (_EVERYTHING, statement.name) and statement.attribute != _EVERYTHING:
                continue
            for used, attribute in _used(module, statement, attributes, called):
                if used != name:
                    self.uses[name][used] = None
                    self.visit(used, attribute)

    def ordered(self) -> list[str]:
        """Return all modules, used ones first."""
        done: dict[str, None] = {}
        begun: set[str] = set()

        def add(name: str) -> None:
            if name not in begun:
                begun.add(name)
                for used in self.uses[name]:
                    add(used)
                done[name] = None

        for name in self.uses:
            add(name)
        return list(done)


def _used(
    module: ModuleType, statement: _Statement, attributes: frozenset[str], called: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Yield the module that one import of ``module`` is followed into, and for what, if it is."""
    submodule = f"{statement.module}.{statement.attribute}"
    name, attribute = (submodule, "") if submodule in sys.modules else (statement.module, statement.attribute)
    source = sys.modules.get(name)
    if source is None or not getattr(source, "__file__", None) or not str(source.__file__).endswith(".py"):
        return
    if name in SURROUNDINGS:
        yield name, attribute or _EVERYTHING
        return
    if name.partition(".")[0] in _FOREIGN:
        return
    if name.partition(".")[0] == module.__name__.partition(".")[0]:
        if attribute or not hasattr(source, "__path__"):
            yield name, attribute or _EVERYTHING
        return
    asked = {attribute} if attribute not in ("", _EVERYTHING) else set(vars(source)) & attributes
    for one in sorted(asked):
        value = vars(source).get(one)
        is_called = statement.name in called and (attribute or one in called) and callable(value)
        if _home(value) or (is_called and not _is_installed(source)):
            yield name, one


def _home(value: Any) -> str:
    """The name of the module of a jitted function, or of one in a collection; empty for anything else."""
    if isinstance(value, dict | list | tuple):
        inside = value.values() if isinstance(value, dict) else value
        return next(filter(None, (_home(one) for one in inside if not isinstance(one, dict | list | tuple))), "")
    jit = sys.modules.get("triton.runtime.jit")
    while jit is not None and not isinstance(value, jit.JITFunction) and "fn" in getattr(value, "__dict__", ()):
        value = value.fn
    return str(value.fn.__module__) if jit is not None and isinstance(value, jit.JITFunction) else ""


@cache
def _installed_folders() -> tuple[Path, ...]:
    return tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def _is_installed(module: ModuleType) -> bool:
    """Whether a module came with Python or a package: nobody here changes it."""
    return any(file_of(module).is_relative_to(folder) for folder in _installed_folders())
