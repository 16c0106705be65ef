"""What launches move is counted exactly, whatever part of the grid runs at once."""

import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import Schedule, VirtualGPU


@triton.jit
def rows_kernel(x_ptr, lengths_ptr, out_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    length = tl.load(lengths_ptr + row)
    column = tl.arange(0, COLUMNS)
    for _ in range(length):
        x = tl.load(x_ptr + row * COLUMNS + column, mask=column < length, other=0.0)
        if length > 2:
            tl.store(out_ptr + row * COLUMNS + column, x)


@triton.jit
def shared_kernel(x_ptr, out_ptr, N: tl.constexpr):
    column = tl.arange(0, N)
    tl.store(out_ptr + tl.program_id(0) * N + column, tl.load(x_ptr + column, mask=column < N - 1, other=0))


@triton.jit
def waiting_kernel(flag_ptr, out_ptr):
    value = tl.load(out_ptr + 1)
    if tl.program_id(0) == 0:
        tl.store(out_ptr, value)
        tl.atomic_xchg(flag_ptr, 1)
    else:
        while tl.atomic_add(flag_ptr, 0) == 0:
            pass


def moved(launch, **options):
    with VirtualGPU(count=True, **options) as gpu:
        launch()
    return [one.traffic for one in gpu.launches]


def rows(lengths):
    x, out = torch.zeros(len(lengths), 8), torch.zeros(len(lengths), 8)
    rows_kernel[(len(lengths),)](x, torch.tensor(lengths, dtype=torch.int32), out, COLUMNS=8)


@pytest.mark.parametrize("lengths", [(3,), (0, 0), (2, 2, 2), (1, 3, 2, 0), (4,) * 40 + (1,) * 3])
@pytest.mark.parametrize("options", [{}, {"batch": False}, {"schedule": Schedule(yield_at="memory", seed=3)}], ids=str)
def test_lanes_that_are_on_count_once_a_program(lengths, options):
    loaded = sum(4 + 4 * n * n for n in lengths)
    stored = sum(n * 32 for n in lengths if n > 2)
    accesses = sum(1 + n + n * (n > 2) for n in lengths)
    assert moved(lambda: rows(lengths), **options) == [(loaded, stored, accesses)]


def test_what_programs_do_alike_counts_for_each():
    x, out = torch.zeros(8, dtype=torch.int16), torch.zeros(5, 8, dtype=torch.int16)
    assert moved(lambda: shared_kernel[(5,)](x, out, N=8)) == [(5 * 7 * 2, 5 * 8 * 2, 10)]


@pytest.mark.parametrize("schedule", [None, Schedule(), Schedule(seed=1)], ids=str)
def test_looks_of_programs_that_wait_do_not_count_nor_what_is_taken_back(schedule):
    flag, out = torch.zeros(1, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    launch = lambda: waiting_kernel[(4,)](flag.zero_(), out)  # noqa: E731
    assert moved(launch, schedule=schedule) == [(16, 4, 5)]


def test_each_launch_counts_alone():
    assert moved(lambda: (rows((3,)), rows((1,)))) == [(40, 96, 7), (8, 0, 2)]


def test_nothing_is_counted_unasked():
    with VirtualGPU() as gpu:
        rows((1,))
    assert gpu.launches[0].traffic is None
