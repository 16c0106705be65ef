"""The virtual GPU beside ttsem 0.1.0, which executes the IR of Triton 3.8's frontend: one matmul, one run."""

import importlib.metadata
import time

import pytest
import torch
import triton

from harness.vgpu import VirtualGPU
from tests.benchmarks.workloads import WORKLOADS

#: How much faster the virtual GPU must be.
LEAST = 20


def missing():
    """Why ttsem cannot be measured here, or nothing."""
    try:
        found = importlib.metadata.version("ttsem")
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if found != "0.1.0":
        return f"needs ttsem 0.1.0, found {found}"
    if not triton.__version__.startswith("3.8."):
        return f"needs Triton 3.8, the only one that ttsem 0.1.0 supports, found {triton.__version__}"
    return ""


def cpu_seconds(call):
    begin = time.process_time()
    call()
    return time.process_time() - begin


@pytest.mark.skipif(bool(missing()), reason=missing() or "present")
@pytest.mark.parametrize("races", ["off", "raise"])
def test_a_matmul_is_20_times_as_fast_as_in_ttsem(races, benchmark, say_ratio):
    from ttsem import sanitize

    torch.manual_seed(0)
    work = WORKLOADS["matmul"]()
    with VirtualGPU():
        work.launch(work.grid)
        ours = min(cpu_seconds(lambda: work.launch(work.grid)) for _ in range(5))
    with sanitize.session(races=races):
        work.launch((1, 1))
        theirs = benchmark.pedantic(cpu_seconds, args=(lambda: work.launch(work.grid),))
    say_ratio(
        f"matmul beside ttsem 0.1.0, races={races}: {theirs / ours:.0f}x ({ours * 1e3:.0f} ms; ttsem {theirs:.1f} s)"
    )
    assert theirs >= LEAST * ours
