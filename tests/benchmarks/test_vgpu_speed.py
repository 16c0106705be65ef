"""The virtual GPU beside Triton's own interpreter: same kernels, same data, one run.

``pytest tests/benchmarks --benchmark-only`` prints the ratios.  Whole calls, with provenance, initialisation and
write-set checks on and the race detector off.  Where the interpreter would take too long it runs some of the programs,
and its time is scaled by their number; the line says so.
"""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harness.vgpu import VirtualGPU
from tests.benchmarks.workloads import WORKLOADS


def stock_seconds(name):
    """Return the interpreter's seconds for the whole grid, and how many programs it ran."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.stock", name],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    seconds, programs = done.stdout.split()
    return float(seconds), int(programs)


@pytest.mark.parametrize("name", WORKLOADS)
def test_faster_than_the_interpreter(name, benchmark, say_ratio):
    torch.manual_seed(0)
    work = WORKLOADS[name]()
    with VirtualGPU():
        benchmark.pedantic(work.launch, args=(work.grid,), rounds=5, warmup_rounds=1)
    ours = benchmark.stats.stats.median
    taken, programs = stock_seconds(name)
    total = math.prod(work.grid)
    stock = taken * total / programs
    benchmark.extra_info.update(stock_seconds=stock, ratio=stock / ours)
    scaled = "" if programs == total else f", scaled from {programs} of {total} programs in {taken:.2f} s"
    say_ratio(f"{name}: {stock / ours:.0f}x ({ours * 1e3:.1f} ms; interpreter {stock:.2f} s{scaled})")
    assert ours < stock
