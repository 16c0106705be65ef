"""Write the files of a new kernel: three in this project's tree, one module anywhere else."""

from __future__ import annotations

import keyword
import pkgutil
from pathlib import Path

from harness import contracts, templates
from harness.discover import INI, SetupError, configured

_TREE = ("kernels", "reference", "harness/contracts")


def files(name: str, folder: Path) -> dict[Path, str]:
    """Return what ``new NAME`` writes in ``folder``, by path: three files in the tree, one outside.

    Raises SetupError where ``name`` cannot be a module name and a function name, or is a shipped contract's.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or name != name.lower():
        raise SetupError(f"{name!r} cannot name a kernel: wanted a lower-case Python identifier such as rms_norm")
    if name in {module.name for module in pkgutil.iter_modules(contracts.__path__)}:
        raise SetupError(
            f"contract {name!r} is there already; put a kernel under it with @implements({name!r}, name=...)"
        )
    if all((folder / part).is_dir() for part in _TREE):
        return _three(name, folder)
    return {folder / f"{name}.py": _one(name)}


def write(name: str, folder: Path) -> list[str]:
    """Write the files and return what to tell the user, a line each; refuses to replace any file (SetupError)."""
    new = files(name, folder)
    for path in new:
        if path.exists():
            raise SetupError(f"{path} is there already")
    for path, text in new.items():
        path.write_text(text)
    lines = [f"wrote {path.relative_to(folder)}" for path in new]
    if len(new) == 1:
        modules, _ = configured(folder)
        lines.append(f"register it in your pytest configuration: {INI} = {' '.join([*modules, name])}")
        lines.append(f"then: python -m harness verify {name}")
    else:
        lines.append(f"edit them, and check as you go: python -m harness verify {name}")
    return lines


def _three(name: str, folder: Path) -> dict[Path, str]:
    oracle_import = f"from reference.{name} import {name}\n"
    parts = {
        "kernels": f'"""NAME: multiply each row by its own factor."""\n\n{templates.KERNEL_IMPORTS}\n'
        f"{templates.KERNEL}",
        "reference": f'"""Oracle for ``kernels.NAME``."""\n\nimport torch\n\n\n{templates.ORACLE}',
        "harness/contracts": f'"""Contract of NAME."""\n\n{templates.CONTRACT_IMPORTS}{oracle_import}'
        f"\n\n{templates.CONTRACT}",
    }
    return {folder / part / f"{name}.py": _named(text, name, oracle=name) for part, text in parts.items()}


def _one(name: str) -> str:
    """All parts in one module: the kernel needs two more imports, and registration one more name."""
    imports = templates.CONTRACT_IMPORTS.replace(
        "import torch\nfrom hypothesis import strategies as st\n",
        "import torch\nimport triton\nimport triton.language as tl\nfrom hypothesis import strategies as st\n",
    ).replace("import register\n", "import implements, register\n")
    text = (
        f'"""NAME: the kernel, its oracle and its contract."""\n\n{imports}'
        f"\n\n{templates.ORACLE}\n\n{templates.CONTRACT}\n\n{templates.KERNEL}"
    )
    return _named(text, name, oracle=f"{name}_oracle")


def _named(text: str, name: str, *, oracle: str) -> str:
    return text.replace("ORACLE", oracle).replace("NAME", name)
