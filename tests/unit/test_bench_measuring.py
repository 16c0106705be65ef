"""Work, floors, sampling, the gate before a timing, and what a benchmark says of itself."""

import pytest

from tests.unit import bench_gates, bench_measuring, bench_sampling

CHECKS = bench_gates.CHECKS | bench_measuring.CHECKS | bench_sampling.CHECKS


@pytest.mark.parametrize("name", CHECKS)
def test_holds(name):
    CHECKS[name]()
