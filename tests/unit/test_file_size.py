"""A file does one job: about 300 lines, and never more than 400."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = 400
FOLDERS = ("harness", "kernels", "reference", "tests", "ci")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short_enough_to_read(path):
    assert len(path.read_text().splitlines()) <= LIMIT
