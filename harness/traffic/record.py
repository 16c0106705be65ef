"""What each implementation moves on each pinned case: a file, and what is other than in it.

A mask that is dropped, a tile too many, padding that is written and never read: values stay what they were, and time
is lost.  The virtual GPU sees every access, so that its count is exact, and the same on every machine.  A file is
JSON: implementation, case, kernel, then bytes loaded, bytes stored, and accesses.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from harness.discover import SetupError
from harness.vgpu.traffic import Traffic

#: Below the folder of the pytest configuration.
RECORD = Path("ci/baselines/traffic.json")
#: The id of the check.
CHECK = "traffic"
ACCEPT = "python -m harness traffic --update accepts it"
_WHAT = ("bytes loaded", "bytes stored", "loads and stores")

#: Kernel -> what its launches move together.
Moved = Mapping[str, Traffic]
#: Implementation -> case -> what it moves.
Record = dict[str, dict[str, Moved]]


def read(folder: Path) -> Record:
    """Return the record of the project in ``folder``, an empty one where there is no file.

    Raises SetupError for a file that holds none.
    """
    path = folder / RECORD
    if not path.is_file():
        return {}
    try:
        return {
            implementation: {
                case: {kernel: Traffic(*map(int, numbers)) for kernel, numbers in moved.items()}
                for case, moved in cases.items()
            }
            for implementation, cases in json.loads(path.read_text()).items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise SetupError(f"{path} holds no record of traffic: {error}") from error


def write(folder: Path, record: Record) -> None:
    """Write ``record`` as that of the project in ``folder``, a line a case."""
    path = folder / RECORD
    lines = []
    for implementation, cases in sorted(record.items()):
        own = [f"  {json.dumps(case)}: {json.dumps(moved)}" for case, moved in sorted(cases.items())]
        lines.append(f" {json.dumps(implementation)}: {{\n" + ",\n".join(own) + "\n }")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def together(launches: Iterable[tuple[str, Traffic]]) -> dict[str, Traffic]:
    """Return what (kernel, traffic) of several launches are together, by kernel."""
    found: dict[str, Traffic] = {}
    for kernel, moved in launches:
        found[kernel] = Traffic(*map(sum, zip(moved, found.get(kernel, (0, 0, 0)), strict=True)))
    return found


def differences(recorded: Moved, now: Moved) -> Iterator[str]:
    """Yield a message for each kernel that moves what is not recorded of it, more or less."""
    for kernel in [*now, *(kernel for kernel in recorded if kernel not in now)]:
        before, after = recorded.get(kernel), now.get(kernel)
        if before == after:
            continue
        if before is None or after is None:
            what = "is launched, and recorded as not launched" if before is None else "is recorded, and not launched"
            yield f"{kernel} {what}; {ACCEPT}"
            continue
        told = [_told(*one) for one in zip(_WHAT, before, after, strict=True) if one[1] != one[2]]
        yield f"{kernel}: {', '.join(told)}; {ACCEPT}"


def _told(what: str, before: int, after: int) -> str:
    share = f" ({after / before - 1:+.1%})" if before else ""
    return f"{after:,} {what}{share}, recorded {before:,}"
