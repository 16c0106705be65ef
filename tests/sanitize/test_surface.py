"""The emulated ``torch.cuda``, ``torch.accelerator`` and Triton driver, and that they go away again."""

import re

import pytest
import torch
import triton

from harness import sanitize
from harness.sanitize.emulation import Options, emulate
from harness.sanitize.errors import Unsupported
from harness.sanitize.facts import PRODUCTS, facts
from harness.sanitize.surface import Surface
from harness.vgpu.profiles import names


def test_every_emulated_name_is_documented(machine):
    surface = Surface(machine.facts, machine.places, machine.random)
    words = set(re.findall(r"\w+", sanitize.__doc__))
    assert {*surface.cuda(), *surface.accelerator()} - words == set()


def test_every_name_of_the_surface_exists_in_torch(machine):
    surface = Surface(machine.facts, machine.places, machine.random)
    assert [name for name in surface.cuda() if not hasattr(torch.cuda, name)] == []


def test_every_profile_has_a_device():
    assert set(PRODUCTS) == set(names())


@pytest.mark.parametrize(
    ("target", "capability", "units", "shared"),
    [("sm_80", (8, 0), 108, 166_912), ("sm_90", (9, 0), 132, 232_448), ("sm_120", (12, 0), 188, 101_376)],
)
def test_a_target_is_what_torch_and_triton_say(target, capability, units, shared):
    with emulate(Options(target=target)):
        assert torch.cuda.get_device_capability() == capability
        assert torch.cuda.get_device_properties("cuda").multi_processor_count == units
        driver = triton.runtime.driver.active
        assert driver.get_current_target().arch == capability[0] * 10 + capability[1]
        assert driver.utils.get_device_properties(0)["max_shared_mem"] == shared
        assert driver.get_active_torch_device() == torch.device("cuda", 0)


def test_bandwidth_from_clock_and_bus_is_the_data_sheets():
    found = facts("sm_90")
    assert found.memory_clock * 1000 * 2 * found.bus / 8 == pytest.approx(4.8e12)


def test_what_is_missing_says_so(machine):
    for use in (
        torch.cuda.CUDAGraph,
        torch.cuda.max_memory_allocated,
        lambda: torch.cuda.nccl if torch.cuda.make_graphed_callables(lambda: None, ()) else None,
        lambda: torch.ones(2, device="cuda").__dlpack__(),
        lambda: torch.sparse_coo_tensor([[0]], [1.0], device="cuda"),
        lambda: triton.runtime.driver.active.launcher_cls(),
        lambda: triton.runtime.driver.active.utils.load_binary(),
    ):
        with pytest.raises(Unsupported, match=r"^UNSUPPORTED: \S+"):
            use()


def test_autocast_that_is_off_is_allowed(machine):
    with torch.autocast("cuda", enabled=False):
        assert torch.ones(2, device="cuda").is_cuda


def test_streams_and_events_keep_order_and_time(machine):
    stream = torch.cuda.Stream()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        stream.wait_stream(torch.cuda.default_stream())
        end.record()
    assert torch.cuda.current_stream() == torch.cuda.default_stream() != stream
    assert begin.elapsed_time(end) > 0
    with pytest.raises(ValueError, match="enable_timing"):
        begin.elapsed_time(torch.cuda.Event())


def test_memory_is_counted_while_tensors_live(machine):
    before = torch.cuda.memory_allocated()
    kept = torch.zeros(1000, device="cuda")
    view = kept[::2]
    assert torch.cuda.memory_allocated() == before + 4000
    del kept, view
    assert torch.cuda.memory_allocated() == before


def test_a_timing_runs_its_function_once(machine):
    calls = []
    assert triton.testing.do_bench(lambda: calls.append(1)) > 0
    assert calls == [1]


def test_a_launch_in_another_thread_is_refused(machine):
    import threading

    from tests.sanitize.suites import vector_add

    seen = []

    def work():
        x = torch.ones(4, device="cuda")
        seen.append((x + x).is_cuda)
        try:
            vector_add.add(x, x)
        except Unsupported as error:
            seen.append(error.name)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True, "a kernel launch from another thread"]


def test_everything_is_put_back():
    def state():
        modules = (torch, torch.Tensor, torch.cuda, torch.accelerator, torch.version, triton, triton.testing)
        return [{name: id(value) for name, value in vars(module).items()} for module in modules]

    before = state()
    with emulate(Options()):
        assert state() != before
    assert state() == before
    assert not torch.cuda.is_available()
    assert not torch.ones(1).is_cuda
