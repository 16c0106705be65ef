"""The scatter matmul on a real device: values, capture in a graph, threads, and refusals before the launch."""

import threading
from dataclasses import replace

import pytest
import torch

from harness import registry
from harness.arguments import widened
from harness.launch.constraints import NoForm, constraints
from harness.launch.current import current_target
from harness.poison import NAN, QUIET, Poison
from harness.strategies.moe import Routing
from kernels import moe_scatter as scatter

pytestmark = pytest.mark.cuda

ROWS = ((0, 5), (7, 2), (-1, 5), (8, 1), (3, 3), (5, 0))
#: Tokens that give each tile of the table at 8 experts, 2 slots a token.
TOKENS = (3, 200, 1500)
WEIGHTS = ("bf16", "e4m3", "e2m1", "e2m1-uint8")


@pytest.fixture(scope="module")
def contract():
    registry.load(installed=False)
    return registry.contract("moe_scatter")


def case(contract, weights, tokens, **changes):
    routing = Routing(num_tokens=tokens, num_experts=8, rows=ROWS)
    return replace(
        contract.pinned[0], routing=routing, hidden_size=288, output_size=328, weights=weights, seed=tokens, **changes
    )


def complaint(contract, given, actual):
    """What is wrong with ``actual``, judged on the CPU, or None."""
    on_cpu = {name: None if value is None else value.cpu() for name, value in given.items()}
    wide = widened(on_cpu)
    high, magnitude = contract.oracle(**wide)["out"], contract.magnitude(**wide)["out"]
    return contract.tolerance["out"].compare("out", actual.cpu(), contract.oracle(**on_cpu)["out"], high, magnitude)


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("launch", [scatter.moe_scatter, scatter.moe_scatter_non_persistent])
def test_values_are_within_the_contracts_budget(device, contract, launch, weights, tokens):
    one = case(contract, weights, tokens)
    given = contract.inputs(one, device, Poison(QUIET))
    assert complaint(contract, given, launch(**given)) is None


@pytest.mark.sm100
@pytest.mark.sm103
@pytest.mark.sm120
@pytest.mark.sm121
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_store_form_is_within_the_contracts_budget(device, contract, weights):
    for tokens in TOKENS:
        one = case(contract, weights, tokens)
        given = contract.inputs(one, device, Poison(QUIET))
        assert complaint(contract, given, scatter.moe_scatter_persistent_store(**given)) is None


@pytest.mark.sm100
@pytest.mark.sm103
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_scatter_form_is_within_the_contracts_budget(device, contract, weights):
    for tokens in TOKENS:
        one = case(contract, weights, tokens)
        given = contract.inputs(one, device, Poison(QUIET))
        assert complaint(contract, given, scatter.moe_scatter_persistent_scatter(**given)) is None


@pytest.mark.parametrize("weights", WEIGHTS)
def test_content_that_may_be_anything_changes_no_bit(device, contract, weights):
    one = replace(case(contract, weights, 40), routing=Routing(num_tokens=40, num_experts=8, rows=((0, 5), (-1, 9))))
    quiet, junk = (scatter.moe_scatter(**contract.inputs(one, device, Poison(pattern))) for pattern in (QUIET, NAN))
    assert torch.equal(quiet.view(torch.int16), junk.view(torch.int16))
    # tokens with an odd number have no expert
    assert quiet[1::2].view(torch.int16).eq(0).all()


def test_special_values_decode_as_on_the_virtual_gpu(device, contract):
    for changes in ({"subnormal_codes": True}, {"nan_in": "w"}, {"nan_in": "w_scale"}):
        one = case(contract, "e4m3", 40, **changes)
        given = contract.inputs(one, device, Poison(QUIET))
        assert complaint(contract, given, scatter.moe_scatter(**given)) is None
    for scale_range in ("lowest", "highest"):
        one = case(contract, "e2m1", 40, scale_range=scale_range)
        given = contract.inputs(one, device, Poison(QUIET))
        assert complaint(contract, given, scatter.moe_scatter(**given)) is None


@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_captured_launch_follows_the_ids_it_is_replayed_with(device, contract, weights):
    first, second = (contract.inputs(case(contract, weights, tokens), device, Poison()) for tokens in (200, 200))
    second["topk_ids"] = second["topk_ids"].flip(0).contiguous()
    expected = scatter.moe_scatter(**second)
    scatter.moe_scatter(**first)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = scatter.moe_scatter(**first)
    first["topk_ids"].copy_(second["topk_ids"])
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)


def test_a_thread_without_an_allocator_launches(device, contract):
    given = contract.inputs(case(contract, "bf16", 40), device, Poison())
    expected, found = scatter.moe_scatter(**given), []
    thread = threading.Thread(target=lambda: found.append(scatter.moe_scatter(**given)))
    thread.start()
    thread.join()
    assert torch.equal(found[0], expected)


def test_what_the_device_cannot_do_is_refused_before_the_launch(device, contract):
    given = contract.inputs(case(contract, "bf16", 40), device, Poison())
    target = current_target(device)
    if target.arch not in ("sm_100", "sm_103"):
        with pytest.raises(NoForm, match=f"{target.arch}.*tile scatter"):
            scatter.moe_scatter_persistent_scatter(**given)
    with constraints(block_m=256, block_n=256, block_k=256, num_stages=8), pytest.raises(NoForm, match="bytes"):
        scatter.moe_scatter(**given)


@pytest.mark.sm90
@pytest.mark.parametrize("weights", ["e4m3", "e2m1"])
def test_decoding_in_ptx_gives_the_bits_of_the_portable_form(device, weights, monkeypatch):
    """Every code and every scale, those that are NaN among them: 256 rows, each of one code in all columns."""
    depth, rows = 64, 256
    codes = torch.arange(rows, dtype=torch.uint8, device=device)[None, :, None]
    given = {
        # one column of each token counts, so that a result is a weight
        "hidden_states": torch.eye(depth, dtype=torch.bfloat16, device=device),
        "w": codes.repeat(2, 1, depth if weights == "e4m3" else depth // 2),
        "topk_ids": torch.tensor([[0], [1]], dtype=torch.int32, device=device).repeat(depth // 2, 1),
    }
    if weights == "e4m3":
        given["w"] = given["w"].view(torch.float8_e4m3fn)
        given["w_scale"] = torch.ones(2, rows, device=device)
    else:
        given["w_scale"] = codes.flip(1).repeat(2, 1, depth // 32)
    found = [scatter.moe_scatter_words(**given)]
    kernel = scatter.moe_scatter_words_kernel
    portable = {"__getitem__": lambda _, grid: lambda *args, **named: kernel[grid](*args, **named | {"PTX": False})}
    monkeypatch.setattr(scatter, "moe_scatter_words_kernel", type("Portable", (), portable)())
    found.append(scatter.moe_scatter_words(**given))
    # NaN times the 0 of the other columns is NaN, whichever its bits are
    first, second = (one.view(torch.int16).where(~one.isnan(), 0x7FC0) for one in found)
    assert torch.equal(first, second)
    assert first.ne(0x7FC0).any()
    assert first.eq(0x7FC0).any()
