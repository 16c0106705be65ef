"""A kernel over a gibibyte of tensors, initialisation, provenance and write-set checks on: time, and peak memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.memory import KERNELS


def multiple_of_the_tensors(name):
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.memory", name],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.parametrize("name", KERNELS)
def test_runs_within_three_times_the_size_of_its_tensors(name, benchmark, say_ratio):
    multiple = benchmark.pedantic(multiple_of_the_tensors, args=(name,), rounds=1)
    benchmark.extra_info.update(multiple=multiple)
    say_ratio(f"{name}, 1 GiB of tensors: peak memory {multiple:.2f} times their size")
    assert multiple <= 3
