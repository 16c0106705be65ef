"""A mutant changes one place of a file; what is the same program in other words is no mutant."""

import ast

import pytest

from harness.mutation.campaign import limited, shard
from harness.mutation.generate import changed_fills, mutants, same_bytecode
from harness.mutation.source import Module

SOURCE = '''"""Über Masken."""  # a comment that stays

@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # ä
    mask = (
        offset < n  # rows
    )
    tl.store(x_ptr + offset, tl.load(x_ptr + offset, mask=mask, other=0.0) * 2.0, mask=mask)


def launch(x):
    kernel[(triton.cdiv(len(x), 16),)](x, len(x), BLOCK=16)
    return x
'''


@pytest.fixture(scope="module")
def made():
    return mutants([Module("m", "kernels/m.py", SOURCE)])


def test_the_rest_of_the_file_stays_as_it_was(made):
    for mutant in made:
        start = SOURCE.encode().find(mutant.before.encode())
        assert start >= 0
        assert mutant.source.count("# ä") + mutant.source.count("# rows") >= 1
        assert len(mutant.source) - len(SOURCE) == len(mutant.after) - len(mutant.before)
        ast.parse(mutant.source)


def test_a_mutant_says_where_it_is_and_shows_one_change(made):
    bound = next(mutant for mutant in made if mutant.operator == "bound")
    assert (bound.file, bound.line, bound.function, bound.device) == ("kernels/m.py", 7, "kernel", True)
    assert (bound.before, bound.after) == ("offset < n", "offset < n - 1")
    removed = [line for line in bound.diff.splitlines()[2:] if line.startswith(("-", "+"))]
    assert removed == ["-        offset < n  # rows", "+        offset < n - 1  # rows"]


def test_device_and_host_code_are_told_apart(made):
    assert {mutant.function for mutant in made if mutant.device} == {"kernel"}
    assert {mutant.function for mutant in made if not mutant.device} == {"launch"}


def test_the_same_source_gives_the_same_mutants_in_the_same_order(made):
    again = mutants([Module("m", "kernels/m.py", SOURCE)])
    assert [mutant.key for mutant in again] == [mutant.key for mutant in made]


def test_no_two_mutants_are_the_same_text(made):
    assert len({mutant.source for mutant in made}) == len(made)


def test_parentheses_keep_the_meaning():
    source = "def f(a, b, c):\n    return a * (b - c)\n"
    found = mutants([Module("m", "m.py", source)], ["index"])
    assert {ast.unparse(ast.parse(mutant.source).body[0].body[0]) for mutant in found} == {
        "return a * (b + c)",
        "return a * (c - b)",
        "return a * b",
    }


def test_what_folds_to_the_original_is_no_mutant():
    # 2 % 4 is 2, and 4 // 4 is 4 // (5 - 1)
    source = "def f(a):\n    return a * (2 % 4)\n"
    assert "2" not in [mutant.after for mutant in mutants([Module("m", "m.py", source)], ["division"])]


def test_an_unknown_operator_is_refused():
    with pytest.raises(KeyError, match="unheard"):
        mutants([Module("m", "m.py", SOURCE)], ["unheard"])


def test_bytecode_sees_through_line_numbers_and_not_through_constants():
    assert same_bytecode("def f(a):\n    return a + 2 * 3\n", "def f(a):\n\n    return a + 6\n")
    assert not same_bytecode("def f(a):\n    return a + 1\n", "def f(a):\n    return a + 1.0\n")


@pytest.mark.parametrize(
    ("mutated", "lines"),
    [
        ("x = tl.load(p, mask=m)\ny = tl.load(q, mask=m, other=0)\n", [1]),
        ("x = tl.load(p, mask=m, other=1)\ny = tl.load(q, mask=m, other=1)\n", [2]),
        ("x = tl.load(p, mask=n, other=1)\ny = tl.load(q, mask=m)\n", []),
    ],
)
def test_only_a_change_of_fills_alone_is_one(mutated, lines):
    original = "x = tl.load(p, mask=m, other=1)\ny = tl.load(q, mask=m, other=0)\n"
    assert changed_fills(original, mutated) == lines


@pytest.mark.parametrize("count", [1, 2, 7])
def test_shards_are_disjoint_and_complete(made, count):
    parts = [shard(made, number, count) for number in range(1, count + 1)]
    keys = [mutant.key for part in parts for mutant in part]
    assert sorted(keys) == sorted(mutant.key for mutant in made)


def test_a_mutant_stays_in_its_shard_whatever_else_there_is(made):
    assert {m.key for m in shard(made[::2], 1, 3)} <= {m.key for m in shard(made, 1, 3)}


def test_a_sample_is_part_of_a_larger_one(made):
    small, large = limited(made, 5), limited(made, 9)
    assert (len(small), len(large), len(limited(made, None))) == (5, 9, len(made))
    assert {m.key for m in small} <= {m.key for m in large}
