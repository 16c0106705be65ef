"""With which grids kernels are launched: a file beside the baseline, and what differs from it.

A grid that is too large computes the right thing, later.  Nothing shows that but who has looked at the grid before.
A file is JSON: implementation, kernel, then for every list of grids the targets that have it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

Grid = tuple[int, ...]
#: (implementation, kernel, target) -> every grid of its cases.
Grids = dict[tuple[str, str, str], frozenset[Grid]]


@dataclass(frozen=True, kw_only=True)
class Regridded:
    """Grids of one kernel of an implementation on ``target`` that only one side has.

    It fails until the baseline is updated: nobody has looked at how many programs are launched now.
    """

    implementation: str
    kernel: str
    target: str
    grids: tuple[Grid, ...]
    new: bool
    failing: bool = True

    def __str__(self) -> str:
        what = "are not in the baseline" if self.new else "are in the baseline and launched no more"
        shown = ", ".join(map(_text, self.grids[:4])) + (", ..." if len(self.grids) > 4 else "")
        return (
            f"{self.implementation}: {self.kernel} on {self.target}: grids {shown} {what}; --update-baseline accepts it"
        )


def path_in(folder: Path, triton: tuple[int, int]) -> Path:
    """Return where the grids for a Triton of that minor version are."""
    return folder / f"triton-{triton[0]}.{triton[1]}-grids.json"


def read(path: Path) -> Grids:
    """Return the grids in ``path``, none where there is no file; raises ValueError for what is none."""
    if not path.is_file():
        return {}
    try:
        return {
            (implementation, kernel, target): frozenset(_grid(one) for one in text.split())
            for implementation, kernels in json.loads(path.read_text()).items()
            for kernel, lists in kernels.items()
            for text, targets in lists.items()
            for target in targets
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} holds no grids: {error}") from error


def write(path: Path, grids: Grids) -> None:
    """Write ``grids`` sorted."""
    content: dict[str, dict[str, dict[str, list[str]]]] = {}
    for (implementation, kernel, target), found in sorted(grids.items()):
        text = " ".join(map(_text, sorted(found)))
        content.setdefault(implementation, {}).setdefault(kernel, {}).setdefault(text, []).append(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def compare(before: Grids, now: Mapping[tuple[str, str, str], Collection[Grid]]) -> list[Regridded]:
    """Return what differs where both sides know a kernel of an implementation on a target."""
    found = []
    for place in sorted(before.keys() & now.keys()):
        implementation, kernel, target = place
        for new, grids in ((True, set(now[place]) - before[place]), (False, before[place] - set(now[place]))):
            if grids:
                found.append(
                    Regridded(
                        implementation=implementation,
                        kernel=kernel,
                        target=target,
                        grids=tuple(sorted(grids)),
                        new=new,
                    )
                )
    return found


def updated(before: Grids, now: Mapping[tuple[str, str, str], Collection[Grid]], targets: Collection[str]) -> Grids:
    """Return ``before`` with ``now`` in place of what it says about the implementations in ``now`` on ``targets``."""
    asked = {implementation for implementation, _, _ in now}
    kept = {place: grids for place, grids in before.items() if place[0] not in asked or place[2] not in targets}
    return kept | {place: frozenset(grids) for place, grids in now.items()}


def _text(grid: Grid) -> str:
    return "x".join(map(str, grid))


def _grid(text: str) -> Grid:
    return tuple(map(int, text.split("x")))
