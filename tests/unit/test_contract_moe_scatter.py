"""The scatter contract against faults that an implementation may have."""

import dataclasses

import pytest
import torch

from tests.unit.contract_cases import complaints_about_rounded, contract, known, shows, with_changed, with_output

NAME = "moe_scatter"


def on_codes(change):
    """Apply ``change`` to packed E2M1 codes; other weights stay."""
    return with_changed("w", change=lambda w: change(w) if w.dtype == torch.uint8 else w)


def on_bytes(change):
    """Apply ``change`` to the bytes of a one-byte tensor, which torch cannot move otherwise."""

    def changed(tensor):
        return change(tensor.view(torch.uint8)).view(tensor.dtype) if tensor.element_size() == 1 else change(tensor)

    return changed


def _invalid_to_zero(case, inputs, oracle):
    ids = inputs["topk_ids"]
    return oracle(**inputs | {"topk_ids": ids.where((ids >= 0) & (ids < case.routing.num_experts), 0)})


def _flushed(scale):
    return scale if scale.dtype == torch.float32 else scale.view(torch.uint8).where(scale.view(torch.uint8) != 0, 1)


def _odd_rows_zeroed(out, inputs):
    out[1::2] = 0
    return out


FAULTS = {
    "nibbles swapped": on_codes(lambda w: w >> 4 | w << 4),
    "sign lost": on_codes(lambda w: w & 0x77),
    "subnormal 0.5 read as 0": on_codes(lambda w: w.where((w & 0x77) != 0x11, w & 0x88)),
    "scale of the next group": with_changed("w_scale", change=on_bytes(lambda s: s.roll(1, 2) if s.dim() == 3 else s)),
    "scale of the next row": with_changed("w_scale", change=on_bytes(lambda s: s.roll(1, 1))),
    "scale of the next expert": with_changed("w_scale", change=on_bytes(lambda s: s.roll(1, 0))),
    "weights of the next row": with_changed("w", change=on_bytes(lambda w: w.roll(1, 1))),
    "rows of the next token": with_changed("hidden_states", change=lambda x: x.roll(1, 0)),
    "every slot to expert 0": with_changed("topk_ids", change=torch.zeros_like),
    "invalid slots to expert 0": _invalid_to_zero,
    "slots of one token swapped": with_output("out", lambda out, inputs: out.flip(1)),
    "slots of other tokens": with_output("out", lambda out, inputs: out.roll(1, 0)),
    "e8m0 scale 0 flushed": with_changed("w_scale", change=_flushed),
    "all zero": with_output("out", lambda out, inputs: torch.zeros_like(out)),
    "odd rows zeroed, the quiet ones": with_output("out", _odd_rows_zeroed),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_out_of_tolerance_in_several_drawn_cases(fault):
    assert shows(NAME, FAULTS[fault])


@pytest.mark.parametrize("seed", range(3))
def test_a_scaling_by_0_4_percent_shows_on_65_tokens(seed):
    case = dataclasses.replace(contract(NAME).pinned[1], hidden_size=64, output_size=64, seed=seed)
    assert complaints_about_rounded(NAME, case, 1.004)
    assert not complaints_about_rounded(NAME, case, 1.0)


def test_one_rounding_of_the_exact_result_is_within_tolerance():
    for case, _, _ in known(NAME):
        assert complaints_about_rounded(NAME, case, 1.0) == [], case
