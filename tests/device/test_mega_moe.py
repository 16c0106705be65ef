"""``mega_moe`` on a real device: its results, graphs of it, and its cost beside ``mxfp4_moe``, which ``-s`` shows."""

import sys

import pytest
import torch

from harness.launch.grid_barrier import check_grid_barriers
from kernels.mega_moe import mega_moe
from kernels.mxfp4_moe import mxfp4_moe
from tests.unit.contract_cases import build, complaints, contract, oracles

pytestmark = pytest.mark.cuda

NAME = "mega_moe"


def on(device, inputs):
    return {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}


def experts(device, *, tokens, experts=256, hidden=4096, inter=2048, topk=6, seed=0):
    """Arguments of the size of a workload, made on the device."""
    generator = torch.Generator(device).manual_seed(tokens + seed)

    def codes(*shape, low=0, high=256):
        return torch.randint(low, high, shape, dtype=torch.uint8, device=device, generator=generator)

    ids = torch.rand(tokens, experts, device=device, generator=generator).topk(topk).indices
    return {
        "hidden_states": torch.randn(tokens, hidden, device=device, generator=generator).bfloat16(),
        "w13_packed": codes(experts, 2 * inter, hidden // 2),
        "w13_scale": codes(experts, 2 * inter, hidden // 32, low=121, high=127),
        "w2_packed": codes(experts, hidden, inter // 2),
        "w2_scale": codes(experts, hidden, inter // 32, low=119, high=126),
        "topk_ids": ids.int(),
        "topk_weights": torch.rand(tokens, topk, device=device, generator=generator),
        "clamp_limit": 10.0,
    }


@pytest.mark.parametrize("path", ["slot", "grouped"])
def test_pinned_cases_are_within_tolerance(device, path):
    of = contract(NAME)
    for case in of.pinned:
        inputs, _ = build(of, case)
        out = mega_moe(**on(device, inputs), path=path)
        check_grid_barriers(device)
        assert complaints(of, {"out": out.cpu()}, oracles(of, inputs)) == [], case


@pytest.mark.parametrize("launch", [mega_moe, mxfp4_moe])
def test_large_tiles_give_the_same_bits_every_time(device, launch):
    """8,192 tiles in each multiply: where registers of one in flight were written, one tile of 10^5 was wrong."""
    inputs = experts(device, tokens=4096)
    expected = launch(**inputs)
    assert [number for number in range(100) if not torch.equal(launch(**inputs), expected)] == []


@pytest.mark.parametrize("launch", [mega_moe, mxfp4_moe])
@pytest.mark.parametrize("tokens", [16, 256])
def test_a_replayed_graph_gives_what_a_launch_gives_of_what_its_inputs_hold(device, tokens, launch):
    sizes = {"tokens": tokens, "experts": 16, "hidden": 512, "inter": 256}
    inputs = experts(device, **sizes)
    launch(**inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first = launch(**inputs)
        second = launch(**inputs)
    for round in range(5):
        others = experts(device, **sizes, seed=round)
        if round == 1:
            # half of the tokens have no expert, and all of the others the same one
            others["topk_ids"][: tokens // 2] = -1
            others["topk_ids"][tokens // 2 :, 0] = 3
        expected = launch(**others)
        for name, value in others.items():
            if isinstance(value, torch.Tensor):
                inputs[name].copy_(value)
        for _ in range(4):
            first.zero_()
            second.zero_()
            graph.replay()
            assert torch.equal(first, expected)
            assert torch.equal(second, expected)
    check_grid_barriers(device)


@pytest.mark.parametrize("tokens", [1, 64, 512])
def test_the_result_at_a_workloads_size_is_that_of_three_launches(device, tokens):
    inputs = experts(device, tokens=tokens)
    took = {}
    for name, launch in (("mega_moe", mega_moe), ("mxfp4_moe", mxfp4_moe)):
        launch(**inputs)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            out = launch(**inputs)
        end.record()
        torch.cuda.synchronize(device)
        took[name] = round(begin.elapsed_time(end) * 100, 1), out
    check_grid_barriers(device)
    sys.stdout.write(f"\n{tokens} tokens, microseconds: { {name: time for name, (time, _) in took.items()} }\n")
    ours, theirs = (out.double() for _, out in took.values())
    assert ((ours - theirs).norm(dim=1) <= 1e-2 * theirs.norm(dim=1)).all()
