"""The tree's kernels on the virtual GPU beside Triton's own interpreter, on their contracts' first pinned cases.

CPU seconds of whole calls of the launch function; the two run one after the other on the same machine.  The pinned
cases are small, down to one program, where many programs at once gain nothing.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.vgpu import VirtualGPU
from tests.benchmarks.stock_kernels import jobs, seconds


def of_the_interpreter():
    """What ``tests.benchmarks.stock_kernels`` says under the interpreter, by name."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.stock_kernels"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=900,
        check=True,
    )
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


def test_no_kernel_of_the_tree_is_slower_than_under_the_interpreter(benchmark, say_ratio):
    theirs = of_the_interpreter()

    def all_of_them():
        found = {}
        for name, launch, inputs in jobs():
            with VirtualGPU() as gpu:
                taken = seconds(launch, inputs)
            if gpu.launches:
                found[name] = taken
        return found

    slower = []
    for name, ours in benchmark.pedantic(all_of_them).items():
        if "error" in theirs[name]:
            say_ratio(f"{name}: {ours * 1e3:.1f} ms; the interpreter cannot run it: {theirs[name]['error']}")
            continue
        stock = theirs[name]["seconds"]
        say_ratio(f"{name}: {stock / ours:.1f}x ({ours * 1e3:.1f} ms; interpreter {stock * 1e3:.1f} ms)")
        if ours > stock:
            slower.append(name)
    if not any("seconds" in line for line in theirs.values()):
        pytest.fail("the interpreter ran none of the kernels")
    assert slower == []
