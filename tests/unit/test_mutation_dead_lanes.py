"""Lanes that a mask turns off are proved dead where they are, and never where something depends on them."""

import sys
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from harness.mutation import dead_lanes, frontend, ir, lane_numbers
from harness.vgpu import VirtualGPU


@triton.jit
def _row(x_ptr, mask):
    return tl.load(x_ptr, mask=mask, other=0.0)


@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, rows, columns, MODE: tl.constexpr):
    row, column = tl.arange(0, 16), tl.arange(0, 32)
    in_rows, in_columns = row < rows, column < columns
    x = _row(x_ptr + row, in_rows)
    tile = tl.load(y_ptr + row[:, None] * 32 + column[None, :], mask=in_rows[:, None] & in_columns[None, :], other=0.0)
    if MODE == "rows":
        total = tl.zeros([16], tl.float32)
        for _ in range(3):
            total += tl.sum(tile, 1) * x
        tl.store(out_ptr + row, total, mask=in_rows)
    elif MODE == "tile":
        tl.store(out_ptr + row[:, None] * 32 + column[None, :], tile, mask=in_columns[None, :] & in_rows[:, None])
    elif MODE == "select":
        tl.store(out_ptr + row, tl.where(in_rows, x, 1.0))
    elif MODE == "all rows":
        tl.store(out_ptr + row, x)
    elif MODE == "other mask":
        tl.store(out_ptr + row, x, mask=row < rows + 1)
    elif MODE == "address":
        tl.store(out_ptr + row, tl.load(y_ptr + x.to(tl.int32)), mask=in_rows)
    elif MODE == "branch":
        if tl.sum(x, 0) > 0:
            tl.store(out_ptr + row, x, mask=in_rows)
    elif MODE == "bound":
        for _ in range(tl.max(x, 0).to(tl.int32)):
            tl.store(out_ptr + row, x, mask=in_rows)
    elif MODE == "product":
        product = tl.dot(tile, tl.trans(tile))
        tl.store(out_ptr + row[:, None] * 16 + row[None, :], product, mask=in_rows[:, None] & in_rows[None, :])
    elif MODE == "atomic":
        tl.atomic_add(out_ptr + row, x)
    elif MODE == "mask":
        tl.store(out_ptr + row, 1.0, mask=x > 0)
    elif MODE == "masked mask":
        tl.store(out_ptr + row, 1.0, mask=(x > 0) & in_rows)
    elif MODE == "program" or MODE == "argument":
        number = tl.load(out_ptr.to(tl.pointer_type(tl.int32)) + row, mask=in_rows, other=-1)
        own = tl.program_id(0) // 2 if MODE == "program" else columns
        tl.store(x_ptr + tl.cumsum((number == own).to(tl.int32), 0), 1.0)
    elif MODE == "turns" or MODE == "turns of a mask":
        number = rows
        while number < columns:
            some = row < number
            if MODE == "turns":
                tl.store(out_ptr + row, x * 2, mask=in_rows & some)
            else:
                tl.store(out_ptr + row, x * 2, mask=some)
            number += 1
    elif MODE == "mask of another turn" or MODE == "mask of a turn":
        x = tl.zeros([16], tl.float32)
        for turn in range(rows):
            if MODE == "mask of another turn":
                tl.store(out_ptr + row, x, mask=row < turn)
            x = _row(x_ptr + row, row < turn)
            if MODE == "mask of a turn":
                tl.store(out_ptr + row, x, mask=row < turn)
    elif MODE == "sign" or MODE == "one side":
        number = tl.load(out_ptr.to(tl.pointer_type(tl.int32)) + row, mask=in_rows, other=-1)
        valid = (number >= 0) & (number < columns) if MODE == "sign" else number < columns
        tl.store(x_ptr + row, tl.where(valid, number, 0).to(tl.float32))


LINES = Path(__file__).read_text().splitlines()
X = 1 + next(place for place, text in enumerate(LINES) if "return tl.load(x_ptr" in text)
PROGRAM, NUMBER = (1 + place for place, text in enumerate(LINES) if text.strip().startswith("number = tl.load("))
TILE = 1 + next(place for place, text in enumerate(LINES) if "tile = tl.load(" in text)


def proved(mode, line, numbers=None):
    """Whether the lanes of the load on ``line`` are proved dead, in the program for ``mode``.

    ``numbers``: what they hold before and after.
    """
    recorder = frontend.Recorder([sys.modules[__name__]])
    tensors = [torch.zeros(16), torch.zeros(16, 32), torch.zeros(16, 32)]
    with VirtualGPU():
        kernel[(1,)](*tensors, 5, 7, MODE=mode)
    (wanted,) = recorder.seen.values()
    kernel.pre_run_hooks.clear()
    ops = ir.read(frontend.intermediate(kernel, wanted, locations=True))
    assert dead_lanes.loads(ops, [line])
    try:
        dead_lanes.prove(ops, [line], numbers=numbers)
    except dead_lanes.Unproved:
        return False
    return True


@pytest.mark.parametrize(
    ("mode", "line"),
    [("rows", X), ("tile", TILE), ("select", X), ("masked mask", X), ("turns", X), ("mask of a turn", X)],
    ids=lambda value: str(value),
)
def test_lanes_that_every_store_leaves_out_are_dead(mode, line):
    assert proved(mode, line)


@pytest.mark.parametrize(
    ("mode", "line", "why"),
    [
        ("rows", TILE, "the sum runs over masked columns"),
        ("all rows", X, "a store without a mask"),
        ("other mask", X, "a store under a wider mask"),
        ("address", X, "an address without a mask"),
        ("branch", X, "a branch"),
        ("bound", X, "a loop bound"),
        ("product", TILE, "the product runs over masked columns"),
        ("atomic", X, "an atomic operation"),
        ("mask", X, "the mask of a store"),
        ("turns of a mask", X, "a store under another mask"),
        ("mask of another turn", X, "a store under the mask as it is a turn later"),
    ],
    ids=lambda value: str(value),
)
def test_lanes_on_which_something_depends_are_not_dead(mode, line, why):
    assert not proved(mode, line), why


@pytest.mark.parametrize("before", [-1, -63])
@pytest.mark.parametrize("after", [-2, -17])
def test_numbers_of_one_sign_are_the_same_where_only_the_sign_counts(before, after):
    assert proved("sign", NUMBER, (before, after))


@pytest.mark.parametrize(
    ("mode", "numbers"),
    [("sign", None), ("sign", (-1, 0)), ("sign", (0, 1)), ("sign", (-1, -(2**31))), ("one side", (-1, -2))],
    ids=str,
)
def test_numbers_that_something_tells_apart_are_not_the_same(mode, numbers):
    assert not proved(mode, NUMBER, numbers)


def test_a_negative_number_is_no_number_of_a_program():
    assert proved("program", PROGRAM, (-1, -2))
    assert not proved("program", PROGRAM, (-1, 0))
    assert not proved("argument", PROGRAM, (-1, -2))


def test_several_functions_are_not_read():
    with pytest.raises(ir.UnknownSyntax, match="2 functions"):
        ir.read("module {\n  tt.func public @a() {\n  }\n  tt.func private @b() {\n  }\n}\n")


def test_a_name_is_what_it_was_given_last():
    numbers = lane_numbers.Numbers(frozenset(), frozenset(), None)
    numbers.define(ir.Op("arith.constant", ["%0"], [], (), "arith.constant 3 : i32"), None)
    assert (numbers.constants, numbers.natural) == ({"%0": 3}, {"%0"})
    # in a region beside that one the name is free again
    numbers.define(ir.Op("tt.load", ["%0"], ["%x"], (), "tt.load %x : !tt.ptr<i32>"), None)
    assert (numbers.constants, numbers.natural) == ({}, set())
