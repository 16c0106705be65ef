"""Sparse MLA decode on a real device: every tile of the table within the contract's budget, capture in a graph."""

import dataclasses

import pytest
import torch

from harness import registry
from harness.arguments import widened
from harness.compare import differing
from harness.poison import NAN, QUIET, Poison
from kernels import sparse_mla_decode as module

pytestmark = pytest.mark.cuda

NAME = "sparse_mla_decode"
TILES = (
    module.FEW_HEADS,
    module.SOME_HEADS,
    module.MANY_HEADS,
)
#: They ask for more shared memory than other targets have.
HOPPER_TILES = (module.MANY_HEADS_HOPPER, module.MANY_HEADS_HOPPER_TWO_CACHES)


@pytest.fixture(scope="module")
def contract():
    registry.load(installed=False)
    return registry.contract(NAME)


@pytest.fixture(scope="module")
def expected(contract):
    """Cases with their inputs on the CPU and what the oracle and the magnitude say of them."""
    # each is a compilation of each tile: two caches, lengths, NaN, strides; and more heads than a narrow tile has
    cases = [*contract.pinned[2:], *(dataclasses.replace(case, num_heads=64) for case in contract.pinned[1:3])]
    found = []
    for case in cases:
        here = contract.inputs(case, torch.device("cpu"), Poison(QUIET))
        wide = widened(here)
        found.append((case, contract.oracle(**here), contract.oracle(**wide), contract.magnitude(**wide)))
    return found


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_values_are_within_the_contracts_budget(device, contract, expected, monkeypatch, tile):
    judge(device, contract, expected, monkeypatch, tile)


@pytest.mark.sm90
@pytest.mark.sm100
@pytest.mark.sm103
@pytest.mark.parametrize("tile", HOPPER_TILES, ids=str)
def test_values_in_large_tiles_are_within_the_contracts_budget(device, contract, expected, monkeypatch, tile):
    judge(device, contract, expected, monkeypatch, tile)


def judge(device, contract, expected, monkeypatch, tile):
    monkeypatch.setattr(module, "choose_tile", lambda *shape: tile)
    for number, (case, own, wide, magnitude) in enumerate(expected):
        given = contract.inputs(case, device, Poison((QUIET, NAN)[number % 2]))
        outputs = dict(
            zip(("out", "lse"), module.sparse_mla_decode(**given, num_splits=(1, 3)[number % 2]), strict=True)
        )
        for name, budget in contract.tolerance.items():
            error = budget.compare(name, outputs[name].cpu(), own[name], wide[name], magnitude[name])
            assert error is None, (case, error)


def test_a_captured_launch_follows_its_inputs(device, contract):
    case = contract.pinned[3]
    given = contract.inputs(case, device, Poison(QUIET))
    module.sparse_mla_decode(**given)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = module.sparse_mla_decode(**given)
    for length in (5, 1, 0, 3):
        given["topk_length"].fill_(length)
        given["q"].mul_(-1)
        graph.replay()
        for again, now in zip(module.sparse_mla_decode(**given), captured, strict=True):
            assert not differing(again, now).any(), length
