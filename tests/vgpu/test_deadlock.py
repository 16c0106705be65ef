"""Programs that wait for what cannot happen: reported at once, with the line, and with who is where."""

import inspect
from collections import Counter

import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import Deadlock, HangDetected, Limits, OutOfBounds, Schedule, VirtualGPU
from harness.vgpu.scheduler import Scheduler
from tests.vgpu import sync_kernels as kernels

BATCH = pytest.mark.parametrize("batch", [True, False])


def line_of(kernel, text):
    """Return the number of the only source line of a kernel that holds ``text``."""
    lines, first = inspect.getsourcelines(kernel.fn)
    (found,) = [first + i for i, line in enumerate(lines) if text in line]
    return found


@triton.jit
def embrace_kernel(locks_ptr, out_ptr):
    pid = tl.program_id(0)
    while tl.atomic_cas(locks_ptr + pid, 0, 1) != 0:
        pass
    while tl.atomic_cas(locks_ptr + 1 - pid, 0, 1) != 0:
        pass
    tl.store(out_ptr + pid, 1)
    tl.atomic_xchg(locks_ptr + 1 - pid, 0)
    tl.atomic_xchg(locks_ptr + pid, 0)


@triton.jit
def some_arrive_kernel(count_ptr, out_ptr):
    pid = tl.program_id(0)
    if pid % 3 == 0:
        return
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < tl.num_programs(0):
        pass
    tl.store(out_ptr + pid, 1)


@triton.jit
def counting_barrier_kernel(count_ptr, tries_ptr, needed):
    tl.atomic_add(count_ptr, 1)
    tries = 0
    while tl.atomic_add(count_ptr, 0) < needed:
        tries += 1
    tl.store(tries_ptr + tl.program_id(0), tries)


@triton.jit
def branching_barrier_kernel(count_ptr, needed):
    tl.atomic_add(count_ptr, 1)
    seen = 0
    while seen < needed:
        if tl.program_id(0) >= 0:
            seen = tl.atomic_add(count_ptr, 0)
        for _ in range(2):
            seen += 0


@triton.jit
def compute_for_ever_kernel(x_ptr):
    x = tl.load(x_ptr)
    while x >= 0.0:
        x += 1.0
    tl.store(x_ptr, x)


@triton.jit
def look_for_ever_kernel(x_ptr, out_ptr):
    while tl.load(x_ptr) == 0:
        pass
    tl.store(out_ptr, 1)


@triton.jit
def stray_kernel(count_ptr, x_ptr):
    pid = tl.program_id(0)
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < tl.num_programs(0):
        pass
    tl.store(x_ptr + 2 * pid, pid)


@pytest.mark.parametrize("programs", range(1, 9))
def test_a_grid_barrier_passes_exactly_when_all_programs_are_resident(programs):
    for resident in range(1, 10):
        with VirtualGPU(schedule=Schedule(seed=resident, resident=resident)):
            if resident >= programs:
                assert kernels.barrier(programs)
                continue
            with pytest.raises(Deadlock) as caught:
                kernels.barrier(programs)
        fault = caught.value
        assert (fault.resident, fault.never_launched, fault.finished) == (resident, programs - resident, 0)
        assert fault.total == programs


@BATCH
def test_the_target_decides_when_no_schedule_is_given(batch):
    with VirtualGPU(profile="sm_121", batch=batch):
        assert kernels.barrier(48)
        with pytest.raises(Deadlock) as caught:
            kernels.barrier(49)
    assert (caught.value.resident, caught.value.never_launched) == (48, 1)


def counting_barrier(num_programs):
    count, tries = torch.zeros(1, dtype=torch.int32), torch.zeros(num_programs, dtype=torch.int32)
    counting_barrier_kernel[(num_programs,)](count, tries, num_programs)


@pytest.mark.parametrize("launch", [kernels.barrier, counting_barrier])
def test_a_deadlock_of_256_programs_is_seen_after_a_score_of_looks_of_each_resident(launch, monkeypatch):
    looks = Counter()
    wait = Scheduler.wait
    monkeypatch.setattr(Scheduler, "wait", lambda self, *rest: (looks.update(waits=1), wait(self, *rest))[1])
    with VirtualGPU(schedule=Schedule(resident=96)), pytest.raises(Deadlock) as caught:
        launch(256)
    assert (caught.value.resident, caught.value.never_launched, caught.value.finished) == (96, 160, 0)
    # tests/benchmarks says what that is in seconds
    assert 96 <= looks["waits"] <= 20 * 96


def test_the_message_says_where_how_many_and_for_what():
    with VirtualGPU(schedule=Schedule(resident=5)), pytest.raises(Deadlock) as caught:
        kernels.barrier(12)
    fault = caught.value
    line = line_of(kernels.grid_barrier, "while")
    assert (fault.kernel, fault.line, fault.program) == ("barrier_kernel", line, (0, 0, 0))
    assert str(fault) == (
        "deadlock: every resident program waits for a change that none of them can make "
        "(5 resident, 7 never launched, 0 finished, 12 in the grid) "
        f"in grid_barrier (sync_kernels.py:{line}), called from barrier_kernel: program (0, 0, 0): "
        f"5 wait at grid_barrier (sync_kernels.py:{line}), seeing count_ptr[0] = 5, which 5 programs changed"
    )


@BATCH
def test_a_lock_that_is_not_released_is_a_deadlock_of_the_others(batch):
    with VirtualGPU(batch=batch), pytest.raises(Deadlock, match=r"seeing lock_ptr\[0\] = 1") as caught:
        kernels.lock(6, freed=False)
    assert (caught.value.resident, caught.value.finished) == (5, 1)
    assert caught.value.line == line_of(kernels.lock_kernel, "while")


def test_two_locks_taken_in_opposite_order_deadlock_under_some_schedules():
    outcomes = set()
    for seed in range(12):
        locks, out = torch.zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
        with VirtualGPU(schedule=Schedule(seed=seed)):
            try:
                embrace_kernel[(2,)](locks, out)
            except Deadlock as fault:
                outcomes.add(("deadlock", fault.resident, fault.line))
            else:
                outcomes.add(("passes", *out.tolist()))
    second = line_of(embrace_kernel, "locks_ptr + 1 - pid, 0, 1")
    assert outcomes == {("deadlock", 2, second), ("passes", 1, 1)}


@BATCH
def test_programs_that_leave_before_a_barrier_count_as_finished(batch):
    count, out = torch.zeros(1, dtype=torch.int32), torch.zeros(9, dtype=torch.int32)
    with VirtualGPU(batch=batch), pytest.raises(Deadlock) as caught:
        some_arrive_kernel[(9,)](count, out)
    assert (caught.value.resident, caught.value.finished, caught.value.total) == (6, 3, 9)
    assert "count_ptr[0] = 6" in str(caught.value)
    assert not out.any()


@BATCH
def test_branches_and_loops_inside_of_a_wait_do_not_hide_it(batch):
    with VirtualGPU(batch=batch), pytest.raises(Deadlock, match="3 wait"):
        branching_barrier_kernel[(3,)](torch.zeros(1, dtype=torch.int32), 4)


def test_one_program_alone_can_deadlock():
    with VirtualGPU(), pytest.raises(Deadlock) as caught:
        kernels.barrier(1, needed=2)
    assert (caught.value.resident, caught.value.total) == (1, 1)


@BATCH
def test_a_loop_that_computes_for_ever_is_no_deadlock(batch):
    with (
        VirtualGPU(batch=batch, limits=Limits(spins=300)),
        pytest.raises(HangDetected, match="went round 301 times") as caught,
    ):
        compute_for_ever_kernel[(3,)](torch.zeros(1))
    assert not isinstance(caught.value, Deadlock)
    assert caught.value.line == line_of(compute_for_ever_kernel, "while")


@BATCH
def test_plain_loads_that_see_no_change_are_a_hang(batch):
    x, out = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with VirtualGPU(batch=batch), pytest.raises(HangDetected, match="every resident program loops") as caught:
        look_for_ever_kernel[(3,)](x, out)
    assert not isinstance(caught.value, Deadlock)


def test_a_fault_of_one_program_ends_the_launch_and_leaves_the_next_one_alone():
    with VirtualGPU(schedule=Schedule(seed=2)) as gpu:
        with pytest.raises(OutOfBounds) as caught:
            stray_kernel[(6,)](torch.zeros(1, dtype=torch.int32), torch.zeros(6, dtype=torch.int32))
        assert caught.value.argument == "x_ptr"
        assert caught.value.program[0] >= 3
        assert kernels.barrier(6)
    assert [run.programs for run in gpu.launches] == [6, 6]
