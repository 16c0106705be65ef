"""Each operator makes exactly the faults that its name promises, on the smallest source that can have them."""

import pytest

from harness.mutation.generate import mutants
from harness.mutation.operators import OPERATORS
from harness.mutation.source import Module, one_line

KERNEL = '@triton.jit\ndef kernel(p, out, n, a_stride, b_stride):\n    """Text."""\n    {}\n'
HOST = "def host(x, n):\n    {}\n"

#: (operator, template, statement) -> what the changed text becomes.
EXPECTED = [
    ("comparison", KERNEL, "y = p < n", ["p <= n"]),
    ("comparison", KERNEL, "y = p >= n", ["p > n"]),
    ("comparison", KERNEL, "y = p == n", ["p != n"]),
    ("comparison", HOST, "y = x is None", ["x is not None"]),
    ("bound", KERNEL, "y = p < n", ["p < n - 1"]),
    ("bound", KERNEL, "y = p > n", ["p > n + 1"]),
    ("bound", KERNEL, "y = p == n", []),
    ("mask", KERNEL, "y = tl.load(p, mask=n, other=0.0)", ["tl.load(p)"]),
    ("mask", KERNEL, "tl.store(p, n, mask=n)", ["tl.store(p, n)"]),
    ("mask", KERNEL, "y = p & n", ["n", "p"]),
    ("mask", KERNEL, "y = p & 15", []),
    ("mask", HOST, "y = x and n", ["n", "x"]),
    ("other", KERNEL, "y = tl.load(p, mask=n, other=0.0)", ["1"]),
    ("other", KERNEL, "y = tl.load(p, mask=n, other=-1)", ["0", "tl.load(p, mask=n)"]),
    ("select", KERNEL, "y = tl.where(n, p, out)", ["out", "p", "tl.where(n, out, p)"]),
    ("sentinel", KERNEL, "y = float('-inf')", ["-1e+30", "float('inf')"]),
    ("sentinel", KERNEL, "y = -1", ["-2", "0"]),
    ("index", KERNEL, "y = p + n", ["n", "p", "p - n"]),
    ("index", KERNEL, "y = p - n", ["n - p", "p", "p + n"]),
    ("index", KERNEL, "y = tl.arange(0, n + 1)", []),
    ("stride", KERNEL, "y = p + a_stride", ["(a_stride + 1)", "b_stride"]),
    ("axis", KERNEL, "y = p[:, None]", ["p[None, :]"]),
    ("axis", KERNEL, "y = tl.program_id(0)", ["1"]),
    ("axis", KERNEL, "y = tl.sum(p, 1)", ["0"]),
    ("axis", HOST, "y = x.stride(1) + x.shape[0]", ["0", "1"]),
    ("axis", HOST, "y = max(x, 16)", []),
    ("division", KERNEL, "y = p // n", ["p", "p % n"]),
    ("division", KERNEL, "y = p % n", ["p", "p // n"]),
    ("bits", KERNEL, "y = p >> 4", ["p", "p << 4"]),
    ("bits", KERNEL, "y = p & 15", ["7", "p"]),
    ("bits", KERNEL, "y = p | n", ["p", "p & n"]),
    ("constant", KERNEL, "y = p * 2.5", ["5.0"]),
    ("constant", KERNEL, "y = p * 3", ["2", "4"]),
    ("constant", KERNEL, "y = tl.where(p, 0.0, n)", ["1.0"]),
    ("constant", KERNEL, "y = tl.zeros([16], n)", []),
    ("rescale", KERNEL, "y = p * n", ["n", "p"]),
    ("rescale", KERNEL, "y = p / n", ["p", "p * n"]),
    ("sign", KERNEL, "y = -p", ["p"]),
    ("sign", KERNEL, "y = tl.abs(p)", ["p"]),
    ("sign", HOST, "y = not x", ["x"]),
    ("accumulate", KERNEL, "p += n", ["p -= n", "p = n", "pass"]),
    ("accumulate", KERNEL, "y = tl.dot(p, n, out)", ["tl.dot(p, n)"]),
    ("loop", KERNEL, "for i in range(n): pass", ["range(1, n)", "range(n - 1)"]),
    ("loop", KERNEL, "for i in range(0, n, 8): pass", ["range(0 + 8, n, 8)", "range(0, n - 8, 8)"]),
    ("loop", HOST, "y = triton.cdiv(x, n)", ["triton.cdiv(x, n) + 1", "x // n"]),
    ("order", KERNEL, "p = n\n    out += p", ["out += p p = n"]),
    ("order", KERNEL, "y = n\n    z = out", []),
    ("guard", KERNEL, "if p < n:\n        return", ["pass"]),
    ("guard", KERNEL, "if p < n:\n        out += 1", ["out += 1", "pass"]),
    ("guard", HOST, "if x:\n        raise ValueError(n)", []),
    ("one path", KERNEL, "tl.store(p, n)", ["pass"]),
    ("one path", KERNEL, "p = n", ["pass"]),
    ("one path", KERNEL, "y = n", []),
    ("restore", HOST, "try:\n        n()\n    finally:\n        x()", ["n()", "n() x()"]),
    ("restore", HOST, "with x:\n        n()", ["n()"]),
    ("validation", HOST, "require_rank(x, n)", ["pass"]),
    ("validation", HOST, "if x < n:\n        raise ValueError(n)", ["pass"]),
    ("validation", KERNEL, "check(p)", []),
    ("clamp", KERNEL, "y = tl.minimum(p, n)", ["n", "p", "tl.maximum(p, n)"]),
    ("clamp", HOST, "y = max(x, n, 1)", ["max(n, 1)", "max(x, 1)", "max(x, n)", "min(x, n, 1)"]),
    ("clamp", KERNEL, "y = tl.max(p, 0)", []),
    ("function", KERNEL, "y = tl.exp2(p)", ["tl.exp(p)"]),
    ("function", KERNEL, "y = tl.max(p, 0)", ["tl.min(p, 0)"]),
    ("width", KERNEL, "y = p.to(tl.int64)", ["tl.int32"]),
    ("dtype", KERNEL, "y = p.to(tl.float32)", ["p", "tl.bfloat16"]),
    ("dtype", KERNEL, "y = p.to(n, bitcast=True)", ["p", "p.to(n)"]),
    ("copy", HOST, "y = x.contiguous()", ["x"]),
    ("copy", KERNEL, "y = p.contiguous()", []),
    ("atomic", KERNEL, "tl.atomic_add(p, n, sem='release')", ["tl.atomic_xchg(p, n, sem='release')", "tl.store(p, n)"]),
    ("atomic", KERNEL, "y = tl.atomic_add(p, n)", ["tl.atomic_xchg(p, n)"]),
    ("semantics", KERNEL, "tl.atomic_add(p, n, sem='release')", ["'relaxed'"]),
    ("semantics", KERNEL, "tl.atomic_add(p, n, sem='acq_rel')", ["'acquire'", "'relaxed'", "'release'"]),
    ("semantics", KERNEL, "tl.atomic_add(p, n, sem='relaxed', scope='sys')", ["'gpu'"]),
    ("barrier", KERNEL, "tl.debug_barrier()", ["pass"]),
    ("barrier", KERNEL, "grid_barrier(p)", ["pass"]),
]


def made(operator, source):
    return sorted(one_line(mutant.after) for mutant in mutants([Module("m", "m.py", source)], [operator]))


@pytest.mark.parametrize(("operator", "template", "statement", "expected"), EXPECTED)
def test_an_operator_makes_what_its_name_promises(operator, template, statement, expected):
    assert made(operator, template.format(statement)) == sorted(expected)


def test_every_operator_is_tested():
    assert {operator for operator, *_ in EXPECTED} == set(OPERATORS)


def test_every_operator_says_what_it_does():
    assert all(operator.__doc__ for operator in OPERATORS.values())


def test_messages_and_words_are_left_alone():
    source = (
        "def words(x) -> str:\n    return x + 'b'\n\n"
        "def host(x, n):\n    if x < n:\n        wanted = x + n\n        raise ValueError(wanted + 1)\n"
    )
    changed = {one_line(mutant.before) for mutant in mutants([Module("m", "m.py", source)])}
    assert changed == {"x < n", "if x < n: wanted = x + n raise ValueError(wanted + 1)"}


def test_device_constants_are_device_code_and_other_module_code_is_not_touched():
    source = "A = tl.constexpr(2.0**126)\nB = 3 + 4\n"
    found = mutants([Module("m", "m.py", source)])
    assert {(mutant.after, mutant.device, mutant.function) for mutant in found} >= {
        ("127", True, ""),
        ("4.0", True, ""),
    }
    assert {mutant.line for mutant in found} == {1}
