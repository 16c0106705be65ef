"""The merge contract against faults that upstream's tests let through."""

import dataclasses
import math

import pytest
import torch

from tests.unit.contract_cases import complaints_about_rounded, contract, known, shows, with_changed, with_output

NAME = "merge_attn_states"


def _empty_parts_averaged_in(case, inputs, oracle):
    return oracle(inputs["outs"].nan_to_num(0), inputs["lses"].where(inputs["lses"] != -math.inf, 0.0))


def _first_part_only(case, inputs, oracle):
    return oracle(inputs["outs"][:1], inputs["lses"][:1])


def _weights_in_base_2(case, inputs, oracle):
    return oracle(**inputs) | {"out": oracle(inputs["outs"], inputs["lses"] * math.log(2))["out"]}


FAULTS = {
    "empty parts averaged in": _empty_parts_averaged_in,
    "first part only": _first_part_only,
    "parts swapped": with_changed("outs", change=lambda t: t.flip(0)),
    "plain average": with_changed("lses", change=lambda t: t.where(t == -math.inf, 0.0)),
    "weights in base 2": _weights_in_base_2,
    "lse is the largest": with_output("lse", lambda lse, inputs: inputs["lses"].amax(dim=0)),
    "lse off by 2e-6": with_output("lse", lambda lse, inputs: lse * (1 + 2e-6)),
    "lse below -1e30 vanishes": with_output("lse", lambda lse, inputs: lse.where(~(lse < -1e30), -math.inf)),
    "all zero": with_output("out", lambda out, inputs: torch.zeros_like(out)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_out_of_tolerance_in_several_drawn_cases(fault):
    assert shows(NAME, FAULTS[fault])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_scaling_by_0_4_percent_shows_on_40_rows(dtype):
    plain = contract(NAME).pinned[0]
    case = dataclasses.replace(plain, num_parts=3, empty=((),) * 40, head_dim=64, dtype=dtype)
    assert complaints_about_rounded(NAME, case, 1.004)
    assert not complaints_about_rounded(NAME, case, 1.0)


def test_one_rounding_of_the_exact_result_is_within_tolerance():
    for case, _, _ in known(NAME):
        assert complaints_about_rounded(NAME, case, 1.0) == [], case
