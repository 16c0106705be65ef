"""The logits contract against faults that upstream's tests let through."""

import math

import pytest
import torch

from tests.unit.contract_cases import complaints_about_rounded, known, shows, with_changed, with_output

NAME = "paged_mqa_logits"


def _zero_past_the_end(logits, inputs):
    return logits.masked_fill(logits == -math.inf, 0)


def _last_page_for_minus_one(table):
    return table.where(table != -1, 0)


FAULTS = {
    "zero past the end": with_output("logits", _zero_past_the_end),
    "page -1 is page 0": with_changed("page_table", change=_last_page_for_minus_one),
    "first head only": with_changed("q", "weights", change=lambda t: t[..., :1, :] if t.dim() == 4 else t[:, :1]),
    "weights without a sign": with_changed("weights", change=torch.Tensor.abs),
    "off by 1e-5": with_output("logits", lambda logits, inputs: logits * (1 + 1e-5)),
    "rounded to bfloat16": with_output("logits", lambda logits, inputs: logits.bfloat16().float()),
    "all zero": with_output("logits", lambda logits, inputs: torch.zeros_like(logits)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_out_of_tolerance_in_several_drawn_cases(fault):
    assert shows(NAME, FAULTS[fault])


def test_one_rounding_of_the_exact_result_is_within_tolerance():
    for case, _, _ in known(NAME):
        assert complaints_about_rounded(NAME, case, 1.0) == [], case
