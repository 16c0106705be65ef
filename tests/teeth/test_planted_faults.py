"""Every planted fault is killed, by the check that names it, among pinned cases and what the ``ci`` profile draws."""

import functools
from pathlib import Path

import pytest
import torch

from harness.poison import Poison
from harness.run import check_case, check_rejections
from tests.teeth import attention_faults, logits_faults, moe_faults, scatter_faults
from tests.teeth.planting import Planted, implementation_with
from tests.unit.contract_cases import contract, drawn

FAULTS = (*moe_faults.FAULTS, *attention_faults.FAULTS, *logits_faults.FAULTS, *scatter_faults.FAULTS)
#: A search of the ``ci`` profile draws 100 cases a pass, and makes a pass more for what is rare or hidden.
CASES = 200
#: Rows of a case that takes as long as all others together, and shows little that they do not.
MANY = 1000


@functools.cache
def cases(name):
    """Pinned cases, those of many rows last, and what is drawn: the first that shows a fault ends the test."""
    of = contract(name)

    def long(case):
        inputs = of.inputs(case, torch.device("cpu"), Poison()).values()
        return any(isinstance(value, torch.Tensor) and value.dim() and len(value) > MANY for value in inputs)

    return (*sorted(of.pinned, key=long), *drawn(name, CASES))


def kills(fault, implementation):
    """Whether the fault's check, or one that begins so, fails in some case; nothing that it does not need is run."""
    of = contract(fault.contract)
    if fault.check.startswith("rejects:"):
        results = iter([check_rejections(of, implementation)])
    else:
        # "oracle:" and "poison:" are any of several checks
        only = None if fault.check.endswith(":") else fault.check
        results = (check_case(of, implementation, case, only=only) for case in cases(of.name))
    return any(violation.check.startswith(fault.check) for result in results for violation in result.violations)


@pytest.mark.parametrize("planted", FAULTS, ids=str)
def test_the_named_check_kills(planted: Planted, tmp_path: Path) -> None:
    contract(planted.contract)
    with implementation_with(planted, tmp_path) as implementation:
        assert kills(planted, implementation)


def test_no_two_planted_faults_are_the_same() -> None:
    changes = {(fault.file, fault.old, fault.new, fault.implementation) for fault in FAULTS}
    assert len(changes) == len(FAULTS)
