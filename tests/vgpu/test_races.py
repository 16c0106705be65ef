"""Races between programs: found whatever the schedule, told with both lines, and not seen where there is order."""

import inspect
import re

import pytest
import torch
import triton
import triton.language as tl

from harness.vgpu import Race, VirtualGPU

BATCH = pytest.mark.parametrize("batch", [True, False])


def line_of(kernel, text):
    """Return the number of the only source line of a kernel that holds ``text``."""
    lines, first = inspect.getsourcelines(kernel.fn)
    (found,) = [first + i for i, line in enumerate(lines) if text in line]
    return found


@triton.jit
def sum_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    part = tl.sum(tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    so_far = tl.load(out_ptr)
    tl.store(out_ptr, so_far + part)


@triton.jit
def overlap_kernel(out_ptr, stride, scale, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * stride + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, offs * 0 + pid * scale)


@triton.jit
def shift_kernel(x_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    right = tl.load(x_ptr + offs + 1)
    tl.store(x_ptr + offs, right)


@triton.jit
def uniform_kernel(flag_ptr, out_ptr):
    pid = tl.program_id(1)
    tl.store(flag_ptr, 7)
    tl.store(out_ptr + pid, pid)


@triton.jit
def owner_kernel(x_ptr, out_ptr, owner):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid, tl.load(x_ptr + 3))
    if pid == owner:
        tl.store(x_ptr + 3, 1)


@triton.jit
def mixed_kernel(count_ptr, out_ptr):
    pid = tl.program_id(0)
    tl.atomic_add(count_ptr, 1, sem="relaxed")
    if pid == 3:
        tl.store(out_ptr, tl.load(count_ptr))


@triton.jit
def bytes_kernel(x_ptr, NEAR: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(x_ptr.to(tl.pointer_type(tl.int32)), 1)
    else:
        tl.store(x_ptr + NEAR + pid, 5)


@triton.jit
def ticket_then_branch_kernel(count_ptr, out_ptr, y_ptr):
    pid = tl.program_id(0)
    ticket = tl.atomic_add(count_ptr, 1, sem="relaxed")
    tl.store(out_ptr + ticket, pid)
    if pid % 2 == 0:
        return
    tl.store(y_ptr + pid, ticket)


@triton.jit
def middle_kernel(flag_ptr, out_ptr):
    if tl.program_id(0) == 2:
        tl.store(flag_ptr, 1)
        tl.store(out_ptr, tl.load(flag_ptr) + 1)


@triton.jit
def flag_kernel(flag_ptr, x_ptr, out_ptr, SCOPE: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(x_ptr, 42)
        tl.atomic_xchg(flag_ptr, 1, sem="release", scope=SCOPE)
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.store(out_ptr, tl.load(x_ptr))


def unordered(**options):
    """Return a virtual GPU that looks for races."""
    return VirtualGPU(races=True, **options)


@BATCH
def test_a_read_modify_write_without_an_atomic_is_a_race(batch):
    with unordered(batch=batch), pytest.raises(Race) as caught:
        sum_kernel[(4,)](torch.randn(256), torch.zeros(1), BLOCK=64)
    fault = caught.value
    lines = {line_of(sum_kernel, "so_far = "), line_of(sum_kernel, "so_far + part")}
    assert {fault.line, fault.other_location.line} == lines
    assert (fault.argument, fault.index, fault.extent) == ("out_ptr", (0,), (1,))
    assert fault.program != fault.other_program
    numbers = re.findall(r"test_races.py:(\d+)", str(fault))
    assert {int(n) for n in numbers} == lines
    assert f"program {fault.other_program}" in str(fault)


@BATCH
def test_two_programs_that_store_different_values_to_one_element_race(batch):
    out = torch.zeros(4 * 32 + 32, dtype=torch.int32)
    with unordered(batch=batch), pytest.raises(Race, match=r"it stores what program .* stores at") as caught:
        overlap_kernel[(4,)](out, 32, 1, BLOCK=64)
    assert abs(caught.value.program[0] - caught.value.other_program[0]) == 1
    assert caught.value.lanes == 32
    with unordered(batch=batch):
        overlap_kernel[(2,)](out, 64, 1, BLOCK=64)


@BATCH
def test_equal_values_race_only_when_asked(batch):
    out = torch.zeros(160, dtype=torch.int32)
    flag = torch.zeros(1, dtype=torch.int32)
    with unordered(batch=batch):
        overlap_kernel[(4,)](out, 32, 0, BLOCK=64)
        uniform_kernel[(2, 3)](flag, out)
    for launch in (lambda: overlap_kernel[(4,)](out, 32, 0, BLOCK=64), lambda: uniform_kernel[(1, 3)](flag, out)):
        with VirtualGPU(races="strict", batch=batch), pytest.raises(Race):
            launch()


@BATCH
def test_reading_what_a_neighbour_overwrites_is_a_race(batch):
    x = torch.randn(257)
    with unordered(batch=batch), pytest.raises(Race) as caught:
        shift_kernel[(4,)](x, BLOCK=64)
    assert caught.value.index[0] in (64, 128, 192)
    with unordered(batch=batch):
        shift_kernel[(1,)](x, BLOCK=64)


@BATCH
@pytest.mark.parametrize("owner", range(4))
def test_whoever_stores_what_all_have_loaded_races_with_the_others(owner, batch):
    x, out = torch.zeros(4, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    with unordered(batch=batch), pytest.raises(Race) as caught:
        owner_kernel[(4,)](x, out, owner)
    assert owner in (caught.value.program[0], caught.value.other_program[0])
    with unordered(batch=batch):
        owner_kernel[(4,)](x, out, 9)


@BATCH
def test_a_plain_load_races_with_an_atomic_of_another_program(batch):
    with unordered(batch=batch), pytest.raises(Race, match="atomically") as caught:
        mixed_kernel[(4,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32))
    assert caught.value.argument == "count_ptr"


@BATCH
def test_launches_are_ordered(batch):
    x, out = torch.randn(256), torch.zeros(1)
    with unordered(batch=batch):
        for _ in range(2):
            sum_kernel[(1,)](x, out, BLOCK=64)
        for _ in range(2):
            overlap_kernel[(2,)](torch.zeros(128, dtype=torch.int32), 64, 1, BLOCK=64)


@BATCH
def test_accesses_of_different_size_race_byte_by_byte(batch):
    for near, races in ((0, True), (2, True), (3, False)):
        x = torch.zeros(16, dtype=torch.int8)
        with unordered(batch=batch):
            if races:
                with pytest.raises(Race):
                    bytes_kernel[(2,)](x, NEAR=near)
            else:
                bytes_kernel[(2,)](x, NEAR=near)
                assert x.tolist()[:5] == [1, 0, 0, 0, 5]


def test_a_pass_that_is_taken_back_leaves_no_accesses_behind():
    count, out, y = (torch.zeros(8, dtype=torch.int32) for _ in range(3))
    with unordered():
        ticket_then_branch_kernel[(8,)](count, out, y)
    assert sorted(out.tolist()) == list(range(8))


def test_programs_that_a_mask_leaves_out_touch_nothing():
    flag, out = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with unordered():
        middle_kernel[(5,)](flag, out)
    assert out.item() == 2


@pytest.mark.parametrize(("scope", "races"), [("gpu", False), ("sys", False), ("cta", True)])
def test_a_release_for_one_block_orders_nothing_between_blocks(scope, races):
    flag, x, out = (torch.zeros(1, dtype=torch.int32) for _ in range(3))
    with unordered():
        if races:
            with pytest.raises(Race):
                flag_kernel[(2,)](flag, x, out, SCOPE=scope)
        else:
            # the store and the release are both made by the first thread: no barrier is needed
            flag_kernel[(2,)](flag, x, out, SCOPE=scope)
            assert out.item() == 42


def test_what_to_look_for_must_be_known():
    with pytest.raises(ValueError, match="races='loose'"):
        VirtualGPU(races="loose")
