"""compute-sanitizer: where it is, its four tools, and how each is called."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

Tool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TOOLS: tuple[Tool, ...] = get_args(Tool)
PROGRAM = "compute-sanitizer"

#: Bytes after each allocation that belong to nobody.  An access past the end that meets a neighbour is none to the
#: tool, and one expert or page too far is further than a cache line.
PADDING = 2**20
#: Reports that one run prints; it goes on counting behind them.
PRINTED = 2000
_TOOLKIT = Path("/usr/local/cuda")
_VERSION = re.compile(r"[Vv]ersion ([\d.]+)")
_SECONDS = 60.0

# --report-api-errors no: libraries try calls that may fail, and a failed launch raises in the launch function.
# --destroy-on-device-error kernel: the process lives on, so that the next case runs.
# --show-backtrace no: of a hundred frames of Python's C functions none is a line of anybody's code.
_COMMON = (
    "--print-limit", str(PRINTED), "--report-api-errors", "no", "--destroy-on-device-error", "kernel",
    "--show-backtrace", "no",
)  # fmt: skip
_OWN: dict[Tool, tuple[str, ...]] = {
    "memcheck": ("--padding", str(PADDING)),
    "racecheck": ("--racecheck-report", "analysis"),
    "initcheck": (),
    "synccheck": (),
}


class Missing(Exception):
    """There is no compute-sanitizer, or none that runs; the message says what was found."""


def find() -> Path:
    """Return the program: the one on ``PATH``, or else the one of the toolkit in ``CUDA_HOME`` or its usual place.

    Raises Missing saying where it was looked for.
    """
    on_path = shutil.which(PROGRAM)
    if on_path is not None:
        return Path(on_path)
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)] or [str(_TOOLKIT)]
    for home in homes:
        program = Path(home) / "bin" / PROGRAM
        if os.access(program, os.X_OK):
            return program
    raise Missing(f"needs {PROGRAM}, found none on PATH or in {', '.join(f'{home}/bin' for home in homes)}")


def version(program: Path) -> str:
    """Return its version, such as ``"2025.3.1.0"``; raises Missing where it does not run."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(f"needs {PROGRAM}, found {program}, which does not run: {error}") from error
    found = _VERSION.search(said.stdout)
    if found is None:
        raise Missing(f"needs {PROGRAM}, found {program}, which says no version: {said.stdout.strip()[:80]!r}")
    return found[1]


def command(program: Path, tool: Tool, arguments: Sequence[str]) -> list[str]:
    """Return the command line that runs ``arguments`` under ``tool``."""
    return [str(program), "--tool", tool, *_COMMON, *_OWN[tool], *arguments]


def environment() -> dict[str, str]:
    """Return the variables under which the tools see the most.

    Without PyTorch's caching allocator each tensor is an allocation with an end; Triton's line information names the
    line of the kernel.
    """
    return {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "TRITON_DISABLE_LINE_INFO": "0"}
