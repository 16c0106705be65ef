"""Kill rates that were reached once: a campaign that falls below one fails."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from harness.discover import SetupError
from harness.mutation.results import Result, Status
from harness.mutation.table import rate


def names(path: Path) -> list[str]:
    """Return the kernels that have a floor; raises as ``below`` does."""
    return list(_read(path))


def _read(path: Path) -> dict[str, float]:
    if not path.is_file():
        return {}
    try:
        return dict(tomllib.loads(path.read_text()).get("rate", {}))
    except tomllib.TOMLDecodeError as error:
        raise SetupError(f"{path}: {error}") from error


def below(results: Sequence[Result], path: Path) -> list[tuple[str, float, float]]:
    """Return (kernel, rate, floor) of each kernel whose mutants all ran and whose rate is below its floor.

    The floors are the ``[rate]`` table of a TOML file; without a file there are none.  A kernel of whose mutants none
    counts is below.  Raises SetupError for a file that does not parse.
    """
    lost = []
    for kernel, floor in _read(path).items():
        own = [result for result in results if result.kernel == kernel]
        found = rate(own)
        complete = own and not any(result.status is Status.SKIPPED for result in own)
        if complete and (found is None or found < floor):
            lost.append((kernel, found or 0.0, float(floor)))
    return lost
