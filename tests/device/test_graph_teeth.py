"""The CUDA-graph contract on a real device: it kills every planted launch, and none that is sound."""

from dataclasses import replace

import pytest
import torch

from harness.contract import Capturable, Implementation
from harness.graphs import check_graphs
from tests.teeth.graph_faults import FAULTS
from tests.teeth.graph_wrappers import CONTRACT, SMALL, SOUND, plain


def checked(launch, contract=CONTRACT):
    implementation = Implementation(contract=contract.name, name="planted", launch=launch, capturable=Capturable())
    return check_graphs(contract, implementation)


@pytest.mark.parametrize("planted", FAULTS, ids=str)
def test_the_named_check_kills(gpu_target, planted):
    found = checked(planted.make())
    assert planted.check in {violation.check for violation in found}
    if planted.check == "graph:capture" and planted.line:
        # where the line is known without a GPU, it is known here
        assert all("graph_" in violation.message.partition(":")[0] for violation in found)


@pytest.mark.parametrize("make", SOUND, ids=lambda make: make.__name__)
def test_a_sound_launch_passes(gpu_target, make):
    assert checked(make()) == []


def test_a_device_is_as_before_after_a_capture_that_failed(gpu_target):
    allocated = torch.cuda.memory_allocated()
    assert checked(FAULTS[0].make())
    assert torch.rand(3, device="cuda").isfinite().all()
    assert torch.cuda.memory_allocated() - allocated < 2**20
    graph, total = torch.cuda.CUDAGraph(), torch.zeros(1, device="cuda")
    with torch.cuda.graph(graph):
        total += 1
    graph.replay()
    assert total.item() == 1


def test_what_is_replayed_reaches_the_message(gpu_target):
    contract = replace(CONTRACT, pinned=(SMALL,), replays=lambda case: (replace(case, ids=(2, 2, 2, 2)),))
    rest, held = plain(), {}

    def ignores_new_ids(x, ids, live):
        return rest(x, held.setdefault(ids.data_ptr(), (ids, ids.clone()))[1], live)

    messages = [violation.message for violation in checked(ignores_new_ids, contract)]
    assert any("a replay with the inputs of Case(ids=(2, 2, 2, 2), padded=1)" in message for message in messages)


def test_all_free_memory_is_taken_for_canaries(gpu_target):
    from harness.graphs.memory import Canaries

    torch.cuda.empty_cache()
    device = torch.device("cuda", torch.cuda.current_device())
    held, gone = torch.zeros(1000, device=device), torch.zeros(1000, device=device)
    where = gone.data_ptr()
    # the last block of a segment of small ones: with what follows it, it is larger than any small request
    del gone
    canaries = Canaries(device)
    segments = [s for s in torch.cuda.memory_snapshot() if tuple(s["segment_pool_id"]) == (0, 0)]
    assert [b["size"] for s in segments for b in s["blocks"] if b["state"] == "inactive"] == []
    assert any(b.data_ptr() <= where < b.data_ptr() + b.numel() for b in canaries._blocks)
    assert canaries.changed() is None
    assert held.sum() == 0
