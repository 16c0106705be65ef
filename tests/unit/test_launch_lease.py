"""The launch lease: one kernel with a grid barrier in flight on a device."""

import threading

import pytest

from harness.injector import cross_threads, inject
from harness.launch.lease import lease_holders
from harness.launch.sm_budget import LeaseError, LeaseTimeout, launch_lease, physical_from
from tests.unit.budgets import Devices


@pytest.fixture
def devices():
    devices = Devices({0: 148, 1: 78})
    with physical_from(devices):
        yield devices


class Holder:
    """A thread that takes the lease and keeps it until told."""

    def __init__(self, devices, **arguments):
        self.taken, self.go = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.work, args=(devices, arguments), name="other", daemon=True)
        self.thread.start()
        assert self.taken.wait(10)

    def work(self, devices, arguments):
        with physical_from(devices), launch_lease(**arguments):
            self.taken.set()
            self.go.wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.go.set()
        self.thread.join(10)


def test_a_second_thread_waits_and_is_told_who_holds_it(devices):
    said = r"lease of device 0: waited 0.05 s, held by thread 'other' for mega_moe for \d"
    with Holder(devices, kernel="mega_moe"):
        with pytest.raises(LeaseTimeout, match=said), launch_lease(timeout_s=0.05):
            pass
        assert list(lease_holders()) == [0]


def test_a_second_thread_gets_it_when_the_first_leaves(devices):
    with Holder(devices) as holder:
        threading.Timer(0.05, holder.go.set).start()
        with launch_lease(timeout_s=10):
            assert not holder.thread.is_alive() or holder.go.is_set()


def test_a_timeout_is_a_timeout_error(devices):
    with Holder(devices), pytest.raises(TimeoutError), launch_lease(timeout_s=0.01):
        pass


def test_devices_do_not_wait_for_each_other(devices):
    with Holder(devices, device=0), launch_lease(1, timeout_s=0.01):
        assert sorted(lease_holders()) == [0, 1]


def test_a_thread_that_holds_it_is_refused_at_once(devices):
    with (
        launch_lease(kernel="first"),
        pytest.raises(LeaseError, match=r"this thread holds it already .*first"),
        launch_lease(),
    ):
        pass


def test_it_is_given_back_after_any_exception(devices):
    with pytest.raises(KeyboardInterrupt), launch_lease():
        raise KeyboardInterrupt
    assert lease_holders() == {}
    with launch_lease(timeout_s=0.01):
        pass


def test_the_next_holder_waits_for_the_kernel_of_the_last(devices):
    order = []
    with launch_lease() as lease:
        lease.until(lambda: order.append("kernel has ended"))
        order.append("left")
    with launch_lease():
        order.append("launched")
    with launch_lease():
        order.append("launched")
    assert order == ["left", "kernel has ended", "launched", "launched"]


def test_a_wait_that_fails_keeps_everybody_behind_it(devices):
    results = [RuntimeError("kernel failed"), RuntimeError("kernel failed"), None]

    def wait():
        if result := results.pop(0):
            raise result

    with launch_lease() as lease:
        lease.until(wait)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="kernel failed"), launch_lease():
            pytest.fail("launched before the kernel had ended")
    with launch_lease():
        assert results == []


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan")])
def test_a_timeout_that_is_not_above_zero_is_rejected(devices, timeout_s):
    with pytest.raises(ValueError, match="timeout_s: want seconds above 0"), launch_lease(timeout_s=timeout_s):
        pass


def test_an_interrupt_at_any_step_gives_it_back(devices):
    injection = inject(lambda: launch_lease(timeout_s=1.0), lambda lease: lease.until(lambda: None))
    assert len(injection.steps) > 10
    assert not injection.leaks, str(injection)


def test_two_threads_that_cross_wait_for_each_other(devices):
    crossing = cross_threads(launch_lease)
    assert not crossing.problems, str(crossing)
    assert len(crossing.waited) == 4
    assert crossing.refused == {}
