"""Work, floors, the gate before a timing, and what a benchmark says of itself."""

import pytest

from tests.unit.bench_measuring import CHECKS


@pytest.mark.parametrize("name", CHECKS)
def test_holds(name):
    CHECKS[name]()
