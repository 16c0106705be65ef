"""Results kept between runs, for as long as nothing that they depend on changes."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness.mutation import styles
from harness.mutation.behind import file_of
from harness.mutation.pool import Settings
from harness.mutation.results import Red, Result
from harness.mutation.targets import Target
from harness.traffic.record import RECORD

_ROOT = Path(__file__).resolve().parents[2]
#: The key of a line that is no result.
_RED = "red"


class Cache:
    """The results of one target; the file's name is a digest of everything that judges.

    That is the source of the engine, the contracts, the oracles and the kernels, the record of traffic, the settings
    and the versions of Python, torch and Triton.  A mutant's own key covers its text.
    """

    def __init__(self, folder: Path, target: Target, settings: Settings) -> None:
        self._path = folder / f"{target.name}-{digest(target, settings)}.jsonl"
        self._found: dict[str, Result] = {}
        #: What failed on the original while the results were made.
        self.red: list[Red] = []
        self._read()

    def get(self, key: str) -> Result | None:
        """Return the result of a mutant, or None."""
        return self._found.get(key)

    def put(self, result: Result) -> None:
        """Keep ``result``, also if the run is interrupted after this."""
        self._append(result.to_dict())

    def put_red(self, red: Red) -> None:
        """Keep what failed on the original."""
        if red not in self.red:
            self.red.append(red)
            self._append({_RED: asdict(red)})

    def _append(self, plain: dict[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(plain) + "\n")

    def _read(self) -> None:
        for line in self._path.read_text().splitlines() if self._path.is_file() else ():
            try:
                plain = json.loads(line)
                if _RED in plain:
                    self.red.append(Red(**plain[_RED]))
                else:
                    result = Result.from_dict(plain)
                    self._found[result.key] = result
            except (ValueError, TypeError, KeyError):
                # the last line of a run that was killed while it wrote
                return


def digest(target: Target, settings: Settings) -> str:
    """Return sixteen hexadecimal digits for everything but the mutant that a result depends on."""
    found = hashlib.sha256()
    for folder in ("harness", "reference"):
        for path in sorted((_ROOT / folder).rglob("*.py")):
            found.update(f"{path.relative_to(_ROOT)}\0".encode() + path.read_bytes())
    for name in target.loaded:
        found.update(f"{name}\0".encode() + file_of(sys.modules[name]).read_bytes())
    if (settings.folder / RECORD).is_file():
        found.update((settings.folder / RECORD).read_bytes())
    judges = [(contract.name, implementation.name) for contract, implementation in target.pairs]
    used: tuple[object, ...] = (judges, settings.profile, settings.examples, settings.seed, settings.deadline)
    used = (*used, settings.style, settings.in_order, sys.version)
    versions = [version(distribution) for distribution in ("torch", "triton", "numpy", "hypothesis")]
    found.update(repr((used, versions, styles.version(settings.style))).encode())
    return found.hexdigest()[:16]
