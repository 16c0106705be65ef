"""The indexer's logits on a real device: values, capture in a graph, and how long the workloads take."""

import sys

import pytest
import torch
import triton.testing

from harness import registry
from harness.arguments import widened
from harness.compare import differing
from harness.poison import NAN, QUIET, Poison
from kernels.paged_mqa_logits import paged_mqa_logits, paged_mqa_logits_torch
from tests.unit.contract_cases import drawn

pytestmark = pytest.mark.cuda

NAME = "paged_mqa_logits"
CASES = 60


@pytest.fixture(scope="module")
def contract():
    registry.load(installed=False)
    return registry.contract(NAME)


def cases(contract):
    return [case for case in (*contract.pinned, *drawn(NAME, CASES)) if not case.table.far]


def on_cpu(given):
    return {name: value.cpu() if isinstance(value, torch.Tensor) else value for name, value in given.items()}


@pytest.mark.parametrize("launch", [paged_mqa_logits, paged_mqa_logits_torch])
@pytest.mark.parametrize("pattern", [QUIET, NAN], ids=lambda pattern: pattern.name)
def test_values_are_within_the_contracts_budget(device, contract, launch, pattern):
    for case in cases(contract):
        given = contract.inputs(case, device, Poison(pattern))
        here = on_cpu(given)
        wide = widened(here)
        error = contract.tolerance["logits"].compare(
            "logits",
            launch(**given).cpu(),
            contract.oracle(**here)["logits"],
            contract.oracle(**wide)["logits"],
            contract.magnitude(**wide)["logits"],
        )
        assert error is None, (case, error)


@pytest.mark.parametrize("launch", [paged_mqa_logits, paged_mqa_logits_torch])
def test_a_captured_launch_follows_its_inputs(device, contract, launch):
    case = contract.pinned[1]
    given = contract.inputs(case, device, Poison(QUIET))
    launch(**given)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = launch(**given)
    for length in (65, 1, 0, 64):
        given["seq_lens"].fill_(length)
        given["weights"].mul_(-1)
        captured.fill_(7.0)
        graph.replay()
        assert not differing(captured, launch(**given)).any(), length


def microseconds(launch, given):
    return round(1000 * triton.testing.do_bench_cudagraph(lambda: launch(**given)), 1)


def test_microseconds_of_the_workloads(device, contract):
    for case in contract.workloads:
        given = contract.inputs(case, device, Poison(QUIET))
        took = {run.__name__: microseconds(run, given) for run in (paged_mqa_logits, paged_mqa_logits_torch)}
        shape = f"B{len(case.table.seq_lens)} L{case.max_seq_len}"
        sys.stdout.write(f"\n{shape}, microseconds: {took}\n")
        assert min(took.values()) > 0
