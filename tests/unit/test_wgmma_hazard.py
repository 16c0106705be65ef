"""A wgmma whose left operand is in registers, compiled for sm_90 by the Triton and the ptxas that are installed."""

import re
import subprocess
from functools import partial

import pytest
import torch
import triton

from harness.compiling import lane, recording, workers
from harness.compiling.compiler import compile_one
from harness.device.targets import target_of
from tests.unit.wgmma_kernels import grown

#: NVIDIA's ptxas gives such registers away too early before that.
MENDED = (13, 3)


def assembler():
    """The release of the ptxas that Triton assembles sm_90 with: ``(12, 9)``."""
    said = subprocess.run([triton.knobs.nvidia.ptxas.path, "--version"], capture_output=True, text=True, check=True)
    major, minor = re.search(r"release (\d+)\.(\d+)", said.stdout).groups()
    return int(major), int(minor)


@pytest.mark.parametrize("wait", [False, True], ids=["pipelined", "waits for all"])
def test_the_assemblers_fault_is_found_in_a_product_that_does_not_wait(wait):
    given = {"x": torch.zeros(128, 512, dtype=torch.int8), "y": torch.zeros(512, 128, dtype=torch.bfloat16)}
    (one,) = recording.record(lambda x, y: grown(x, y, wait), given, target_of("sm_90"))
    (ended,) = workers.run([partial(compile_one, one)], jobs=1, deadline=60.0)
    figures = lane.result_of(ended).figures
    assert figures.instructions["wgmma"]
    assert (figures.overwritten > 0, figures.outstanding > 0) == (not wait and assembler() < MENDED,) * 2
