"""An implementation that asks for interleavings is run in other orders, with races looked for; others pay nothing."""

import re
from dataclasses import dataclass

import hypothesis.strategies as st
import pytest
import torch
import triton
import triton.language as tl

from harness.contract import Contract, Implementation, Interleavings
from harness.run import check_case
from harness.search import search
from harness.tolerance import Exact
from tests.vgpu.sync_kernels import BLOCK, barrier_kernel


@dataclass(frozen=True)
class Case:
    programs: int


def expected(ids):
    return {"out": (ids[:, None] + torch.arange(BLOCK, dtype=torch.int32)).roll(-1, 0)}


CONTRACT = Contract(
    name="rolled",
    cases=lambda: st.builds(Case, programs=st.integers(2, 8)),
    inputs=lambda case, device, poison: {"ids": torch.arange(case.programs, dtype=torch.int32, device=device)},
    oracle=expected,
    tolerance={"out": Exact()},
)


@triton.jit
def one_row_kernel(row_ptr, out_ptr, BLOCK: tl.constexpr):
    pid, offs = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(row_ptr + offs, offs + pid)
    tl.store(out_ptr + pid * BLOCK + offs, tl.load(row_ptr + offs))


def implementation(interleavings, *, gather=True, needed=0):
    launches = []

    def launch(ids):
        n = len(ids)
        count = torch.zeros(1, dtype=torch.int32)
        x, out = (torch.zeros(n, BLOCK, dtype=torch.int32) for _ in range(2))
        launches.append(n)
        barrier_kernel[(n,)](count, x, out, n - needed, BLOCK=BLOCK, GATHER=gather, ARRIVE="release", WAIT="acquire")
        return out

    made = Implementation(contract="rolled", name="barrier", launch=launch, interleavings=interleavings)
    return made, launches


def run(*arguments, races=False, **options):
    subject, launches = implementation(*arguments, **options)
    result = check_case(CONTRACT, subject, Case(4), races=races)
    return result, len(launches)


def test_a_right_barrier_passes_in_every_order():
    result, launches = run(Interleavings(seeds=3))
    assert result.violations == []
    assert "interleaving" in result.checks_run
    assert launches == run(None)[1] + 3


@pytest.mark.parametrize(
    "broken",
    [{"gather": False}, {"needed": 1}],
    ids=["a release that covers one thread", "a program that does not wait for the last one"],
)
def test_a_wrong_barrier_is_caught_where_plain_launches_pass(broken):
    plain, _ = run(None, **broken)
    assert plain.violations == []
    assert "interleaving" not in plain.checks_run
    result, _ = run(Interleavings(seeds=2), **broken)
    assert {violation.check for violation in result.violations} == {"interleaving"}
    assert re.match(r"\[seed \d\] race between programs in barrier_kernel", result.violations[0].message)


def test_a_race_is_caught_where_nobody_asked_for_orders():
    plain, launches = run(None, races=True, gather=False)
    assert {violation.check for violation in plain.violations} == {"race"}
    assert plain.violations[0].message.startswith("race between programs in barrier_kernel")
    assert launches == run(None, gather=False)[1] + 1


def test_whoever_asks_for_orders_says_whether_races_count():
    result, _ = run(Interleavings(seeds=1, races=False), races=True, gather=False)
    assert result.violations == []
    assert "race" not in result.checks_run


def test_one_program_or_too_many_to_remember_are_not_looked_at():
    subject, _ = implementation(None, needed=1, gather=False)
    assert "race" not in check_case(CONTRACT, subject, Case(1)).checks_run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.trial.MOST_RACING", 3)
        assert "race" not in check_case(CONTRACT, subject, Case(4), only="race").checks_run
    assert "race" in check_case(CONTRACT, subject, Case(4), only="race").checks_run


def test_a_search_looks_for_races_in_two_cases_and_shrinks_what_it_finds():
    subject, _ = implementation(None)
    assert search(CONTRACT, subject, examples=4).checks["race"].examples == 2
    subject, _ = implementation(None, gather=False)
    (fault,) = search(CONTRACT, subject, examples=4).faults
    assert (fault.check, fault.case) == ("race", Case(2))


def test_a_wrong_value_is_told_with_the_race_behind_it():
    def launch(ids):
        out, row = torch.empty(len(ids), BLOCK, dtype=torch.int32), torch.empty(BLOCK, dtype=torch.int32)
        one_row_kernel[(len(ids),)](row, out, BLOCK=BLOCK)
        return out

    subject = Implementation(contract="rolled", name="one-row", launch=launch)
    with pytest.MonkeyPatch.context() as patch:
        # two cases that race have been seen: what comes later is still explained
        patch.setattr("harness.hunt.RACE_CASES", 0)
        faults = {fault.check: fault for fault in search(CONTRACT, subject, examples=2).faults}
    assert "race" not in faults
    wrong, _, race = faults["oracle:out"].message.partition("\nand its programs race: ")
    assert "elements break 'exact'" in wrong
    assert race.startswith("race between programs in one_row_kernel")


def test_orders_alone_show_other_bits():
    result, _ = run(Interleavings(seeds=8, races=False), needed=2)
    assert {violation.check for violation in result.violations} == {"interleaving"}
    assert "same in every order of programs" in result.violations[0].message


def test_more_programs_than_the_device_holds_are_a_deadlock():
    subject, _ = implementation(Interleavings(seeds=1))
    result = check_case(CONTRACT, subject, Case(600), only="interleaving")
    assert "600 in the grid" in result.violations[0].message
