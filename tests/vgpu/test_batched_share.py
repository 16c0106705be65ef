"""Speed that can be counted: how often a kernel's body runs for a whole grid, and for how many programs each time."""

from collections import Counter

import pytest
import torch

from harness.vgpu import VirtualGPU
from harness.vgpu.execution import Execution
from tests.benchmarks.workloads import WORKLOADS

# how often the body runs: once for a first batch that shows the size of the blocks, then as many programs as fit
RUNS = {"matmul": 2, "gemv": 2, "attention": 2, "ragged": 2}


@pytest.fixture
def sizes(monkeypatch):
    """How many programs ran at once, by how often."""
    counted = Counter()
    enter = Execution.enter

    def counting(self, programs, *rest):
        counted[programs.count] += 1
        return enter(self, programs, *rest)

    monkeypatch.setattr(Execution, "enter", counting)
    return counted


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_runs_as_few_batches_and_no_program_alone(name, sizes):
    torch.manual_seed(0)
    work = WORKLOADS[name]()
    with VirtualGPU() as gpu:
        work.launch(work.smaller)
    assert sum(size * count for size, count in sizes.items()) == gpu.launches[0].programs
    assert sizes.total() <= RUNS[name]
    assert sizes[1] == 0
