"""A sample of the recorded one-operation kernels, run again on a GPU of the kind that the recording was made on."""

import numpy as np
import pytest
import torch
import triton

from tests.vgpu.conformance.cases import every_case
from tests.vgpu.conformance.packing import Undecodable, load
from tests.vgpu.conformance.recorder import about, run

pytestmark = pytest.mark.cuda

#: One case in so many.
EVERY = 40


def test_the_gpu_gives_again_what_was_recorded():
    recording, here = load(), about()
    # another GPU or compiler may give other bits: what passes there is that it says so
    if elsewhere := [key for key in ("gpu", "triton", "ptxas") if here[key] != recording.about[key]]:
        pytest.xfail(", ".join(f"recorded with {key} {recording.about[key]}, this is {here[key]}" for key in elsewhere))
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    sample = [case for id, case in every_case().items() if id in recording.stored][::EVERY]
    differing, unknown = [], []
    for case in sample:
        try:
            recorded = recording.results(case)
        except Undecodable:
            # what is stored is a difference from what another version of torch or numpy computes
            unknown.append(case.id)
            continue
        if not all(np.array_equal(a, b) for a, b in zip(run(case, "cuda"), recorded, strict=True)):
            differing.append(case.id)
    assert differing == []
    assert len(unknown) <= len(sample) // 10, unknown
