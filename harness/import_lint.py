"""Finds modules that do at import what belongs to a call: ask a device, set something process-wide, start something.

The modules are imported one after the other in a child process, in front of a driver that answers like one sm_120
device and counts who asks it. Nothing of the child's reaches the asking process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

#: Importing all of a package takes torch's and Triton's start-up, and seconds on a busy machine.
_DEADLINE_S = 300.0
#: Libraries that are loaded before anything is watched: what they do at import is not ours to change.
PRELOADED = ("numpy", "torch", "triton", "triton.language", "hypothesis", "pytest")
_OWN_STATE = ("harness.launch.sm_budget", "harness.launch.constraints")


@dataclass(frozen=True)
class Finding:
    """One thing that importing ``module`` did; ``where`` is the ``file:line`` at module level, if it is known."""

    module: str
    what: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.module}: {self.what}{f' at {self.where}' if self.where else ''}"


class LintError(RuntimeError):
    """The child did not come to an end; the message has what it said."""


def modules_of(package: str, folder: Path) -> tuple[str, ...]:
    """Return the names of ``package`` in ``folder`` and of every module below it, but for ``__main__`` modules.

    Found by file name: nothing is imported.  Raises ValueError if there is no such package or module.
    """
    root = folder / package.replace(".", "/")
    if root.with_suffix(".py").is_file():
        return (package,)
    files = sorted(root.rglob("*.py"))
    if not files:
        raise ValueError(f"no module {package!r} in {folder}")
    return tuple(_names(files, folder))


def lint(packages: Iterable[str], folder: Path, *, preload: Iterable[str] = PRELOADED) -> tuple[Finding, ...]:
    """Import every module of ``packages``, found in ``folder``, in one child process and return what they did.

    ``preload`` is imported first, as far as it is installed. Raises ValueError for a package without modules,
    LintError if the child crashes or takes over five minutes.
    """
    names = [name for package in packages for name in modules_of(package, folder)]
    # a state that comes to exist is no change: what others set in these must be there before
    preload = [*preload, *(module for module in _OWN_STATE if module not in names)]
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    # the harness itself may be installed or stand elsewhere than what it looks at
    home = str(Path(__file__).parents[1])
    command = [sys.executable, "-m", "harness._import_watch", ",".join(preload), *names]
    try:
        child = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((path, home))},
        )
    except subprocess.TimeoutExpired as error:
        raise LintError(f"importing {len(names)} modules took more than {_DEADLINE_S:.0f} s") from error
    if child.returncode:
        raise LintError(f"the importing child ended with {child.returncode}: {child.stderr.strip()[-2000:]}")
    return tuple(Finding(**found) for found in json.loads(child.stdout))


def _names(files: Iterable[Path], folder: Path) -> Iterator[str]:
    for file in files:
        parts = file.relative_to(folder).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        if parts[-1] != "__main__":
            yield ".".join(parts)
