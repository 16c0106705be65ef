"""What small things cost in seconds: an installed plugin, drawing a case, reporting a deadlock.

``pytest tests/benchmarks/test_costs.py --benchmark-only``.  The suite itself asserts what can be counted (modules
loaded, looks of a waiting program); these figures need a machine that does nothing else.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.strategies import codes, float_kinds, lengths, sizes, value_kinds
from harness.vgpu import Deadlock, Schedule, VirtualGPU
from tests.strategies.test_specs import SPECS
from tests.vgpu.sync_kernels import barrier

#: Wall time grows when the machine is busy with something else.
pytestmark = pytest.mark.benchmark(timer=time.process_time)
ROOT = Path(__file__).parents[2]
OTHERS = {
    "codes": codes(fmt="e4m3", nonfinite=True),
    "float_kinds": float_kinds(),
    "lengths": lengths(num_rows=4, topk=130),
    "sizes": sizes(tile=128, min_size=0),
    "value_kinds": value_kinds(fmt="e5m2"),
}
EXTRA_S = 0.3
DRAWS_S = 2.0
DEADLOCK_S = 1.0


def cpu_seconds(arguments, folder):
    """User and system time of one child: unlike wall time, it does not grow when the machine waits."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL
    ) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize(
    ("bare", "loaded"),
    [
        (["-m", "pytest", "-p", "no:harness.plugin"], ["-m", "pytest", "-p", "harness.plugin"]),
        (["-c", "pass"], ["-c", "import harness"]),
    ],
    ids=["plugin", "import"],
)
def test_extra_seconds_of_a_run_that_does_nothing(bare, loaded, benchmark, tmp_path, say_ratio):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    spent, without = [], []

    def both():
        # in turns, so that what else the machine does falls on both
        without.append(cpu_seconds(bare, tmp_path))
        spent.append(cpu_seconds(loaded, tmp_path))

    benchmark.pedantic(both, rounds=8)
    extra = min(spent) - min(without)
    say_ratio(f"{' '.join(loaded):<32} {extra:7.3f} s extra beside {min(without):.3f} s (allowed {EXTRA_S} s)")
    assert extra < EXTRA_S


@pytest.mark.parametrize("name", [*SPECS, *OTHERS])
def test_seconds_to_draw_200_examples(name, benchmark, examples):
    benchmark.pedantic(lambda: examples((SPECS | OTHERS)[name], 200), rounds=3)
    assert benchmark.stats.stats.min < DRAWS_S


def test_seconds_to_report_a_deadlock_of_256_programs(benchmark):
    def deadlock():
        with VirtualGPU(schedule=Schedule(resident=96)), pytest.raises(Deadlock):
            barrier(256)

    benchmark.pedantic(deadlock, rounds=3, warmup_rounds=1)
    assert benchmark.stats.stats.min < DEADLOCK_S
