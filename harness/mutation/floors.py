"""Kill rates that were reached once: a campaign that falls below one fails."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from harness.discover import SetupError
from harness.mutation.results import Result, Status
from harness.mutation.table import rate


def below(results: Sequence[Result], path: Path) -> list[tuple[str, float, float]]:
    """Return (kernel, rate, floor) of each kernel whose mutants all ran and whose rate is below its floor.

    The floors are the ``[rate]`` table of a TOML file; without a file there are none.  Raises SetupError for a file
    that does not parse.
    """
    if not path.is_file():
        return []
    try:
        floors = tomllib.loads(path.read_text()).get("rate", {})
    except tomllib.TOMLDecodeError as error:
        raise SetupError(f"{path}: {error}") from error
    lost = []
    for kernel, floor in floors.items():
        own = [result for result in results if result.kernel == kernel]
        complete = own and not any(result.status is Status.SKIPPED for result in own)
        if complete and rate(own) < floor:
            lost.append((kernel, rate(own), float(floor)))
    return lost
