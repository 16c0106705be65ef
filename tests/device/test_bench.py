"""Benchmarks on a real device: each timing says its L2, no graph where none can be, no time for a wrong result."""

import pytest
import torch

from harness import registry
from harness.bench import run
from harness.bench.measure import Refused
from harness.bench.sampling import Effort
from harness.bench.timings import NAMES
from harness.contract import Implementation
from kernels.merge_attn_states import merge_attn_states

pytestmark = pytest.mark.cuda

NAME = "merge_attn_states"


@pytest.fixture(scope="module")
def bench():
    return run.bench_of(run.Wanted(lane="cuda", effort=Effort(seconds=0.05)))


@pytest.fixture(scope="module")
def contract():
    registry.load(installed=False)
    return registry.contract(NAME)


def measured(bench, contract, launch, case):
    return list(bench.measure(contract, [Implementation(contract=NAME, name="x", launch=launch)], case, "y"))


def test_every_timing_is_there_and_above_the_floor(bench, contract):
    found = {one.extra["timing"]: one for one in measured(bench, contract, merge_attn_states, contract.workloads[2])}
    assert tuple(found) == NAMES
    assert {name: one.extra["l2"] for name, one in found.items()} == {"rot": "cold", "dob": "cold", "warm": "warm"}
    for one in found.values():
        assert one.extra["graph"] == "captured"
        assert one.extra["inputs"] == "cuda"
        assert one.extra["before"]["sm_mhz"] > 0
    assert 0.05 < found["rot"].extra["fraction"] < 1.2
    assert found["rot"].extra["sets"] > 1
    assert found["dob"].sampled.median > found["warm"].sampled.median


def test_what_cannot_be_captured_is_timed_as_it_is(bench, contract):
    def waits(outs, lses):
        found = merge_attn_states(outs, lses)
        assert found[1].flatten()[0].item() is not None
        return found

    found = measured(bench, contract, waits, contract.workloads[0])
    assert [one.extra["graph"] == "captured" for one in found] == [False] * len(NAMES)
    # and the device is as good as before
    assert measured(bench, contract, merge_attn_states, contract.workloads[0])[0].extra["graph"] == "captured"


def test_a_wrong_result_is_not_timed(bench, contract):
    def wrong(outs, lses):
        out, lse = merge_attn_states(outs, lses)
        return out * 1.02, lse

    (found,) = measured(bench, contract, wrong, contract.workloads[0])
    assert isinstance(found, Refused)
    assert found.reason.startswith("oracle:out: ")


def test_the_rates_are_a_gpus(bench):
    assert 1e11 < bench.rates.copy < 2e13
    assert 1e13 < bench.rates.matmul < 1e16
    assert bench.device.l2_bytes > 0
    assert torch.cuda.memory_allocated() < 2**31
