"""Faults that only cost time are killed by the record of traffic; faults in counting by the tests of it."""

from pathlib import Path

import pytest

from harness.lanes import VirtualLane
from harness.run import check_case
from harness.traffic import record
from harness.vgpu import Schedule
from tests.teeth import traffic_faults
from tests.teeth.planting import implementation_with
from tests.teeth.swapping import swapped
from tests.unit import test_traffic as holding
from tests.unit.contract_cases import contract
from tests.vgpu import test_traffic as counting

LANE = VirtualLane(record=record.read(Path(__file__).parents[2]))

HARNESS = {
    "what one program does stands for one": (
        "harness.vgpu.traffic",
        " * (execution.programs.count * lanes // mask.data.size)",
        "",
        counting.test_what_programs_do_alike_counts_for_each,
    ),
    "programs that do not run count": (
        "harness.vgpu.traffic",
        "on = int(np.broadcast_to(each, lead)[np.broadcast_to(running, lead)].sum())",
        "on = int(np.broadcast_to(each, lead).sum())",
        lambda: counting.test_lanes_that_are_on_count_once_a_program((1, 3, 2, 0), {}),
    ),
    "what was taken back counts": (
        "harness.vgpu.execution",
        "self.counter.forget()",
        "self.counter.keep()",
        lambda: counting.test_looks_of_programs_that_wait_do_not_count_nor_what_is_taken_back(Schedule()),
    ),
    "elements count as bytes": (
        "harness.vgpu.memory",
        "pointer.shape, element.bytes, stored=True)",
        "pointer.shape, 1, stored=True)",
        counting.test_what_programs_do_alike_counts_for_each,
    ),
    "less than recorded passes": (
        "harness.traffic.record",
        "if before == after:",
        "if before is not None and after is not None and after <= before:",
        holding.test_more_and_less_than_recorded_fail_and_say_how_far,
    ),
    "launches as elsewhere are held to the record": (
        "harness.trial",
        "self.lane.record is None or self.lane.target:",
        "self.lane.record is None:",
        holding.test_cases_that_are_not_recorded_and_launches_as_elsewhere_have_no_verdict,
    ),
    "what is no longer launched passes": (
        "harness.traffic.record",
        "[*now, *(kernel for kernel in recorded if kernel not in now)]",
        "now",
        lambda: holding.test_a_kernel_too_many_or_too_few_fails({"another": (1, 2, 3)}),
    ),
}


@pytest.mark.parametrize("planted", traffic_faults.FAULTS, ids=str)
def test_what_costs_time_alone_is_killed(planted, tmp_path):
    of = contract(planted.contract)
    with implementation_with(planted, tmp_path) as implementation:
        results = (check_case(of, implementation, case, lane=LANE, only=planted.check) for case in of.pinned)
        assert any(violation.check == planted.check for result in results for violation in result.violations)


@pytest.mark.parametrize("name", HARNESS)
def test_the_named_test_kills(name):
    module, old, new, test = HARNESS[name]
    with swapped(module, old, new), pytest.raises(AssertionError):
        test()
