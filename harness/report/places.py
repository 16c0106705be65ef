"""Where results go: made and tried before hours are spent on them."""

from __future__ import annotations

import os
from pathlib import Path

from harness.discover import SetupError


def writable(option: str, folder: Path) -> Path:
    """Return ``folder``, made if it is missing; raises SetupError naming ``option`` where nothing can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"{option} {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise SetupError(f"{option} {folder}: nothing can be written there")
    return folder
