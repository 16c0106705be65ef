"""Loops that do not end, and exceptions in a kernel, end the launch with a message that says what and where."""

import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import HangDetected, Limits, VirtualGPU

LIMITS = Limits(steps=1000)


@triton.jit
def while_kernel(x_ptr, n):
    i = 0
    while i < n:
        tl.store(x_ptr + i % 8, i)
        i += 1


@triton.jit
def for_kernel(x_ptr, n):
    total = 0
    for i in range(0, n, 2):
        total += i
    tl.store(x_ptr + tl.program_id(0), total)


@triton.jit
def unrolled_kernel(x_ptr, N: tl.constexpr):
    total = 0
    for i in tl.static_range(N):
        total += i
    tl.store(x_ptr, total)


@triton.jit
def exception_kernel(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.dot(tl.load(x_ptr + offs), 1))


def launch(kernel, *arguments, grid=1):
    x = torch.zeros(8, dtype=torch.int64)
    with VirtualGPU(limits=LIMITS):
        kernel[(grid,)](x, *arguments)
    return x


def line(kernel, offset):
    return kernel.fn.__code__.co_firstlineno + offset


def test_a_while_loop_that_changes_memory_for_ever_is_a_hang():
    assert launch(while_kernel, 1000).tolist() == list(range(992, 1000))
    with pytest.raises(HangDetected) as caught:
        launch(while_kernel, 10**12, grid=3)
    assert str(caught.value) == (
        f"while loop went round more than the 1000 times that it may in while_kernel "
        f"(test_step_budget.py:{line(while_kernel, 3)}): program (0, 0, 0)"
    )


@pytest.mark.parametrize("n", [10**12, 2**62])
def test_a_for_loop_of_too_many_iterations_is_refused_before_it_begins(n):
    assert launch(for_kernel, 2000)[0] == 999_000
    with pytest.raises(HangDetected, match=rf"for loop of {n // 2} iterations, more than the 1000") as caught:
        launch(for_kernel, n, grid=3)
    assert caught.value.line == line(for_kernel, 3)


def test_an_unrolled_loop_counts_too():
    with pytest.raises(HangDetected, match="for loop of 1001 iterations"):
        launch(unrolled_kernel, 1001)


def test_an_exception_in_a_kernel_says_where_it_arose():
    with pytest.raises(Exception, match=r"\S") as caught:
        launch(exception_kernel, 8)
    note = f"in exception_kernel (test_step_budget.py:{line(exception_kernel, 3)}), kernel exception_kernel"
    assert note in caught.value.__notes__
