"""What must hold for the device lane, shown without a device: its memory is the CPU's and CUDA's calls do nothing."""

import json
import os
import tempfile
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch

from harness.device import TARGETS
from harness.lanes import Busy, ContextLost, NoRoom
from harness.poison import HUGE, INT32_MAX, NAN
from harness.strategies.address_space import uncommitted
from tests.unit.pooling import CASE, CONTRACT, RIGHT, changed

CPU = torch.device("cpu")
#: 16 GiB of address space.
FAR = uncommitted(2**34, torch.uint8)


@contextmanager
def lane_of(api, errors=(), **options):
    """A lane on the CPU; ``torch.cuda.synchronize`` raises ``errors`` one after the other."""
    left = list(errors)

    def synchronize():
        if left:
            raise left.pop(0)

    with patch.multiple(
        torch.cuda,
        device=lambda device: nullcontext(),
        synchronize=synchronize,
        is_initialized=lambda: True,
        empty_cache=lambda: None,
    ):
        yield api.lane.DeviceLane(CPU, **options)


def what_a_launch_does_not_write_is_found(api):
    def partly(x):
        out = torch.empty(4, 3, dtype=torch.bfloat16)
        out[1:] = x
        return {"out": out, "all": torch.empty(5).zero_(), "ids": torch.empty(2, dtype=torch.int32)}

    with lane_of(api) as lane:
        done = lane.run(partly, {"x": torch.ones(3)})
        missed = done.unwritten(done.result["out"])
        assert (missed.count, missed.total, missed.first_index) == (3, 12, (0, 0))
        assert done.unwritten(done.result["all"]) is None
        assert done.unwritten(done.result["ids"]).count == 2


def an_element_is_written_if_any_of_its_bytes_is(api):
    def half():
        out = torch.empty(2, dtype=torch.int16)
        out.view(torch.uint8)[::2] = 1
        return out

    with lane_of(api) as lane:
        done = lane.run(half, {})
        assert done.unwritten(done.result) is None


def launches_again_only_when_asked(api):
    calls = []

    def launch():
        calls.append(torch.empty(4).zero_())
        return calls[-1]

    with lane_of(api) as lane:
        done = lane.run(launch, {})
        assert len(calls) == 1
        done.unwritten(done.result)
        done.unwritten(done.result)
    assert len(calls) == 3


def new_memory_holds_what_it_is_told_to(api):
    def launch():
        like = torch.empty_like(torch.zeros(2, 2, dtype=torch.int64))
        return torch.empty(3), like, torch.zeros(3).new_empty(2, dtype=torch.uint8)

    with lane_of(api) as lane:
        floats, ids, codes = lane.run(launch, {}, fill=NAN).result
        assert floats.isnan().all()
        assert (ids == INT32_MAX).all()
        assert (codes == 0xFF).all()
        floats, ids, codes = lane.run(launch, {}, fill=HUGE).result
        assert (floats == torch.tensor(HUGE.value)).all()
        assert (ids == -1).all()


def a_large_argument_that_changes_is_a_fault(api):
    def swap(x):
        x[[1, 5]] = x[[5, 1]]

    def touch_the_storage(x):
        x.as_strided((1,), (1,), 33)[0] = 7

    with patch.object(api.memory, "VIEW_BYTES", 64), lane_of(api) as lane:
        for launch in (swap, touch_the_storage):
            large = torch.arange(34)[:33]
            done = lane.run(launch, {"x": large})
            assert done.fault, launch
            assert str(done.error).startswith("x: the launch wrote to it")
        assert not lane.run(lambda x: x + 1, {"x": torch.arange(33)}).fault


def an_illegal_call_may_have_a_large_argument_without_content(api):
    nowhere = torch.empty(2**34, dtype=torch.uint8, device="meta")

    def refuses(x):
        raise ValueError("x is on meta")

    with lane_of(api) as lane:
        assert str(lane.run(refuses, {"x": nowhere}).error) == "x is on meta"


def an_error_belongs_to_the_launch_unless_the_context_is_lost(api):
    error = RuntimeError("CUDA error: an illegal memory access was encountered")
    with lane_of(api, [error]) as lane:
        done = lane.run(lambda: None, {})
        assert done.error is error
        assert not done.fault
    with lane_of(api, [error] * 3) as lane, pytest.raises(ContextLost, match="illegal memory access"):
        lane.run(lambda: None, {})
    with lane_of(api, [torch.OutOfMemoryError("CUDA out of memory")]) as lane, pytest.raises(MemoryError):
        lane.run(lambda: None, {})


def a_form_that_cannot_be_compiled_here_is_unsupported(api):
    def launch():
        raise api.emulation.CannotEmulate("needs sm_120, cannot compile k here: Feature '.tile::gather4' not supported")

    with lane_of(api) as lane:
        done = lane.run(launch, {})
    assert str(done.unsupported).startswith("needs sm_120")
    assert lane.refused == {done.unsupported}


@contextmanager
def shared_device(api, folder, others):
    """A device of 100 GiB and four workers, of which ``others`` (by process) hold so many bytes."""
    properties = SimpleNamespace(total_memory=100 * 2**30, uuid="x")
    held = Path(folder) / f"harness-gpu-x-{os.getuid()}.json"
    held.write_text(json.dumps(others))
    with (
        patch.object(torch.cuda, "get_device_properties", lambda device: properties),
        patch.object(torch.cuda, "empty_cache", lambda: None),
        patch.object(tempfile, "gettempdir", lambda: str(folder)),
        patch.dict(os.environ, {api.worker.WORKERS: "4"}),
        patch.object(api.room, "WAIT_SECONDS", 0.0),
    ):
        yield held


def workers_share_the_memory_of_a_device(api):
    gib, me, nobody = 2**30, str(os.getpid()), str(2**22 + 1)
    with tempfile.TemporaryDirectory() as folder:
        # of 80 GiB for all, four contexts take 6
        with shared_device(api, folder, {"1": 60 * gib}) as held:
            with api.room.room_for(14 * gib, CPU):
                assert json.loads(held.read_text()) == {"1": 60 * gib, me: 14 * gib}
            assert json.loads(held.read_text()) == {"1": 60 * gib}
            with (
                pytest.raises(Busy, match=r"needs 15\.0 GiB of GPU memory; 14\.0 GiB are left by other workers after"),
                api.room.room_for(15 * gib, CPU),
            ):
                pass
            with api.room.room_for(api.room.SMALL, CPU):
                assert me not in json.loads(held.read_text())
        with shared_device(api, folder, {nobody: 60 * gib}) as held, api.room.room_for(40 * gib, CPU):
            assert json.loads(held.read_text()) == {me: 40 * gib}


def a_case_that_has_no_room_is_refused_with_both_sizes(api):
    properties = SimpleNamespace(total_memory=100 * 2**30, uuid="x")
    with patch.multiple(torch.cuda, get_device_properties=lambda device: properties):
        with api.room.room_for(2**30, CPU):
            pass
        with (
            pytest.raises(NoRoom, match=r"needs 70\.0 GiB of GPU memory, may have 60\.0 GiB"),
            api.room.room_for(70 * 2**30, CPU),
        ):
            pass
        with lane_of(api) as lane, pytest.raises(NoRoom), lane.room(SimpleNamespace(inputs=lambda *_: {"x": FAR}), 0):
            pass
        assert lane.passed_over == {"needs 64.0 GiB of GPU memory, may have 60.0 GiB"}


def a_search_that_had_no_room_is_no_pass(api):
    config = SimpleNamespace(getoption=lambda name, default=None: "quick" if name == "hypothesis_profile" else default)
    properties = SimpleNamespace(total_memory=100, uuid="x")
    with (
        patch.object(torch.cuda, "get_device_properties", lambda device: properties),
        lane_of(api) as lane,
        patch.object(api.suite, "device_lane", lambda target: lane),
    ):
        judged = api.suite.searched(CONTRACT, RIGHT, TARGETS["sm90"], config)
    assert judged.lacking.startswith("needs ")
    assert not judged.problem


def room_is_counted_without_memory(api):
    def inputs(case, device, poison):
        whole = torch.empty(case, dtype=torch.bfloat16, device=device)
        return {"x": whole, "part": whole[:5], "codes": torch.empty(case, dtype=torch.uint8)}

    # bfloat16 as it is and as float64, its part's float64, bytes once
    many = 2**40
    assert api.room.needed(SimpleNamespace(inputs=inputs), many) == pytest.approx(3 * many, rel=1e-6)
    assert api.room.needed(SimpleNamespace(inputs=inputs), many, wide=True) == pytest.approx(11 * many, rel=1e-6)


def a_workload_is_judged_from_arguments_that_are_made_once(api):
    made = []

    def inputs(case, device, poison):
        made.append(device)
        return CONTRACT.inputs(case, device, poison)

    contract = replace(CONTRACT, inputs=inputs)
    spoiled = changed(lambda outputs: outputs | {"lse": outputs["lse"] + 1})
    properties = SimpleNamespace(total_memory=2**40, uuid="x")
    with (
        patch.object(torch.cuda, "get_device_properties", lambda device: properties),
        # on a CPU a trial keeps small ones itself
        patch("harness.trial.KEPT_BYTES", -1),
        lane_of(api) as lane,
    ):
        good = api.workloads.check_workload(contract, RIGHT, CASE, lane)
        # twice to count the memory
        assert len(made) == 3
        bad = api.workloads.check_workload(contract, spoiled, CASE, lane)
    assert good.violations == []
    assert {"inputs", "shape", "written", "oracle:lse", "repeat"} <= good.checks_run
    assert {violation.check for violation in bad.violations} == {"oracle:lse"}


def a_workload_is_drawn_on_the_device_if_that_can_be(api):
    drawn, made = [], []

    @contextmanager
    def drawn_on(device):
        drawn.append(device)
        try:
            yield
        finally:
            drawn.append(None)

    def inputs(case, device, poison):
        there = bool(drawn) and drawn[-1] is not None
        made.append(there)
        if there and case.slots == 5:
            raise RuntimeError("wanted a CPU generator")
        return CONTRACT.inputs(case, device, poison)

    others = replace(CASE, slots=5), replace(CASE, slots=6)
    contract = replace(CONTRACT, inputs=inputs, workloads=(CASE, others[0]))
    properties = SimpleNamespace(total_memory=2**40, uuid="x")
    with (
        patch.object(torch.cuda, "get_device_properties", lambda device: properties),
        patch.object(api.workloads, "drawn_on", drawn_on),
        patch("harness.trial.KEPT_BYTES", -1),
        lane_of(api) as lane,
    ):
        for case, there in ((CASE, [True]), (others[0], [True, False]), (others[1], [False])):
            drawn.clear()
            made.clear()
            assert api.workloads.check_workload(contract, RIGHT, case, lane).violations == []
            # twice to count the memory
            assert made[2:] == there
            assert set(drawn) <= {lane.device, None}


CHECKS = {
    check.__name__: check
    for check in (
        what_a_launch_does_not_write_is_found,
        an_element_is_written_if_any_of_its_bytes_is,
        launches_again_only_when_asked,
        new_memory_holds_what_it_is_told_to,
        a_large_argument_that_changes_is_a_fault,
        an_illegal_call_may_have_a_large_argument_without_content,
        an_error_belongs_to_the_launch_unless_the_context_is_lost,
        a_form_that_cannot_be_compiled_here_is_unsupported,
        workers_share_the_memory_of_a_device,
        a_case_that_has_no_room_is_refused_with_both_sizes,
        a_search_that_had_no_room_is_no_pass,
        room_is_counted_without_memory,
        a_workload_is_judged_from_arguments_that_are_made_once,
        a_workload_is_drawn_on_the_device_if_that_can_be,
    )
}
