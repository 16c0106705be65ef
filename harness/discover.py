"""Which modules to import for ``@implements`` and ``register``, and importing them with one clear line on failure."""

from __future__ import annotations

import configparser
import contextlib
import importlib
import pkgutil
import sys
import tomllib
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness import contract, registry
from harness.outcome import ContractError

INI = "conformance_modules"

# Where pytest looks, in its order of precedence; the first file that has the section decides.
_INI_SECTIONS = {
    "pytest.toml": "pytest",
    ".pytest.toml": "pytest",
    "pytest.ini": "pytest",
    ".pytest.ini": "pytest",
    "pyproject.toml": "",  # [tool.pytest.ini_options] or [tool.pytest]
    "tox.ini": "pytest",
    "setup.cfg": "tool:pytest",
}


class SetupError(Exception):
    """What was asked for cannot run here: an unknown name, a module that does not import, a missing file."""


def configured(folder: Path) -> tuple[list[str], Path]:
    """Return the modules that the nearest pytest configuration names, and the folder that holds it.

    Looks in ``folder`` and then upwards, as pytest does. Without a configuration: no modules, and ``folder``.
    Raises SetupError for a file that does not parse.
    """
    for place in (folder, *folder.parents):
        for name, section in _INI_SECTIONS.items():
            if (place / name).is_file() and (options := _options(place / name, section)) is not None:
                value = options.get(INI, [])
                return value.split() if isinstance(value, str) else [str(item) for item in value], place
    return [], folder


def _options(file: Path, section: str) -> dict[str, str | list[str]] | None:
    """The pytest options of one file, or None where it has none."""
    try:
        if file.suffix == ".toml":
            tables = tomllib.loads(file.read_text())
            if section:
                return dict(tables.get(section, {}))
            options = tables.get("tool", {}).get("pytest")
            return None if options is None else dict(options.get("ini_options", options))
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(file.read_text())
    except (tomllib.TOMLDecodeError, configparser.Error) as error:
        raise SetupError(f"{file} does not parse: {' '.join(str(error).split())}") from error
    if not parser.has_section(section):
        return None if file.suffix == ".cfg" or file.name == "tox.ini" else {}
    return dict(parser.items(section))


def adapters(impl: str | None = None, adapter: str | None = None) -> list[str]:
    """Return the modules of the adapters that ``adapter`` names or an implementation called ``impl`` belongs to.

    Raises SetupError where ``adapter`` names none.
    """
    there = {module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / "adapters")])}
    if adapter is not None and adapter not in there:
        raise SetupError(f"no adapter {adapter!r}; there are: {', '.join(sorted(there))}")
    wanted = there & {adapter or "", (impl or "").partition("-")[0]}
    return [f"harness.adapters.{name}" for name in sorted(wanted)]


@contextlib.contextmanager
def search_path_kept() -> Iterator[None]:
    """What ``load`` adds to ``sys.path`` inside stays until the end: loaded modules may import their siblings late."""
    before = sys.path[:]
    try:
        yield
    finally:
        sys.path[:] = before


def load(modules: Iterable[str], *, folder: Path) -> None:
    """Import the shipped contracts, ``modules`` and what is registered by entry point.

    ``folder`` is appended to ``sys.path`` and stays there: see ``search_path_kept``.
    Raises SetupError naming the module and what went wrong in it, with the innermost line.
    """
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        importlib.invalidate_caches()
    for module in modules:
        try:
            registry.load((module,), installed=False)
        except SetupError:
            raise
        # sys.exit in a module would end the run with its status, and nothing would have been checked
        except (Exception, SystemExit) as error:
            raise SetupError(f"cannot load module {module!r}: {_line(error)}") from error
    try:
        registry.load()
        registry.implementations()
    except (Exception, SystemExit) as error:
        raise SetupError(f"cannot load what is registered: {_line(error)}") from error


def _line(error: Exception | SystemExit) -> str:
    """One line for an exception: type, message, and the innermost place that is not the import machinery."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    inner = frames[-1] if frames else None
    if isinstance(error, ContractError):
        # raised by the contract class; whoever made the contract stands above it
        inner = next((frame for frame in reversed(frames) if frame.filename != contract.__file__), None)
    if inner is None or inner.filename in (__file__, registry.__file__, importlib.__file__):
        return text
    return f"{text} ({inner.filename}:{inner.lineno})"
