"""An implementation that asks for interleavings is run in other orders, with races looked for; others pay nothing."""

import re
from dataclasses import dataclass

import hypothesis.strategies as st
import pytest
import torch

from harness.contract import Contract, Implementation, Interleavings
from harness.run import check_case
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


def run(*arguments, **options):
    subject, launches = implementation(*arguments, **options)
    result = check_case(CONTRACT, subject, Case(4))
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


def test_orders_alone_show_other_bits():
    result, _ = run(Interleavings(seeds=8, races=False), needed=2)
    assert {violation.check for violation in result.violations} == {"interleaving"}
    assert "same in every order of programs" in result.violations[0].message


def test_more_programs_than_the_device_holds_are_a_deadlock():
    subject, _ = implementation(Interleavings(seeds=1))
    result = check_case(CONTRACT, subject, Case(600), only="interleaving")
    assert "600 in the grid" in result.violations[0].message
