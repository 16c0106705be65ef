"""The scatter oracle on cases small enough to work out by hand, and against another formulation."""

import math

import pytest
import torch

from reference.moe_scatter import moe_scatter, moe_scatter_magnitude
from tests.unit.contract_cases import build, contract, drawn

ONE, TWO, THREE = 0x2, 0x4, 0x5
ONE_BYTE = 127


@pytest.fixture
def tiny():
    """Two tokens of K = 32 on 2 experts of 8 rows: expert 0 takes x[1] to row 3, expert 1 twice x[2] to row 5."""
    arguments = {
        "hidden_states": torch.zeros(2, 32, dtype=torch.bfloat16),
        "w": torch.zeros(2, 8, 32, dtype=torch.bfloat16),
        "topk_ids": torch.tensor([[0, 1], [1, 1]], dtype=torch.int32),
    }
    arguments["hidden_states"][0, 1], arguments["hidden_states"][0, 2], arguments["hidden_states"][1, 2] = 3, 5, 7
    arguments["w"][0, 3, 1], arguments["w"][1, 5, 2] = 1, 2
    return arguments


def output(arguments):
    wide = {**arguments, "hidden_states": arguments["hidden_states"].double()}
    return moe_scatter(**wide)["out"]


def elements(out):
    """Return the elements that are not zero, by place."""
    return {tuple(place): out[tuple(place)].item() for place in out.nonzero().tolist()}


def test_each_slot_has_the_row_of_its_token_times_its_expert(tiny):
    assert elements(output(tiny)) == {(0, 0, 3): 3, (0, 1, 5): 10, (1, 0, 5): 14, (1, 1, 5): 14}


def test_the_output_has_the_dtype_of_the_hidden_states(tiny):
    for dtype in (torch.bfloat16, torch.float64):
        assert moe_scatter(**{**tiny, "hidden_states": tiny["hidden_states"].to(dtype)})["out"].dtype == dtype


@pytest.mark.parametrize("invalid", [-1, 2, 2**31 - 1, -(2**31)])
def test_the_row_of_an_invalid_id_is_zero_whatever_expert_0_holds(tiny, invalid):
    tiny["topk_ids"][0, 0], tiny["w"][0] = invalid, math.nan
    assert elements(output(tiny)) == {(0, 1, 5): 10, (1, 0, 5): 14, (1, 1, 5): 14}


def test_e4m3_weights_have_one_factor_a_row(tiny):
    scale = torch.ones(2, 8)
    scale[0, 3], scale[1, 5] = 0.75, -2
    assert elements(output(tiny | {"w": tiny["w"].to(torch.float8_e4m3fn), "w_scale": scale})) == {
        (0, 0, 3): 2.25, (0, 1, 5): -20, (1, 0, 5): -28, (1, 1, 5): -28,
    }  # fmt: skip


def test_e2m1_weights_are_low_nibble_first_with_an_exponent_a_group(tiny):
    packed, scale = torch.zeros(2, 8, 16, dtype=torch.uint8), torch.full((2, 8, 1), ONE_BYTE, dtype=torch.uint8)
    packed[0, 3, 0], packed[1, 5, 1] = ONE << 4, TWO | THREE << 4
    scale[1, 5] = ONE_BYTE + 3
    given = tiny | {"w": packed, "w_scale": scale}
    expected = {(0, 0, 3): 3, (0, 1, 5): 80, (1, 0, 5): 112, (1, 1, 5): 112}
    assert elements(output(given)) == expected
    assert elements(output(given | {"w_scale": scale.view(torch.float8_e8m0fnu)})) == expected


def test_nan_reaches_exactly_the_rows_behind_it(tiny):
    tiny["w"][1, 6, 0] = math.nan
    assert output(tiny).isnan().nonzero().tolist() == [[0, 1, 6], [1, 0, 6], [1, 1, 6]]


def test_no_tokens_give_no_rows(tiny):
    tiny |= {name: tiny[name][:0] for name in ("hidden_states", "topk_ids")}
    assert moe_scatter(**tiny)["out"].shape == (0, 2, 8)
    assert moe_scatter_magnitude(**tiny)["out"].shape == (0, 2, 8)


def test_the_magnitude_is_the_sum_of_absolute_terms(tiny):
    tiny["hidden_states"][0, :3] = torch.tensor([1.0, -3, 5])
    tiny["w"][0, 3, :3] = torch.tensor([2.0, 1, -1])
    assert moe_scatter_magnitude(**tiny)["out"][0, 0, 3] == 10
    assert output(tiny)[0, 0, 3] == -6


def test_agrees_with_a_dense_product_of_all_experts():
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    grid = torch.cat((grid, -grid))

    def dense(w, scale):
        if scale is None:
            return w.double()
        if w.dtype != torch.uint8:
            return w.double() * scale.double()[..., None]
        codes = torch.stack((w % 16, w // 16), dim=-1).flatten(-2)
        factors = torch.exp2(scale.view(torch.uint8).double() - 127)
        return (grid[codes.long()].unflatten(-1, (-1, 32)) * factors[..., None]).flatten(-2)

    compared = 0
    for case in drawn("moe_scatter", 60):
        if case.nan_in != "nothing" or case.routing.num_tokens == 0:
            continue
        given, _ = build(contract("moe_scatter"), case)
        hidden = given["hidden_states"].double()
        every = torch.einsum("mk,enk->men", hidden, dense(given["w"], given["w_scale"]))
        ids = given["topk_ids"].long()
        valid = (ids >= 0) & (ids < case.routing.num_experts)
        chosen = every[torch.arange(len(ids))[:, None], ids.where(valid, 0)]
        actual = contract("moe_scatter").oracle(**{**given, "hidden_states": hidden})["out"]
        torch.testing.assert_close(actual, chosen.where(valid[..., None], 0), rtol=1e-12, atol=1e-12)
        compared += 1
    assert compared > 15
