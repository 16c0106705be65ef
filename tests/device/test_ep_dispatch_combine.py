"""Expert parallelism on a real device: bits as the oracle's, the widest safe grids, and a captured exchange.

``-s`` shows how the kernels were launched.
"""

import sys

import pytest
import torch

from harness.compare import differing
from harness.launch.grid_barrier import check_grid_barriers
from harness.poison import NAN, Poison
from kernels.ep_dispatch_combine import CapacityError, ep_combine, ep_dispatch, ep_dispatch_combine
from tests.unit.contract_cases import CPU, contract, drawn

pytestmark = pytest.mark.cuda

NAME = "ep_dispatch_combine"
CASES = 60
#: More than any device holds.
TOO_MANY = 1_000_000


def arguments_of(case, device):
    """What a dispatch takes, and what a combine takes after it."""
    given = contract(NAME).inputs(case, device, Poison())
    return given, given.pop("expert_out")


def test_everything_has_the_bits_of_the_oracle(device):
    of, wrong = contract(NAME), []
    for case in (*of.pinned, *drawn(NAME, CASES)):
        expected = of.oracle(**of.inputs(case, CPU, Poison()))
        actual = ep_dispatch_combine(**of.inputs(case, device, Poison(NAN)))
        check_grid_barriers(device)
        wrong += [(name, case) for name, tensor in expected.items() if differing(actual[name].cpu(), tensor).any()]
    assert wrong == []


def test_the_widest_grid_that_is_planned_passes_every_time(device):
    for case in contract(NAME).workloads[::2]:
        given, rows = arguments_of(case, device)
        for _ in range(100):
            sent = ep_dispatch(**given, block_num=TOO_MANY)
            summed = ep_combine(rows, sent, block_num=TOO_MANY)
        check_grid_barriers(device)
        for shape in (sent.launch, summed.launch):
            sys.stdout.write(f"\n{shape}\n")
            assert shape.block_num == shape.bound
        default = ep_dispatch(**given)
        sys.stdout.write(f"\n{default.launch}\n")
        assert not differing(default.recv.cpu(), sent.recv.cpu()).any()
        assert default.recv_src.equal(sent.recv_src)
        assert not differing(ep_combine(rows, default).out.cpu(), summed.out.cpu()).any()


def test_a_captured_exchange_follows_its_routing_and_says_what_had_no_room(device):
    given, rows = arguments_of(contract(NAME).pinned[1], device)
    plain = ep_dispatch(**given)
    expected = ep_combine(rows, plain).out
    routed = given["topk_ids"].clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sent = ep_dispatch(**given)
        summed = ep_combine(rows, sent)
    graph.replay()
    sent.check()
    assert not differing(summed.out.cpu(), expected.cpu()).any()
    given["topk_ids"].zero_()
    graph.replay()
    with pytest.raises(CapacityError, match=r"capacity: rank 0 receives 16 rows"):
        sent.check()
    lost = sent.send_rows[:, :, 0] >= given["capacity"]
    assert lost.any()
    assert summed.out.isnan().all(2).equal(lost)
    given["topk_ids"].copy_(routed)
    graph.replay()
    sent.check()
    assert not differing(summed.out.cpu(), expected.cpu()).any()
