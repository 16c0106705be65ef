"""A fault in what a launch function does for another target alone is killed without that target."""

from dataclasses import replace

import pytest

from harness.contract import Requires
from harness.elsewhere import check_elsewhere, others
from harness.lanes import VirtualLane
from harness.run import check_case
from harness.search import search
from tests.teeth.planting import Planted, implementation_with
from tests.unit.contract_cases import contract

LOGITS = "paged_mqa_logits"
FAULT = Planted(
    "one tile of heads on AMD, whatever their number", LOGITS, "ONE_TILE=not amd and num_heads <= MAX_BLOCK_H",
    "ONE_TILE=amd or num_heads <= MAX_BLOCK_H", "oracle:logits", LOGITS, "triton", 1,
)  # fmt: skip


PAGES = Planted(
    "a counter of heads takes the place of the first page", LOGITS, "first_head", "first", "oracle:logits", LOGITS,
    "triton", 2,
)  # fmt: skip


@pytest.fixture
def faulty(tmp_path):
    contract(LOGITS)
    with implementation_with(FAULT, tmp_path) as implementation:
        yield implementation


@pytest.fixture
def case():
    return next(case for case in contract(LOGITS).pinned if case.num_heads == 65)


def test_only_the_other_target_shows_it(faulty, case):
    assert check_case(contract(LOGITS), faulty, case, only="memory").violations == []
    found = {
        target.marker: check_elsewhere(contract(LOGITS), faulty, case, VirtualLane(), target).violations
        for target in others(faulty)
    }
    assert {marker for marker, violations in found.items() if violations} == {"gfx950"}
    (violation,) = found["gfx950"]
    assert violation.check == FAULT.check
    assert violation.message.startswith("[as on gfx950] logits: ")


def test_pages_of_a_program_are_shown_where_heads_take_several_tiles(tmp_path):
    of = contract(LOGITS)
    wide = next(case for case in of.pinned if case.max_seq_len > 2**14)
    with implementation_with(PAGES, tmp_path) as implementation:
        amd = others(implementation)[-1]
        checks = {found.check for found in check_elsewhere(of, implementation, wide, VirtualLane(), amd).violations}
    assert PAGES.check in checks


def test_a_search_runs_pinned_cases_elsewhere_too(faulty, case):
    # each in turn: the third is launched as on the third target
    few = replace(contract(LOGITS), pinned=(contract(LOGITS).pinned[0],) * 2 + (case,), rejects=tuple, relations=())
    report = search(few, faulty, examples=1, rare=False)
    assert [fault.check for fault in report.faults if "[as on gfx950]" in fault.message] == [FAULT.check]


@pytest.mark.parametrize(
    ("targets", "markers"),
    [((), ("sm90", "sm100", "gfx950")), (("sm100", "sm103"), ("sm100",)), (("rocm",), ("gfx950",)), (("sm120",), ())],
)
def test_targets_that_an_implementation_does_not_run_on_are_left_out(faulty, targets, markers):
    assert tuple(t.marker for t in others(replace(faulty, requires=Requires(targets=targets)))) == markers
