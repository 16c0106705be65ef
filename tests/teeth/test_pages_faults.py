"""Programs of several pages of ``paged_mqa_logits``: right in cases of the contract, and faults in them are killed."""

import sys

import pytest

from harness import registry
from harness.run import check_case
from tests.teeth.logits_faults import NAME, PAGES_FAULTS
from tests.teeth.planting import COPY, implementation_with
from tests.unit.contract_cases import contract

#: Cases of two and three pages a row, with a page that none has and a narrow table.
CASES = (1, 2, 5)


def two_pages_a_program(monkeypatch, package):
    module = sys.modules[f"{package}.{NAME}"]
    monkeypatch.setattr(module, "MANY_PROGRAMS", 1)
    monkeypatch.setattr(module, "MAX_PAGES_A_PROGRAM", 2)


def violations(implementation, check):
    """Violations of ``check`` in all of ``CASES``."""
    of = contract(NAME)
    results = (check_case(of, implementation, of.pinned[number], only=check) for number in CASES)
    return [violation for result in results for violation in result.violations]


def test_a_program_of_several_pages_is_right(monkeypatch):
    of = contract(NAME)
    registry.load(("kernels",), installed=False)
    (implementation,) = (i for i in registry.implementations(NAME) if i.name == "triton")
    two_pages_a_program(monkeypatch, "kernels")
    for number in CASES:
        assert check_case(of, implementation, of.pinned[number]).violations == []


@pytest.mark.parametrize("planted", PAGES_FAULTS, ids=str)
def test_the_named_check_kills(planted, tmp_path, monkeypatch):
    contract(NAME)
    with implementation_with(planted, tmp_path) as implementation:
        two_pages_a_program(monkeypatch, COPY)
        assert any(violation.check == planted.check for violation in violations(implementation, planted.check))
