"""Verdicts: no alarm where nothing changed, five per cent found, and never *same* without evidence."""

import pytest

from tests.unit.bench_rules import CHECKS


@pytest.mark.parametrize("name", CHECKS)
def test_holds(name):
    CHECKS[name]()
