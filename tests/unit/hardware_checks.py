"""What must hold for isolation, targets and emulation: checks that take the modules to check, for teeth too."""

import os
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from harness.device import TARGETS, Device, Machine
from harness.discover import SetupError


class FakeWorker:
    """Does at once what the name of a test says: ``dies``, ``hangs``; all else passes.

    Those whose numbers are in ``unstarted`` end before they are ready.
    """

    made: list["FakeWorker"]
    given: list[tuple[int, str, str | None, int]]
    outcome: type
    unstarted: frozenset[int]

    def __init__(self, start):
        self.telling, self._saying = os.pipe()
        self.task, self.gone, self.ready = None, False, False
        self.number = len(self.made)
        self.made.append(self)

    @property
    def due(self):
        return 0.0 if self.task and "hangs" in self.task.nodeid else time.monotonic() + 60

    def give(self, task):
        busy = sum(worker.task is not None for worker in self.made)
        self.given.append((self.number, task.nodeid, task.following, busy))
        self.task = task
        if "hangs" not in task.nodeid:
            os.write(self._saying, b".")

    def read(self):
        os.read(self.telling, 1)
        self.ready = self.number not in self.unstarted
        return self._end("CRASH" if "dies" in self.task.nodeid or not self.ready else "")

    def late(self):
        self.ready = True
        return self._end("TIMEOUT")

    def close(self):
        self.gone = True

    def _end(self, verdict):
        self.gone, self.task = bool(verdict), None
        return self.outcome(verdict=verdict)


def pool_of(api, names, *, workers=1, unstarted=()):
    """A pool of fake workers for tests called so; a name is ``MODULE::TEST``, and ``alone`` in it means that."""
    never = frozenset(unstarted)

    class Worker(FakeWorker):
        made, given, outcome, unstarted = [], [], api.worker.Outcome, never

    tests = [
        api.pool.Test(nodeid=name, module=name.partition("::")[0], deadline=1.0, alone="alone" in name)
        for name in names
    ]
    api.pool.Worker = Worker
    outcomes = {}
    start = api.worker.Start(arguments=(), folder=".", workers=workers)
    return api.pool.Pool(start, tests, lambda name, outcome: outcomes.update({name: outcome.verdict})), Worker, outcomes


def every_test_has_an_outcome_though_workers_die(api):
    names = ["a::one", "a::dies", "a::two", "a::hangs", "a::three", "b::dies", "b::four"]
    for workers in (1, 3):
        pool, kind, verdicts = pool_of(api, names, workers=workers)
        for name in names:
            pool.wait_for(name)
        assert verdicts == {name: {"dies": "CRASH", "hangs": "TIMEOUT"}.get(name[3:], "") for name in names}
        assert sorted(name for _, name, _, _ in kind.given) == sorted(names)
        assert pool.replaced == 3


def a_worker_is_told_what_follows_in_it(api):
    pool, kind, _ = pool_of(api, ["a::one", "a::two", "a::three", "b::four"], workers=2)
    pool.wait_for("b::four")
    pool.wait_for("a::three")
    assert {name: following for _, name, following, _ in kind.given} == {
        "a::one": "a::two", "a::two": "a::three", "a::three": None, "b::four": None
    }  # fmt: skip
    of_module_a = {number for number, name, _, _ in kind.given if name.startswith("a")}
    assert len(of_module_a) == 1
    assert len(kind.made) == 2


def a_test_alone_has_the_machine(api):
    names = ["a::one", "b::alone", "c::two", "d::alone", "e::three"]
    pool, kind, _ = pool_of(api, names, workers=5)
    for name in names:
        pool.wait_for(name)
    busy = {name: others for _, name, _, others in kind.given}
    assert busy["b::alone"] == busy["d::alone"] == 0
    assert max(busy.values()) > 0
    order = [name for _, name, _, _ in kind.given]
    assert order.index("e::three") < order.index("b::alone")


def workers_that_cannot_start_are_given_up(api):
    names = [f"{module}::{number}" for module in "abc" for number in range(2)]
    pool, kind, verdicts = pool_of(api, names, unstarted=range(99))
    assert {verdicts[name] for name in names if not pool.wait_for(name)} == {"CRASH"}
    assert len(kind.made) == 2


def a_worker_that_does_not_start_costs_no_test(api):
    names = [f"{module}::{number}" for module in "abcd" for number in range(2)]
    # one that started says that others can; two that did not in a row leave the rest to those that are there
    for workers, unstarted, made in ((1, {0}, 2), (2, {1}, 3), (2, {1, 2}, 3), (3, {0, 1, 3}, 6)):
        pool, kind, verdicts = pool_of(api, names, workers=workers, unstarted=unstarted)
        for name in names:
            pool.wait_for(name)
        assert verdicts == dict.fromkeys(names, "")
        assert len(kind.made) <= made, (workers, unstarted)
    pool, kind, verdicts = pool_of(api, ["a::dies", *names], unstarted={0, 2})
    for name in ["a::dies", *names]:
        pool.wait_for(name)
    assert verdicts == {"a::dies": "CRASH", **dict.fromkeys(names, "")}


def long_modules_go_to_several_workers(api):
    tests = [api.pool.Test(nodeid=f"{n}", module="a", deadline=1.0) for n in range(7)]
    assert [len(chunk) for chunk in api.pool.chunks(tests, 3)] == [3, 3, 1]
    assert [test.nodeid for chunk in api.pool.chunks(tests, 3) for test in chunk] == [str(n) for n in range(7)]


def long_tests_come_first_and_apart(api):
    tests = [api.pool.Test(nodeid=f"{n}", module="a", deadline=200.0 if n % 3 == 1 else 120.0) for n in range(6)]
    assert [[test.nodeid for test in chunk] for chunk in api.pool.chunks(tests, 3)] == [
        ["1"],
        ["4"],
        ["0", "2", "3"],
        ["5"],
    ]


@contextmanager
def fake_torch(errors):
    """A torch whose ``synchronize`` raises ``errors`` one after the other, then nothing."""
    left = list(errors)

    def synchronize():
        if left:
            raise left.pop(0)

    cuda = SimpleNamespace(is_initialized=lambda: True, synchronize=synchronize, empty_cache=lambda: None)
    with patch.dict(sys.modules, {"torch": SimpleNamespace(cuda=cuda)}):
        yield


def an_error_is_sticky_if_it_comes_again(api):
    error = RuntimeError("CUDA error: an illegal memory access was encountered\nSearch for ...")
    with fake_torch([error, error]):
        assert api.probe.sticky_error() == "RuntimeError: CUDA error: an illegal memory access was encountered"
    with fake_torch([error]):
        assert api.probe.sticky_error() is None
    with fake_torch([]):
        assert api.probe.sticky_error() is None


def exhausted_memory_is_told_from_other_errors(api):
    class OutOfMemoryError(RuntimeError):
        pass

    assert api.probe.is_out_of_memory(OutOfMemoryError("CUDA out of memory. Tried to allocate 8 TiB"))
    assert api.probe.is_out_of_memory(MemoryError())
    assert api.probe.is_out_of_memory(RuntimeError("CUDA error: out of memory"))
    assert not api.probe.is_out_of_memory(RuntimeError("CUDA error: misaligned address"))


def machine(*arches):
    return Machine(devices=tuple(Device(index=i, vendor="cuda", arch=arch, units=8) for i, arch in enumerate(arches)))


def a_run_is_about_targets_that_it_names_or_that_are_here(api):
    def archs(here=(), **options):
        return [target.arch for target in api.selection.targets(machine(*here), **options)]

    assert archs(["sm_90"]) == ["sm_90"]
    # of these, pytest's -m takes what it selects
    assert archs(["sm_90"], expression="sm120") == ["sm_90", "sm_120"]
    assert archs(["sm_90"], expression="not sm120") == ["sm_90"]
    for left_out in ("not (sm120 or slow)", "cuda and not (sm120 or sm100)", "not (not (not sm120))"):
        assert archs(["sm_90"], expression=left_out) == ["sm_90"]
    for asked_for in ("not (not sm120)", "cuda and (sm120 or slow)", "not gpu or sm120", "not (slow or not sm120)"):
        assert archs(["sm_90"], expression=asked_for) == ["sm_90", "sm_120"]
    # it makes no difference to any test
    assert archs(["sm_90"], expression="sm120 or not sm120") == ["sm_90"]
    # which pytest refuses
    assert archs(["sm_90"], expression="sm120 and (") == ["sm_90"]
    assert archs(expression="not sm120") == []
    assert archs(["sm_90"], expression="sm100", emulated="sm120") == ["sm_90", "sm_100", "sm_120"]
    assert archs(["sm_90"], expression="sm120 or (sm90 and not slow)") == ["sm_90", "sm_120"]
    assert archs(["sm_90"], emulated="sm120") == ["sm_90", "sm_120"]
    assert archs(["sm_90"], expression="not slow") == ["sm_90"]
    assert archs() == []
    assert archs(["sm_90"], own=["sm100", "sm103"]) == []
    assert archs(["sm_90"], own=["sm100", "sm103"], expression="sm103") == ["sm_103"]
    assert archs(["sm_90"], own=["sm90", "sm120"], expression="sm120") == ["sm_120"]
    assert archs(["sm_90"], own=["sm90", "sm120"], expression="sm120 or sm90") == ["sm_90", "sm_120"]
    assert archs(["sm_90"], own=["sm90", "sm120"], expression="sm120 or slow") == ["sm_90", "sm_120"]
    assert archs(["sm_90"], own=["sm90", "sm120"]) == ["sm_90"]
    assert archs(expression="sm80") == ["sm_80"]
    assert archs(expression="gfx942") == []


def item_of(target=None, markers=("cuda",), **options):
    params = {} if target is None else {"gpu_target": TARGETS[target]}
    names = [*markers, *([target] if target else [])]
    return SimpleNamespace(
        iter_markers=lambda: [SimpleNamespace(name=name) for name in names],
        callspec=SimpleNamespace(params=params),
        config=SimpleNamespace(getoption=lambda name, default=None: options.get(name, default)),
    )


def a_skip_says_what_is_missing(api):
    def reason(here, *args, **options):
        with patch.object(api.selection, "detect", lambda: machine(*here)):
            return api.selection.reason_to_skip(item_of(*args, **options))

    assert reason(["sm_90"], "sm90") is None
    assert reason(["sm_90"], "sm120") == "needs sm_120, an NVIDIA GPU, found sm_90"
    assert reason([], "sm120", ()) == "needs sm_120, found no GPU"
    assert reason(["sm_90"], "sm120", emulate="sm120") is None
    assert reason(["sm_90"], "sm121", emulate="sm120") == "needs sm_121, an NVIDIA GPU, found sm_90"
    assert reason(["sm_80"], "sm120", emulate="sm120") == (
        "needs sm_120: sm_80, which is here, has no clusters, fp8_mma, TMA load, TMA store"
    )
    assert reason([], "sm120", emulate="sm120") == "needs sm_120 or a GPU that can stand in for it, found no GPU"
    assert reason(["sm_90"], "sm120", ("multi_gpu",), emulate="sm120") == "needs 2 GPUs, found sm_90"
    # alternatives of the test that this parameter of it is not about
    assert reason(["sm_100"], "sm120", ("sm100", "sm120")) == "needs sm_120, found sm_100"
    assert reason(["sm_90"], None, ("sm100", "sm120")) == "needs sm_100 or sm_120, found sm_90"
    assert reason([], None, ()) is None


def a_target_is_emulated_where_it_is_not_here(api):
    def emulated(here, **options):
        with patch.object(api.selection, "detect", lambda: machine(*here)):
            return api.selection.is_emulated(item_of("sm120", **options))

    assert emulated(["sm_90"], emulate="sm120")
    assert not emulated(["sm_120"], emulate="sm120")
    assert not emulated(["sm_90"])
    assert not emulated(["sm_90"], emulate="sm121")


def the_device_lane_names_its_target_or_what_it_lacks(api):
    def target(here, emulated=None):
        with patch.object(api.selection, "detect", lambda: machine(*here)):
            return api.selection.lane_target(emulated).arch

    assert target(["sm_90"]) == "sm_90"
    assert target(["sm_90"], "sm120") == "sm_120"
    for here, emulated, says in (
        ([], None, "--lane device: needs a GPU, found no GPU"),
        (["sm_90"], "sm_120", "--emulate: no target 'sm_120'; there are: sm80, "),
        (["sm_80"], "sm90", "--emulate sm90: sm_80, which is here, has no clusters"),
    ):
        with pytest.raises(SetupError, match=f"^{says}"):
            target(here, emulated)


def what_a_gpu_cannot_stand_in_for(api):
    lacking = api.emulation.lacking
    assert lacking(TARGETS["sm90"], TARGETS["sm120"]) == []
    assert lacking(TARGETS["sm120"], TARGETS["sm90"]) == []
    assert lacking(TARGETS["sm89"], TARGETS["sm90"]) == ["clusters", "TMA load", "TMA store"]
    assert lacking(TARGETS["sm90"], TARGETS["gfx942"]) == ["rocm instructions"]


@contextmanager
def fake_kernels(shared, launched, error=None):
    """Triton's kernels without a device: each compiles to one that asks for ``shared`` bytes, or to ``error``."""
    from triton.runtime.jit import JITFunction

    def run(self, *args, grid, warmup, **kwargs):
        if error is not None:
            raise error
        launched.extend([] if warmup else [kwargs])
        return SimpleNamespace(metadata=SimpleNamespace(shared=shared))

    with patch.object(JITFunction, "run", run):
        yield


def _kernel():
    import triton

    @triton.jit
    def copy(x_ptr):
        pass

    return copy


def more_shared_memory_than_the_target_has_is_refused_before_the_launch(api):
    kernel, limit, launched = _kernel(), 101_376, []
    with fake_kernels(limit, launched), api.emulation.emulating("sm_120"):
        kernel[(1,)](None)
    assert len(launched) == 1
    with (
        fake_kernels(limit + 16, launched),
        api.emulation.emulating("sm_120"),
        pytest.raises(api.emulation.SharedMemoryExceeded) as raised,
    ):
        kernel[(1,)](None)
    assert str(raised.value) == ("copy: 101392 bytes of shared memory, 16 more than the 101376 of a block on sm_120")
    assert len(launched) == 1


def shared_memory_is_that_of_the_code_for_the_target(api):
    kernel, launched = _kernel(), []
    for there, runs in ((101_376, True), (101_377, False)):
        with (
            fake_kernels(131_072, launched),
            patch.object(api.emulation, "shared_on", lambda kernel, target, there=there: there),
            api.emulation.emulating("sm_120"),
        ):
            if runs:
                kernel[(1,)](None)
            else:
                with pytest.raises(api.emulation.SharedMemoryExceeded, match="101377 bytes"):
                    kernel[(1,)](None)
    assert len(launched) == 1


def instructions_that_are_not_here_are_no_error_of_the_kernel(api):
    kernel, refusal = _kernel(), "ptxas error: Feature '.tile::gather4' requires .target sm_100 or higher\nmore"
    with (
        fake_kernels(0, [], RuntimeError(refusal)),
        api.emulation.emulating("sm_120"),
        pytest.raises(api.emulation.CannotEmulate, match=r"needs sm_120, cannot compile copy here: Feature '\.tile"),
    ):
        kernel[(1,)](None)
    with (
        fake_kernels(0, [], RuntimeError("ptxas error: register allocation failed")),
        api.emulation.emulating("sm_120"),
        pytest.raises(Exception, match="register allocation failed") as raised,
    ):
        kernel[(1,)](None)
    assert type(raised.value) is RuntimeError


def launches_are_counted_and_tuned_by_number(api):
    import triton

    kernel, launched = _kernel(), []
    configs = [triton.Config({"BLOCK": block}) for block in (16, 32, 64)]
    tuned = triton.autotune(configs=configs, key=[])(kernel)
    with fake_kernels(0, launched), api.launches.watching(config=4) as seen:
        tuned[(1,)](None)
        kernel[(1,)](None)
    assert launched[0]["BLOCK"] == 32
    assert (seen.kernels, seen.configs) == (2, 3)
    assert "BLOCK: 32" in seen.config


CHECKS = {
    check.__name__: check
    for check in (
        every_test_has_an_outcome_though_workers_die,
        a_worker_is_told_what_follows_in_it,
        a_test_alone_has_the_machine,
        workers_that_cannot_start_are_given_up,
        a_worker_that_does_not_start_costs_no_test,
        long_modules_go_to_several_workers,
        long_tests_come_first_and_apart,
        an_error_is_sticky_if_it_comes_again,
        exhausted_memory_is_told_from_other_errors,
        a_run_is_about_targets_that_it_names_or_that_are_here,
        a_skip_says_what_is_missing,
        a_target_is_emulated_where_it_is_not_here,
        the_device_lane_names_its_target_or_what_it_lacks,
        what_a_gpu_cannot_stand_in_for,
        more_shared_memory_than_the_target_has_is_refused_before_the_launch,
        shared_memory_is_that_of_the_code_for_the_target,
        instructions_that_are_not_here_are_no_error_of_the_kernel,
        launches_are_counted_and_tuned_by_number,
    )
}
