"""Series that are no bell: no alarm, no *same*, and times that are none refused."""

import inspect

import pytest

from tests.unit.bench_odd import CHECKS


@pytest.mark.parametrize("name", CHECKS)
def test_holds(name, tmp_path):
    check = CHECKS[name]
    check(*[tmp_path] * len(inspect.signature(check).parameters))
