"""Counting SMs through the CUDA driver, which is described here and real on a machine with a GPU."""

import ctypes
import gc

import pytest

from harness.launch import physical
from harness.launch.physical import DriverPhysical, NoDevice, physical_from, physical_sms
from harness.launch.sm_budget import launch_lease, sm_budget

#: Runs where the GPU of a target is; the others here need none.
about_a_target = pytest.mark.usefixtures("gpu_target")


class FakeDriver:
    """The calls of libcuda that are used, for devices of 132 and 78 SMs; ``context`` is (id, device, SMs)."""

    def __init__(self):
        self.context = None
        self.refuse = {}
        self.asked = []

    def __getattr__(self, name):
        def call(*arguments):
            self.asked.append(name)
            return self.refuse.get(name) or getattr(self, f"_{name}")(*arguments) or 0

        return call

    def _cuInit(self, flags):
        pass

    def _cuCtxGetCurrent(self, context):
        context._obj.value = None if self.context is None else 0xC0DE

    def _cuCtxGetDevice(self, device):
        device._obj.value = self.context[1]

    def _cuCtxGetId(self, context, number):
        number._obj.value = self.context[0]

    def _cuCtxGetDevResource(self, context, resource, kind):
        resource._obj.sm_count = self.context[2]

    def _cuDeviceGetAttribute(self, value, attribute, device):
        assert attribute == 16
        value._obj.value = (132, 78)[device]


@pytest.fixture
def driver(monkeypatch):
    fake = FakeDriver()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: fake)
    physical._Driver.open.cache_clear()
    with physical_from(DriverPhysical()):
        yield fake
    physical._Driver.open.cache_clear()


def test_without_a_context_the_device_is_asked(driver):
    assert [physical_sms(0), physical_sms(1)] == [132, 78]


def test_a_context_has_its_own_count(driver):
    driver.context = (7, 0, 40)
    assert physical_sms(0) == 40


def test_a_context_of_another_device_says_nothing_about_this_one(driver):
    driver.context = (7, 1, 40)
    assert physical_sms(0) == 132


def test_a_context_is_known_by_its_id(driver):
    counts = []
    # the second stands at the first one's address
    for number, sms in ((7, 96), (8, 40), (7, 11)):
        driver.context = (number, 0, sms)
        counts.append(physical_sms(0))
    driver.context = None
    assert [*counts, physical_sms(0)] == [96, 40, 96, 132]


def test_a_count_is_read_once_a_context(driver):
    for _ in range(3):
        physical_sms(0)
    assert driver.asked.count("cuDeviceGetAttribute") == 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("cuInit", "cuInit returned 100"),
        ("cuCtxGetCurrent", "cuCtxGetCurrent returned 100"),
        ("cuDeviceGetAttribute", "cuDeviceGetAttribute returned 100"),
    ],
)
def test_a_refusal_of_the_driver_is_an_error(driver, call, said):
    driver.refuse[call] = 100
    with pytest.raises(NoDevice, match=said), sm_budget(device=0):
        pass


def test_a_machine_without_a_driver_has_no_device(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    physical._Driver.open.cache_clear()
    with (
        physical_from(DriverPhysical()),
        pytest.raises(NoDevice, match="no CUDA driver: libcuda"),
        sm_budget(device=0),
    ):
        pass


def test_a_source_that_is_gone_is_forgotten():
    class Source:
        def current_device(self):
            return 0

        def context(self, device):
            return None

        def count(self, device):
            return 8

    gc.collect()
    before = len(physical._counts)
    with physical_from(Source()):
        physical_sms(0)
    gc.collect()
    assert len(physical._counts) == before


@about_a_target
def test_the_primary_context_has_every_sm():
    import torch

    torch.zeros(1, device="cuda")
    device = torch.cuda.current_device()
    assert physical_sms(device) == torch.cuda.get_device_properties(device).multi_processor_count


@about_a_target
@pytest.mark.parametrize("part", [3 / 4, 1 / 2, 1 / 3])
def test_a_green_context_has_its_own_count_and_budget(part):
    import torch
    from torch.cuda.green_contexts import GreenContext

    torch.zeros(1, device="cuda")
    device = torch.cuda.current_device()
    whole = physical_sms(device)
    sms = int(whole * part) // 8 * 8
    green = GreenContext.create(num_sms=sms, device_id=device)
    green.set_context()
    try:
        granted = physical_sms(device)
        with sm_budget(2, device=device) as budget:
            assert budget == (granted - 2) // 2 * 2
    finally:
        green.pop_context()
    # requested counts are rounded up to what the device can split
    assert sms <= granted < whole
    assert physical_sms(device) == whole


@about_a_target
def test_the_next_holders_stream_waits_for_the_last_holders_kernel():
    import torch

    done = torch.zeros(1, device="cuda")
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    with torch.cuda.stream(streams[0]), launch_lease() as lease:
        torch.cuda._sleep(200_000_000)
        done.fill_(1)
        event = torch.cuda.Event()
        event.record()
        lease.until(event.wait)
    with torch.cuda.stream(streams[1]), launch_lease():
        seen = done.clone()
    torch.cuda.synchronize()
    assert seen.item() == 1
