"""Every fault planted in benchmarks and comparisons is killed by the check that names it."""

import inspect

import pytest

from tests.teeth.bench_block_faults import BLOCKS
from tests.teeth.bench_faults import COPIES, MEASURING, RULES, WORK
from tests.teeth.bench_file_faults import FILES
from tests.teeth.bench_odd_faults import ODD
from tests.teeth.swapping import swapped
from tests.unit import (
    bench_blocks,
    bench_files,
    bench_gates,
    bench_measuring,
    bench_odd,
    bench_page,
    bench_rules,
    bench_sampling,
)

ROOMS = (bench_blocks, bench_files, bench_gates, bench_measuring, bench_odd, bench_page, bench_rules, bench_sampling)
CHECKS = {name: check for room in ROOMS for name, check in room.CHECKS.items()}
FAULTS = (*RULES, *ODD, *FILES, *BLOCKS, *MEASURING, *COPIES, *WORK)
#: Faults -> the package of their modules.
ELSEWHERE = {WORK: "harness.contracts", COPIES: "harness"}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_check_kills(fault, tmp_path):
    check = CHECKS[fault.check]
    arguments = [tmp_path] * len(inspect.signature(check).parameters)
    package = next((package for faults, package in ELSEWHERE.items() if fault in faults), "harness.bench")
    with (
        swapped(f"{package}.{fault.file}", fault.old, fault.new),
        pytest.raises((AssertionError, pytest.fail.Exception)),
    ):
        check(*arguments)


def test_no_two_planted_faults_are_the_same():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
