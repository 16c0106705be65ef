"""The mixture-of-experts contract against faults that upstream's tests let through."""

import dataclasses

import pytest
import torch

from tests.unit.contract_cases import (
    complaints_about_rounded,
    contract,
    known,
    shows,
    with_changed,
    with_output,
    without,
)

NAME = "mxfp4_moe"


def on_bytes(change):
    """Apply ``change`` to the bytes of a one-byte tensor, which torch cannot move otherwise."""

    def changed(tensor):
        return change(tensor.view(torch.uint8)).view(tensor.dtype) if tensor.element_size() == 1 else change(tensor)

    return changed


def _invalid_to_zero(case, inputs):
    ids = inputs["topk_ids"]
    safe = ids.where((ids >= 0) & (ids < case.routing.num_experts), 0)
    return inputs | {"topk_ids": safe, "topk_weights": inputs["topk_weights"].where(safe == ids, 1.0)}


def _halves_swapped(tensor):
    return tensor.roll(tensor.shape[1] // 2, 1)


def _flushed(scale):
    wide = scale.float() if scale.dtype == torch.float32 else torch.exp2(scale.view(torch.uint8).float() - 127)
    return wide.where(wide.abs() >= 2.0**-126, 0)


def _odd_rows_zeroed(out, inputs):
    out[1::2] = 0
    return out


FAULTS = {
    "nibbles swapped": with_changed("w13_packed", "w2_packed", change=lambda t: t >> 4 | t << 4),
    "sign lost": with_changed("w13_packed", change=lambda t: t & 0x77),
    "subnormal 0.5 read as 0": with_changed("w2_packed", change=lambda t: t.where((t & 0x77) != 0x11, t & 0x88)),
    "gate and up swapped": with_changed(
        "w13_packed", "w13_scale", change=on_bytes(lambda t: t.roll(t.shape[1] // 2, 1))
    ),
    "scale of the next group": with_changed("w13_scale", change=on_bytes(lambda t: t.roll(1, 2))),
    "scale of the next row": with_changed("w2_scale", change=on_bytes(lambda t: t.roll(1, 1))),
    "scale of the next expert": with_changed("w13_scale", change=on_bytes(lambda t: t.roll(1, 0))),
    "every slot to expert 0": with_changed("topk_ids", change=torch.zeros_like),
    "invalid slots to expert 0": lambda case, inputs, oracle: oracle(**_invalid_to_zero(case, inputs)),
    "weights ignored": with_changed("topk_weights", change=torch.ones_like),
    "slots of other tokens": with_changed("topk_ids", "topk_weights", change=lambda t: t.roll(1, 0)),
    "clamp ignored": without("clamp_limit"),
    "routed scaling ignored": without("routed_scaling_factor", value=1.0),
    "e8m0 scale 0 flushed": with_changed("w13_scale", change=_flushed),
    "raw bytes as numbers": with_changed("w2_scale", change=lambda t: t.float() if t.dtype == torch.uint8 else t),
    "all zero": with_output("out", lambda out, inputs: torch.zeros_like(out)),
    "odd rows zeroed, the quiet ones": with_output("out", _odd_rows_zeroed),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_out_of_tolerance_in_several_drawn_cases(fault):
    assert shows(NAME, FAULTS[fault])


@pytest.mark.parametrize("seed", range(3))
def test_a_scaling_by_0_4_percent_shows_on_129_tokens(seed):
    case = dataclasses.replace(contract(NAME).pinned[3], hidden_size=64, intermediate_size=64, seed=seed)
    assert complaints_about_rounded(NAME, case, 1.004)
    assert not complaints_about_rounded(NAME, case, 1.0)


def test_one_rounding_of_the_exact_result_is_within_tolerance():
    for case, _, _ in known(NAME):
        assert complaints_about_rounded(NAME, case, 1.0) == [], case
