"""What contract 5 promises of SM budgets: each case is called with the devices and with the budgets to be judged."""

from harness.injector import cross_threads, inject
from harness.state import register_state, unregister_state
from tests.unit.budgets import RESERVE


def refuses(budgets, device=None):
    try:
        with budgets.budget(device):
            return False
    except ValueError:
        return True


def an_outer_budget_of_one_is_refused(devices, budgets):
    budgets.set(1)
    assert refuses(budgets)


def a_reserve_that_leaves_one_sm_is_refused(devices, budgets):
    devices.counts[0] = 3
    assert refuses(budgets)


def a_reserve_of_every_sm_is_refused(devices, budgets):
    devices.environment[RESERVE] = "148"
    assert refuses(budgets)


def an_odd_partition_is_rounded_down_on_every_architecture(devices, budgets):
    devices.arch = 90
    devices.enter_context(0, 33)
    with budgets.budget():
        assert budgets.launched_on() == 30


def a_second_device_has_its_own_count(devices, budgets):
    with budgets.budget():
        assert budgets.launched_on() == 146
    devices.current = 1
    budgets.set(78)
    with budgets.budget():
        assert budgets.launched_on() == 76


def another_context_of_the_device_has_its_own_count(devices, budgets):
    with budgets.budget():
        pass
    devices.enter_context(0, 96)
    with budgets.budget():
        assert budgets.launched_on() == 94


def an_environment_changed_after_the_first_use_counts(devices, budgets):
    with budgets.budget():
        pass
    devices.environment[RESERVE] = "8"
    with budgets.budget():
        assert budgets.launched_on() == 140


def the_reserve_applies_to_sm_90(devices, budgets):
    devices.arch = 90
    with budgets.budget():
        assert budgets.launched_on() == 146


def what_the_body_sets_is_kept(devices, budgets):
    with budgets.budget():
        budgets.set(64)
    assert budgets.launched_on() == 64


def what_the_body_sets_is_kept_even_if_it_is_the_same_number(devices, budgets):
    with budgets.budget() as sms:
        budgets.set(sms)
    assert budgets.launched_on() == 146


def an_interrupt_at_any_step_leaves_the_budget_as_it_was(devices, budgets):
    register_state("budget", budgets.launched_on, budgets.set)
    try:
        injection = inject(budgets.budget, lambda sms: budgets.launched_on())
    finally:
        unregister_state("budget")
    assert len(injection.steps) > 8
    assert not injection.leaks, str(injection)


def two_threads_that_cross_do_not_touch_each_other(devices, budgets):
    devices.counts[0] = 147
    crossing = cross_threads(budgets.budget, budgets.launched_on)
    assert len(crossing.orders) == 6
    assert not crossing.problems, str(crossing)


CASES = (
    an_outer_budget_of_one_is_refused,
    a_reserve_that_leaves_one_sm_is_refused,
    a_reserve_of_every_sm_is_refused,
    an_odd_partition_is_rounded_down_on_every_architecture,
    a_second_device_has_its_own_count,
    another_context_of_the_device_has_its_own_count,
    an_environment_changed_after_the_first_use_counts,
    the_reserve_applies_to_sm_90,
    what_the_body_sets_is_kept,
    what_the_body_sets_is_kept_even_if_it_is_the_same_number,
    an_interrupt_at_any_step_leaves_the_budget_as_it_was,
    two_threads_that_cross_do_not_touch_each_other,
)
