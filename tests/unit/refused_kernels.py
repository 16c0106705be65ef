"""Kernels of one construct each that Triton's front end refuses, on the line marked with ``# here``."""

import triton
import triton.language as tl

VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])

PLAIN_GLOBAL = 3.0


@triton.jit
def break_in_a_loop(x_ptr, out_ptr, n):
    total = 0.0
    for i in range(n):
        if i == 3:
            break  # here
        total += tl.load(x_ptr + i)
    tl.store(out_ptr, total)


@triton.jit
def return_in_a_loop(x_ptr, out_ptr, n):
    for i in range(n):
        if i == 3:  # here
            return
        tl.store(out_ptr + i, tl.load(x_ptr + i))


@triton.jit
def chained_comparison(x_ptr, out_ptr, n):
    if 0 < n < 100:  # here
        tl.store(out_ptr, tl.load(x_ptr))


@triton.jit
def other_type_in_a_loop(x_ptr, out_ptr, n):
    total = 0
    for i in range(n):  # here
        total = total + tl.load(x_ptr + i)
    tl.store(out_ptr, total)


@triton.jit
def other_type_in_a_branch(x_ptr, out_ptr, n):
    if n > 3:  # noqa: SIM108  # here
        value = 1
    else:
        value = 2.0
    tl.store(out_ptr, value)


@triton.jit
def name_of_one_branch(x_ptr, out_ptr, n):
    if n > 3:
        value = 1.0
    tl.store(out_ptr, value)  # here


@triton.jit
def plain_global(x_ptr, out_ptr, n):
    tl.store(out_ptr, PLAIN_GLOBAL + tl.load(x_ptr))  # here


@triton.jit
def lambda_inside(x_ptr, out_ptr, n):
    twice = lambda value: value * 2  # noqa: E731  # here
    tl.store(out_ptr, twice(tl.load(x_ptr)))


@triton.jit
def try_inside(x_ptr, out_ptr, n):
    try:  # noqa: SIM105  # here
        tl.store(out_ptr, tl.load(x_ptr))
    except ValueError:
        pass


@triton.jit
def import_inside(x_ptr, out_ptr, n):
    import math  # here

    tl.store(out_ptr, tl.load(x_ptr) * math.pi)


@triton.jit
def list_comprehension(x_ptr, out_ptr, n):
    parts = [tl.load(x_ptr + i) for i in range(4)]  # here
    tl.store(out_ptr, parts[0] + parts[3])


@triton.jit
def value_in_a_string(x_ptr, out_ptr, n):
    print(f"value {n}")  # noqa: T201  # here
    tl.store(out_ptr, tl.load(x_ptr))


@triton.jit
def short_dot(x_ptr, out_ptr, n):
    row = tl.arange(0, 8)
    place = row[:, None] * 8 + row[None, :]
    block = tl.load(x_ptr + place)
    tl.store(out_ptr + place, tl.dot(block, block))  # here


@triton.jit
def helper_with_a_break(value, n):
    for i in range(n):
        if i == 3:
            break  # here
        value += 1.0
    return value


@triton.jit
def calls_a_helper(x_ptr, out_ptr, n):
    tl.store(out_ptr, helper_with_a_break(tl.load(x_ptr), n))


@triton.jit
def accepted(x_ptr, out_ptr, n, STEP: tl.constexpr):
    for i in range(0, n, STEP):
        tl.store(out_ptr + i, tl.load(x_ptr + i))


#: Kernel -> what Triton says of it, and the function that its marked line is in.
REFUSED = {
    break_in_a_loop: ("Break", break_in_a_loop),
    return_in_a_loop: ("Cannot have `return` statements inside `while` or `for`", return_in_a_loop),
    other_type_in_a_loop: ("Loop-carried variable total", other_type_in_a_loop),
    other_type_in_a_branch: ("Mismatched type for value", other_type_in_a_branch),
    name_of_one_branch: ("value is not defined", name_of_one_branch),
    plain_global: ("Cannot access global variable PLAIN_GLOBAL", plain_global),
    lambda_inside: ("Lambda", lambda_inside),
    try_inside: ("Try", try_inside),
    import_inside: ("Import", import_inside),
    list_comprehension: ("only tuple comprehensions", list_comprehension),
    value_in_a_string: ("f-string", value_in_a_string),
    calls_a_helper: ("Break", helper_with_a_break),
}
# what later versions take
if VERSION < (3, 8):
    REFUSED[short_dot] = ("K >= 16", short_dot)
if VERSION < (3, 9):
    REFUSED[chained_comparison] = ("simultaneous multiple comparison", chained_comparison)
