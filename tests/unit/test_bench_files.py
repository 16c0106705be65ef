"""Stored runs, comparisons and their refusals, readings, builds."""

import pytest

from tests.unit.bench_files import CHECKS


@pytest.mark.parametrize("name", CHECKS)
def test_holds(name, tmp_path):
    CHECKS[name](tmp_path)
