"""The injector finds managers that restore on some paths only, and crossing finds those that threads share."""

import contextlib
import linecache
import os
import sys
import threading
import time

import pytest
import torch

from harness.injector import Injected, cross_threads, inject
from harness.state import register_state, unregister_state

SHARED = {"value": 0}


@pytest.fixture(autouse=True)
def _shared():
    SHARED["value"] = 0
    register_state("shared", lambda: SHARED["value"], put)
    yield
    unregister_state("shared")


def put(value):
    SHARED["value"] = value


def read():
    return SHARED["value"]


@contextlib.contextmanager
def sound():
    before = read()
    try:
        put(1)
        yield
    finally:
        put(before)


@contextlib.contextmanager
def restores_only_without_an_exception():
    before = read()
    put(1)
    yield
    put(before)


@contextlib.contextmanager
def restores_after_ordinary_exceptions_only():
    before = read()
    put(1)
    try:
        yield
    except Exception:
        put(before)
        raise
    put(before)


@contextlib.contextmanager
def sets_before_try():
    before = read()
    put(1)
    try:
        yield
    finally:
        put(before)


@contextlib.contextmanager
def never_restores():
    put(1)
    yield


class ForgetsTheSecondThing:
    """Puts back the environment first; what fails after that keeps the value from being put back."""

    def __enter__(self):
        os.environ["KERNEL_HARNESS_TEST_STATE"] = "1"
        try:
            put(1)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *error):
        os.environ.pop("KERNEL_HARNESS_TEST_STATE", None)
        put(0)


def test_a_sound_manager_leaks_nowhere():
    injection = inject(sound, lambda value: read())
    assert not injection.leaks, str(injection)
    assert {step.phase for step in injection.steps} == {"enter", "body", "exit"}
    assert {step.when for step in injection.steps} == {"before", "after"}


@pytest.mark.parametrize(
    ("manager", "step"),
    [
        (restores_only_without_an_exception, "body, after the body"),
        (restores_after_ordinary_exceptions_only, "body, before read"),
        (sets_before_try, "enter, after put"),
        (ForgetsTheSecondThing, "exit, after"),
        (never_restores, "no exception"),
    ],
)
def test_a_leak_names_the_step_and_the_state(manager, step):
    injection = inject(manager, lambda value: read())
    found = [str(leak) for leak in injection.leaks]
    assert any(leak.startswith(step) and "shared: 0 -> 1" in leak for leak in found), found
    assert read() == 0


def test_a_step_says_where_it_is():
    (leak,) = inject(sets_before_try).leaks
    file, _, line = leak.step.where.rpartition(":")
    assert leak.step.call == "put"
    assert file == __file__
    assert linecache.getline(file, int(line)).strip() == "put(1)"


def test_steps_reach_into_what_the_manager_calls():
    calls = {step.call for step in inject(lambda: torch.no_grad()).steps}
    assert "_set_grad_enabled" in calls


def test_an_interrupt_is_more_than_most_managers_survive():
    leaks = inject(lambda: torch.no_grad(), lambda value: torch.zeros(1)).leaks
    assert {leak.step.when for leak in leaks} == {"after"}
    assert "_set_grad_enabled" in {leak.step.call for leak in leaks}
    assert not inject(lambda: torch.no_grad(), lambda value: torch.zeros(1), interrupts=False).leaks


def test_the_undisturbed_run_may_not_raise():
    def body(value):
        raise LookupError("of the body")

    with pytest.raises(LookupError, match="of the body"):
        inject(sound, body)
    assert read() == 0


def test_a_profiler_that_was_there_is_there_again():
    def profiler(*event):
        pass

    sys.setprofile(profiler)
    try:
        inject(sound)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)


def test_an_injected_exception_is_not_an_ordinary_one():
    assert not issubclass(Injected, Exception)


LOCAL = threading.local()


@contextlib.contextmanager
def per_thread():
    LOCAL.value = 1
    try:
        yield
    finally:
        LOCAL.value = 0


@contextlib.contextmanager
def numbered():
    """Process-wide, and each entry sets its own value."""
    before = read()
    put(before + 1)
    try:
        yield
    finally:
        put(before)


LOCK = threading.Lock()


@contextlib.contextmanager
def exclusive():
    with LOCK, numbered():
        yield


@contextlib.contextmanager
def refusing():
    if not LOCK.acquire(blocking=False):
        raise RuntimeError("in use")
    try:
        with numbered():
            yield
    finally:
        LOCK.release()


def test_threads_with_their_own_state_have_no_problem():
    crossing = cross_threads(per_thread, lambda: getattr(LOCAL, "value", 0))
    assert len(crossing.orders) == len(set(crossing.orders)) == 6
    assert (crossing.problems, crossing.refused, crossing.waited) == ((), {}, ())


def test_a_shared_setting_is_a_problem_in_crossed_orders():
    crossing = cross_threads(numbered, read)
    assert any("enter A, enter B, exit A, exit B: A reads 2 inside, expected 1" in item for item in crossing.problems)
    assert any("enter A, enter B, exit A, exit B: shared: 0 -> 1" in item for item in crossing.problems)
    assert not any(item.startswith("enter A, exit A, enter B, exit B") for item in crossing.problems)


def test_waiting_for_the_other_is_safe():
    # only the value inside is the manager's: outside, a thread sees the other's
    crossing = cross_threads(exclusive, patience_s=0.05)
    assert crossing.problems == ()
    assert len(crossing.waited) == 4


def test_refusing_the_second_is_safe():
    crossing = cross_threads(refusing)
    assert crossing.problems == ()
    assert set(crossing.refused.values()) == {"RuntimeError: in use"}
    assert len(crossing.refused) == 4


def test_an_exception_on_leaving_is_a_problem():
    @contextlib.contextmanager
    def broken():
        yield
        raise OSError("cannot leave")

    crossing = cross_threads(broken)
    assert "A: exit raised OSError: cannot leave" in crossing.problems[0]


def test_a_step_that_is_slow_but_ends_is_no_problem():
    @contextlib.contextmanager
    def slow():
        time.sleep(0.02)
        yield

    assert cross_threads(slow, patience_s=0.001).problems == ()
