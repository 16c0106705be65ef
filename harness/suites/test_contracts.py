"""Every registered contract can be relied on: cases print as themselves, inputs repeat, the oracle ignores junk."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness import cases
from harness.arguments import tensors
from harness.compare import first_bit_error
from harness.contract import Contract
from harness.poison import PATTERNS, QUIET, Poison

pytestmark = pytest.mark.conformance

CPU = torch.device("cpu")
FEW = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@FEW
@given(data=st.data())
def test_a_printed_case_reads_back_as_itself(contract: Contract[Any], data: st.DataObject) -> None:
    case = data.draw(contract.cases(), label="case")
    again = cases.parse(contract, repr(case))
    assert again == case
    assert contract.features(again) == contract.features(case)


@FEW
@given(data=st.data())
def test_the_same_case_gives_the_same_inputs(contract: Contract[Any], data: st.DataObject) -> None:
    case = data.draw(contract.cases(), label="case")
    first, second = (tensors(contract.inputs(case, CPU, Poison())) for _ in range(2))
    assert first.keys() == second.keys()
    assert first_bit_error(first, second, "same inputs") is None


@FEW
@given(data=st.data())
def test_the_oracle_ignores_what_may_hold_anything(contract: Contract[Any], data: st.DataObject) -> None:
    case = data.draw(contract.cases(), label="case")
    expected = contract.oracle(**contract.inputs(case, CPU, Poison(QUIET)))
    for pattern in PATTERNS[1:]:
        actual = contract.oracle(**contract.inputs(case, CPU, Poison(pattern)))
        assert first_bit_error(actual, expected, f"oracle with {pattern.name} content") is None


def test_pinned_cases_and_workloads_print_as_themselves(contract: Contract[Any]) -> None:
    for case in (*contract.pinned, *contract.workloads):
        assert cases.parse(contract, repr(case)) == case
