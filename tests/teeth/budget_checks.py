"""What must hold of SM budgets and launch leases; a check is called with the modules to judge."""

import contextlib
import contextvars
import threading

import pytest

from tests.unit import budget_cases
from tests.unit.budgets import Devices, OurBudgets

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


@contextlib.contextmanager
def devices_of(api, **arguments):
    devices = Devices({0: 148, 1: 78}, **arguments)
    with api.budget.physical_from(devices):
        yield devices


def case(name, *cases):
    """Make a check of cases that the unit tests have, too."""

    def run(api):
        for each in cases:
            with devices_of(api) as devices:
                each(devices, OurBudgets(devices, api.budget))

    CHECKS[name] = run


case("a_budget_survives_interrupts", budget_cases.an_interrupt_at_any_step_leaves_the_budget_as_it_was)
case("crossed_threads_have_their_own_budgets", budget_cases.two_threads_that_cross_do_not_touch_each_other)
case("devices_have_their_own_counts", budget_cases.a_second_device_has_its_own_count)
case("contexts_have_their_own_counts", budget_cases.another_context_of_the_device_has_its_own_count)
case(
    "what_the_body_sets_is_kept",
    budget_cases.what_the_body_sets_is_kept,
    budget_cases.what_the_body_sets_is_kept_even_if_it_is_the_same_number,
)
case(
    "too_few_are_refused",
    budget_cases.an_outer_budget_of_one_is_refused,
    budget_cases.a_reserve_that_leaves_one_sm_is_refused,
    budget_cases.a_reserve_of_every_sm_is_refused,
)


@check
def a_budget_is_restored_after_an_exception(api):
    for exception in (ValueError, KeyboardInterrupt):
        with devices_of(api):
            with contextlib.suppress(exception), api.budget.sm_budget():
                raise exception
            assert api.budget.current_budget() is None


@check
def who_did_not_enter_a_budget_cannot_leave_it(api):
    with devices_of(api):
        for elsewhere in (contextvars.Context(), contextvars.copy_context()):
            for inside in (lambda: None, lambda: api.budget.set_num_sms(50)):
                block = api.budget.sm_budget(2)
                block.__enter__()
                inside()
                expected = api.budget.current_budget()
                said = "sm_budget on device 0: left in another thread or task .* stay limited to 146 SMs"
                with pytest.raises(RuntimeError, match=said):
                    elsewhere.run(block.__exit__, None, None, None)
                assert api.budget.current_budget() == expected
                api.budget.set_num_sms(None)
        # left in the order in which they were entered
        first, second = api.budget.sm_budget(2), api.budget.sm_budget(10)
        for block in (first, second):
            block.__enter__()
        for block in (first, second):
            block.__exit__(None, None, None)


@check
def nested_budgets_do_not_compound(api):
    with devices_of(api), api.budget.sm_budget(2), api.budget.sm_budget(2) as sms:
        assert sms == 146


@check
def the_outer_budget_counts(api):
    with devices_of(api):
        api.budget.set_num_sms(100)
        with api.budget.sm_budget(2) as sms:
            assert sms == 100


@check
def targets_are_even(api):
    for sms, target in ((33, 30), (78, 76), (147, 144), (5, 2)):
        with devices_of(api) as devices:
            devices.enter_context(0, sms)
            with api.budget.sm_budget(2) as got:
                assert got == target


@check
def every_architecture_has_the_reserve(api):
    for sms in (40, 78, 108, 114, 132, 148, 160, 188):
        with devices_of(api) as devices:
            devices.enter_context(0, sms)
            with api.budget.sm_budget(2) as got:
                assert got == sms - 2


@check
def devices_have_their_own_budgets(api):
    with devices_of(api), api.budget.sm_budget(device=0):
        assert api.budget.current_budget(1) is None
        assert api.budget.current_budget(0) == 146


@check
def sources_have_their_own_budgets(api):
    with devices_of(api), api.budget.sm_budget(), devices_of(api) as other:
        assert api.budget.current_budget() is None
        other.counts[0] = 8
        with api.budget.sm_budget() as sms:
            assert sms == 6


@check
def a_reserve_is_an_integer(api):
    for wrong in (True, -1, 2.0):
        with devices_of(api), pytest.raises((TypeError, ValueError)), api.budget.sm_budget(wrong):
            pass


@check
def a_workspace_carries_its_sms(api):
    with devices_of(api):
        keys = set()
        for reserve in (2, 52):
            with api.budget.sm_budget(reserve):
                keys.add(api.budget.workspace_key("mega_moe", 64, uses_sms=True))
        assert len(keys) == 2
        with pytest.raises(ValueError, match="inside"):
            api.budget.workspace_key("mega_moe", 64, uses_sms=True)


@check
def a_workspace_that_needs_none_carries_none(api):
    with devices_of(api):
        outside = api.budget.workspace_key("mega_moe", 64, uses_sms=False)
        with api.budget.sm_budget():
            assert api.budget.workspace_key("mega_moe", 64, uses_sms=False) == outside


@check
def a_count_is_asked_for_once(api):
    with devices_of(api) as devices:
        for _ in range(3):
            with api.budget.sm_budget():
                pass
        assert devices.asked == [0]


@check
def no_device_is_the_current_one(api):
    with devices_of(api, current=1), api.budget.sm_budget() as sms:
        assert sms == 76


@check
def a_lease_is_given_back(api):
    with devices_of(api):
        with contextlib.suppress(ValueError), api.lease.launch_lease():
            raise ValueError
        with api.lease.launch_lease(timeout_s=0.01):
            pass


@check
def leases_are_per_device(api):
    with devices_of(api), api.lease.launch_lease(0), api.lease.launch_lease(1, timeout_s=0.01):
        pass


@check
def a_lease_has_one_holder(api):
    refused = []

    def second():
        try:
            with api.budget.physical_from(devices), api.lease.launch_lease(timeout_s=0.01):
                pass
        except api.lease.LeaseTimeout as error:
            refused.append(error)

    with devices_of(api) as devices, api.lease.launch_lease():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(10)
    assert refused


@check
def a_lease_waits_for_the_kernel(api):
    order = []
    with devices_of(api):
        with api.lease.launch_lease() as lease:
            lease.until(lambda: order.append("ended"))
        with api.lease.launch_lease():
            order.append("launched")
    assert order == ["ended", "launched"]


@check
def a_lease_stays_behind_a_failed_wait(api):
    def fail():
        raise OSError

    entered = 0
    with devices_of(api):
        with api.lease.launch_lease() as lease:
            lease.until(fail)
        for _ in range(2):
            with contextlib.suppress(OSError), api.lease.launch_lease():
                entered += 1
    assert entered == 0
