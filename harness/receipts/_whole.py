"""The process that collects what a whole run would: ``python -m harness.receipts._whole FILE PYTEST-ARGUMENTS``.

Writes the node ids with the target of each, as JSON, to FILE.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness.hardware import selection


class _Collected:
    """Writes what was collected."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        about = {item.nodeid: selection.of(item) for item in session.items}
        self._file.write_text(json.dumps({id: target.arch for id, target in about.items() if target is not None}))


if __name__ == "__main__":
    sys.exit(pytest.main(["--collect-only", *sys.argv[2:]], plugins=[_Collected(Path(sys.argv[1]))]))
