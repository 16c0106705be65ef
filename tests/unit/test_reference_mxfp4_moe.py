"""The mixture-of-experts oracle on cases small enough to work out by hand, and against another formulation."""

import math

import pytest
import torch

from reference.mxfp4_moe import mxfp4_moe, mxfp4_moe_magnitude
from tests.unit.contract_cases import build, contract, drawn

ONE, TWO, THREE = 0x2, 0x4, 0x5
ONE_BYTE = 127


def silu(x):
    return x / (1 + math.exp(-x))


@pytest.fixture
def tiny():
    """One token of K = 32 on expert 0 of 2: gate 0 sees x[1], up 0 sees x[2], output 5 sees activation 0."""
    arguments = {
        "hidden_states": torch.zeros(1, 32, dtype=torch.bfloat16),
        "w13_packed": torch.zeros(2, 64, 16, dtype=torch.uint8),
        "w13_scale": torch.full((2, 64, 1), ONE_BYTE, dtype=torch.uint8),
        "w2_packed": torch.zeros(2, 32, 16, dtype=torch.uint8),
        "w2_scale": torch.full((2, 32, 1), ONE_BYTE, dtype=torch.uint8),
        "topk_ids": torch.tensor([[0]], dtype=torch.int32),
        "topk_weights": torch.tensor([[0.5]]),
    }
    arguments["hidden_states"][0, 1], arguments["hidden_states"][0, 2] = 1, 2
    arguments["w13_packed"][0, 0, 0] = ONE << 4
    arguments["w13_packed"][0, 32, 1] = THREE
    arguments["w2_packed"][0, 5, 0] = TWO
    return arguments


def output(arguments, **options):
    wide = {**arguments, "hidden_states": arguments["hidden_states"].double()}
    return mxfp4_moe(**wide, **options)["out"][0]


def test_one_path_through_both_matrices(tiny):
    out = output(tiny)
    assert out[5].item() == pytest.approx(0.5 * 2 * silu(1) * 6, rel=1e-15)
    assert out.count_nonzero() == 1


def test_the_output_has_the_dtype_of_the_hidden_states(tiny):
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        assert mxfp4_moe(**{**tiny, "hidden_states": tiny["hidden_states"].to(dtype)})["out"].dtype == dtype


def test_scales_are_exponents_and_belong_to_their_row(tiny):
    tiny["w13_scale"][0, 32], tiny["w2_scale"][0, 5] = 128, 124
    assert output(tiny)[5].item() == pytest.approx(0.5 * 2 / 8 * silu(1) * 12, rel=1e-15)


def test_the_three_kinds_of_scales_agree(tiny):
    names = ("w13_scale", "w2_scale")
    e8m0 = {name: tiny[name].view(torch.float8_e8m0fnu) for name in names}
    wide = {name: torch.ones(tiny[name].shape) for name in names}
    expected = output(tiny)
    assert torch.equal(output({**tiny, **e8m0}), expected)
    assert torch.equal(output({**tiny, **wide}), expected)


def test_the_clamp_bounds_the_gate_from_above_and_up_on_both_sides(tiny):
    assert output(tiny, clamp_limit=0.5)[5].item() == pytest.approx(silu(0.5) * 0.5, rel=1e-15)
    tiny["hidden_states"] *= -1
    assert output(tiny, clamp_limit=0.5)[5].item() == pytest.approx(silu(-1) * -0.5, rel=1e-15)


def test_the_routed_scaling_factor_multiplies_the_sum(tiny):
    assert torch.equal(output(tiny, routed_scaling_factor=2.5), output(tiny) * 2.5)


@pytest.mark.parametrize("invalid", [-1, 2, 2**31 - 1, -(2**31)])
def test_an_invalid_slot_contributes_nothing_whatever_expert_0_and_its_weight_hold(tiny, invalid):
    tiny["topk_ids"] = torch.tensor([[1, invalid]], dtype=torch.int32)
    tiny["topk_weights"] = torch.tensor([[1.0, math.nan]])
    tiny["w13_scale"][0] = 0xFF
    assert torch.equal(output(tiny), torch.zeros(32, dtype=torch.float64))


def test_an_expert_named_twice_counts_twice(tiny):
    once = output(tiny)
    tiny["topk_ids"], tiny["topk_weights"] = torch.tensor([[0, 0]]), torch.tensor([[0.5, 0.5]])
    assert torch.equal(output(tiny), 2 * once)


@pytest.mark.parametrize("limit", [None, 0.5])
def test_nan_scales_reach_exactly_the_outputs_behind_them(tiny, limit):
    tiny["w2_scale"][0, 7] = 0xFF
    assert output(tiny, clamp_limit=limit).isnan().nonzero().tolist() == [[7]]
    tiny["w13_scale"][0, 40] = 0xFF
    assert output(tiny, clamp_limit=limit).isnan().all()


def test_no_tokens_give_no_rows(tiny):
    tiny |= {name: tiny[name][:0] for name in ("hidden_states", "topk_ids", "topk_weights")}
    assert mxfp4_moe(**tiny)["out"].shape == (0, 32)
    assert mxfp4_moe_magnitude(**tiny)["out"].shape == (0, 32)


def test_agrees_with_a_dense_sum_over_all_experts():
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    grid = torch.cat((grid, -grid))

    def dense(packed, scale):
        codes = torch.empty(*packed.shape[:-1], 2 * packed.shape[-1], dtype=torch.int64)
        codes[..., 0::2], codes[..., 1::2] = packed % 16, packed // 16
        factors = scale.double() if scale.dtype == torch.float32 else torch.exp2(scale.view(torch.uint8).double() - 127)
        return (grid[codes].unflatten(-1, (-1, 32)) * factors[..., None]).flatten(-2)

    compared = 0
    for case in drawn("mxfp4_moe", 60):
        if case.nan_in != "nothing" or case.routing.num_tokens == 0:
            continue
        given, _ = build(contract("mxfp4_moe"), case)
        experts, limit = case.routing.num_experts, case.clamp_limit
        shares = torch.zeros(case.routing.num_tokens, experts, dtype=torch.float64)
        for expert in range(experts):
            shares[:, expert] = (given["topk_weights"].double() * (given["topk_ids"] == expert)).sum(dim=1)
        hidden = given["hidden_states"].double()
        both = torch.einsum("mk,enk->men", hidden, dense(given["w13_packed"], given["w13_scale"]))
        gate, up = both[..., : case.intermediate_size], both[..., case.intermediate_size :]
        if limit is not None:
            gate, up = torch.minimum(gate, torch.tensor(limit)), torch.clip(up, -limit, limit)
        activated = torch.nn.functional.silu(gate) * up
        down = torch.einsum("mei,eki->mek", activated, dense(given["w2_packed"], given["w2_scale"]))
        expected = torch.einsum("mek,me->mk", down, shares) * case.routed_scaling_factor
        actual = contract("mxfp4_moe").oracle(**{**given, "hidden_states": hidden})["out"]
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=float(expected.abs().max()) * 1e-12)
        compared += 1
    assert compared > 15


def test_the_magnitude_of_one_path_is_its_terms_and_the_slopes_between(tiny):
    tiny["topk_weights"] = torch.tensor([[0.5]])
    terms = 0.5 * 2 * (6 * silu(1) + slope(1) * 6 * 1 + silu(1) * 6)
    squares = (0.5 * 2) ** 2 * ((slope(1) * 6) ** 2 + 4 * (silu(1) * 6) ** 2)
    from reference.mxfp4_moe import ROUNDING_SHARE

    expected = terms + ROUNDING_SHARE * math.sqrt(squares)
    assert mxfp4_moe_magnitude(**tiny)["out"][0, 5].item() == pytest.approx(expected, rel=1e-12)


def slope(x):
    sigmoid = 1 / (1 + math.exp(-x))
    return sigmoid + x * sigmoid * (1 - sigmoid)
