"""Results of compilations on disk, under everything that they depend on."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.compiling.figures import Result

#: Part of every key: raise it when what is read from a compilation changes.
SCHEMA = 5


def key_of(parts: Mapping[str, Any]) -> str:
    """Return a name for ``parts``: equal parts in any order, equal name.  Values are compared as they print."""
    text = json.dumps({**parts, "schema": SCHEMA}, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def default_folder() -> Path:
    """Return ``$HARNESS_CACHE``, or where this user's caches are, with ``kernel-harness/compiling`` below it."""
    root = os.environ.get("HARNESS_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "kernel-harness" / "compiling"


class Cache:
    """A folder of results, one small file each; several processes may share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> Result | None:
        """Return the result kept under ``key``, or None; a file that cannot be read counts as none."""
        try:
            return Result.from_dict(json.loads(self._path(key).read_text()))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def put(self, key: str, result: Result) -> None:
        """Keep ``result``; a reader sees the whole file or none.  Raises OSError where nothing can be written."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, suffix=".part") as file:
            json.dump(result.to_dict(), file)
        os.replace(file.name, path)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"
