"""Every fault planted in the virtual GPU's bookkeeping and in sanitize is killed by the test that names it."""

import pytest
import torch

from harness.sanitize.emulation import Options, emulate
from tests.sanitize import test_autocast, test_devices
from tests.teeth.emulation_faults import FAULTS
from tests.teeth.swapping import swapped
from tests.unit import test_interleavings
from tests.vgpu import (
    test_addresses,
    test_lanewise,
    test_libdevice,
    test_memory_cost,
    test_refusals,
    test_step_budget,
)


def _journalled(test):
    with test_memory_cost.watched_journals() as peak:
        test(peak)


def _overflowing():
    with test_memory_cost.watched_journals() as peak, pytest.MonkeyPatch.context() as patch:
        test_memory_cost.test_beyond_a_limit_fewer_programs_run_at_once_and_each_runs_once(peak, patch)


def _emulated(test):
    with emulate(Options()) as machine:
        test(machine)


# by the name of a test: how to call it
CHECKS = {
    "test_flags_take_a_byte_for_a_byte_and_nothing_once_all_is_written": (
        lambda test: test(torch.float32),
        test_memory_cost,
    ),
    "test_every_tensor_made_in_a_session_is_reached": (
        lambda test: test(test_addresses.MADE["cast"]),
        test_addresses,
    ),
    "test_an_address_past_a_tensor_is_out_of_bounds_of_its_storage": (lambda test: test(), test_addresses),
    "test_a_kernel_that_fills_new_memory_from_end_to_end_needs_next_to_no_journal": (_journalled, test_memory_cost),
    "test_beyond_a_limit_fewer_programs_run_at_once_and_each_runs_once": (
        lambda test: _overflowing(),
        test_memory_cost,
    ),
    "test_the_message_names_line_types_target_and_what_to_do": (lambda test: test(), test_refusals),
    "test_amd_targets_are_not_held_to_what_nvidia_refuses": (lambda test: test(), test_refusals),
    "test_lanes_loop_until_each_has_ended": (lambda test: test(True), test_lanewise),
    "test_neighbours_are_handled_together": (lambda test: test(), test_lanewise),
    "test_an_unrolled_loop_counts_too": (lambda test: test(), test_step_budget),
    "test_directed_rounding_is_exact": (
        lambda test: test("fadd", "rd", test_libdevice.some_operands()),
        test_libdevice,
    ),
    "test_functions_with_a_documented_bound_are_trusted_and_others_are_named": (lambda test: test(), test_libdevice),
    "test_a_wrong_barrier_is_caught_where_plain_launches_pass": (
        lambda test: test({"gather": False}),
        test_interleavings,
    ),
    "test_orders_alone_show_other_bits": (lambda test: test(), test_interleavings),
    "test_values_are_those_of_casts_by_hand": (_emulated, test_autocast),
    "test_float32_gradients_of_long_sums_are_as_good_as_sums_in_blocks": (
        lambda test: test("group_norm"),
        test_devices,
    ),
}


def run(check):
    call, module = CHECKS[check]
    if module is test_devices:
        with emulate(Options()):
            call(getattr(module, check))
    else:
        call(getattr(module, check))


@pytest.mark.parametrize("check", CHECKS)
def test_the_code_without_a_fault_passes(check):
    run(check)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_named_test_kills(fault):
    with swapped(f"harness.{fault.file}", fault.old, fault.new), pytest.raises((Exception, pytest.fail.Exception)):
        run(fault.check)


def test_every_check_kills_some_fault():
    assert CHECKS.keys() == {fault.check for fault in FAULTS}


def test_no_two_planted_faults_are_the_same():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
