"""What must hold of the proofs that a mutant is no other kernel; see ``mutation_checks``, which these join."""

import ast
import linecache
import sys
from types import ModuleType

import pytest

from harness import registry
from harness.contract import Implementation
from tests.unit.mutation_order import CHECKS, check

__all__ = ["CHECKS"]


@check
def same_bytecode_compares_constants(api):
    assert api.generate.same_bytecode("x = 6\n", "\nx = 2 * 3\n")
    assert not api.generate.same_bytecode("def f():\n    return 6\n", "def f():\n    return 7\n")


@check
def numbers_of_two_signs_are_told_apart(api):
    effect = """
    %z = arith.constant dense<0> : tensor<8xi32> loc(#loc2)
    %c = arith.cmpi sge, %v, %z : tensor<8xi32> loc(#loc2)
    tt.store %p, %c : tensor<8x!tt.ptr<f32>> loc(#loc2)"""
    ops = api.ir.read(_PROGRAM.replace("EFFECT", effect))
    api.dead_lanes.prove(ops, [7], numbers=(-1, -2))
    with pytest.raises(api.dead_lanes.Unproved):
        api.dead_lanes.prove(ops, [7], numbers=(-1, 0))


@check
def one_number_that_changed_is_found(api):
    changed = api.generate.changed_numbers
    assert changed("f(x, other=-1)\ng(-1)\n", "f(x, other=-2)\ng(-1)\n") == (-1, -2)
    assert changed("f(x, other=0)\n", "f(x, other=1)\n") == (0, 1)
    for after in ("f(x, other=-2)\ng(-2)\n", "f(x, other=y)\ng(-1)\n", "f(x)\ng(-1)\n", "f(x, other=-1.0)\ng(-1)\n"):
        assert changed("f(x, other=-1)\ng(-1)\n", after) is None


@check
def everything_comes_back_after_a_mutant(api, folder):
    path = folder / "victim_of_checks.py"
    path.write_text("value = 1\n\ndef launch():\n    return value\n")
    module = ModuleType("victim_of_checks")
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    sys.modules[module.__name__] = module
    registered = registry._implementations
    try:
        launch, implementations = module.launch, dict(registered)
        registry._implementations = {("c", "i"): Implementation(contract="c", name="i", launch=launch), **registered}
        with api.install.installed(module.__name__, path.read_text().replace("= 1", "= 2"), (module.__name__,)):
            assert module.launch() == 2
            assert ("c", "i") not in registry._implementations
            assert linecache.getline(str(path), 1) == "value = 2\n"
        assert (module.launch, module.launch()) == (launch, 1)
        assert linecache.getline(str(path), 1) == "value = 1\n"
        assert ("c", "i") in registry._implementations
        assert len(registry._implementations) == len(implementations) + 1
    finally:
        registry._implementations = registered
        del sys.modules[module.__name__]


_PROGRAM = """module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %n: i32, %k: i32) {
    %zero = arith.constant dense<0.0> : tensor<8xf32> loc(#loc2)
    %row = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32> loc(#loc2)
    %ns = tt.splat %n : i32 -> tensor<8xi32> loc(#loc2)
    %ks = tt.splat %k : i32 -> tensor<8xi32> loc(#loc2)
    %mask = arith.cmpi slt, %row, %ns : tensor<8xi32> loc(#loc2)
    %wide = arith.cmpi slt, %row, %ks : tensor<8xi32> loc(#loc2)
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>> loc(#loc2)
    %p = tt.addptr %xs, %row : tensor<8x!tt.ptr<f32>>, tensor<8xi32> loc(#loc2)
    %v = tt.load %p, %mask, %zero : tensor<8x!tt.ptr<f32>> loc(#loc1)
    %w = arith.addf %v, %v : tensor<8xf32> loc(#loc2)
    EFFECT
    tt.return loc(#loc2)
  } loc(#loc2)
} loc(#loc2)
#loc1 = loc("kernel.py":7:3)
#loc2 = loc("kernel.py":9:3)
"""
_STORE = " : tensor<8x!tt.ptr<f32>> loc(#loc2)"
_SUM = (
    '%s = "tt.reduce"(%w) <{axis = 0 : i32}> ({\n    ^bb0(%a: f32, %b: f32):\n'
    "      %c = arith.addf %a, %b : f32 loc(#loc2)\n      tt.reduce.return %c : f32 loc(#loc2)\n"
    "    }) : (tensor<8xf32>) -> f32 loc(#loc2)\n"
    "    %sums = tt.splat %s : f32 -> tensor<8xf32> loc(#loc2)\n"
    f"    tt.store %p, %sums, %mask{_STORE}"
)


def _is_dead(api, effect):
    ops = api.ir.read(_PROGRAM.replace("EFFECT", effect))
    assert api.dead_lanes.loads(ops, [7])
    try:
        api.dead_lanes.prove(ops, [7])
    except api.dead_lanes.Unproved:
        return False
    return True


@check
def lanes_that_stores_leave_out_are_dead(api):
    assert _is_dead(api, f"tt.store %p, %w, %mask{_STORE}")
    both = "%both = arith.andi %wide, %mask : tensor<8xi1> loc(#loc2)\n    "
    assert _is_dead(api, f"{both}tt.store %p, %w, %both{_STORE}")


@check
def lanes_that_something_uses_are_not_dead(api):
    assert not _is_dead(api, f"tt.store %p, %w{_STORE}")
    assert not _is_dead(api, f"tt.store %p, %w, %wide{_STORE}")
    assert not _is_dead(api, _SUM)
    other = "%other = arith.cmpf ogt, %w, %zero : tensor<8xf32> loc(#loc2)\n    "
    assert not _is_dead(api, f"{other}tt.store %p, %zero, %other{_STORE}")
    either = "%either = arith.ori %wide, %mask : tensor<8xi1> loc(#loc2)\n    "
    assert not _is_dead(api, f"{either}tt.store %p, %w, %either{_STORE}")


_CHOICE = _PROGRAM.replace(
    "%v = tt.load %p, %mask, %zero : tensor<8x!tt.ptr<f32>> loc(#loc1)",
    "%v = arith.select %mask, %one, %zero : tensor<8xi1>, tensor<8xf32> loc(#loc1)",
).replace("%row = ", "%one = arith.constant dense<1.0> : tensor<8xf32> loc(#loc2)\n    %row = ")


@check
def what_a_choice_gives_where_its_condition_is_off_may_be_dead(api):
    def is_dead(effect):
        ops = api.ir.read(_CHOICE.replace("EFFECT", effect))
        assert api.dead_lanes.loads(ops, [7], "arith.select")
        assert not api.dead_lanes.loads(ops, [7])
        try:
            api.dead_lanes.prove(ops, [], [7])
        except api.dead_lanes.Unproved:
            return False
        return True

    assert is_dead(f"tt.store %p, %w, %mask{_STORE}")
    assert not is_dead(f"tt.store %p, %w{_STORE}")
    assert not is_dead(f"tt.store %p, %w, %wide{_STORE}")


@check
def choices_that_differ_where_their_condition_is_off_are_found(api):
    original = "a = tl.where(m, x, 0)\nb = tl.where(n, y, 1)\n"
    found = {
        "a = x\nb = tl.where(n, y, 1)\n": [1],
        "a = tl.where(m, x, 7)\nb = tl.where(n, y, 1)\n": [1],
        "a = tl.where(m, x, 0)\nb = y\n": [2],
        "a = tl.where(m, 0, x)\nb = tl.where(n, y, 1)\n": [],
        "a = tl.where(m, x, 7)\nb = y\n": [],
        "a = 0\nb = tl.where(n, y, 1)\n": [],
        "a = tl.where(n, x, 0)\nb = tl.where(n, y, 1)\n": [],
    }
    assert {text: api.generate.changed_choices(original, text) for text in found} == found
    two = "a = tl.where(m, x, 0) + tl.where(n, y, 1)\n"
    assert api.generate.changed_choices(two, two.replace("tl.where(m, x, 0)", "x")) == []


def _tree(text):
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:
        return pytest.fail(f"no statement: {text}")


@check
def a_change_is_looked_at_in_the_statement_around_it(api):
    """What tells a mutant from the original is the smallest statement that parses alone; never less."""
    text = (
        "def f(a, b):\n    if a < 1:\n        pass\n        return 0\n"
        "    elif a < 2: return b + 1\n    else: return a - b\n"
        "    @jit\n    def g(c): return c - 1\n    x = 1; y = a + x\n    return y\n"
    )
    module = api.source.Module("m", "m.py", text)
    whole = _tree(text)
    found = 0
    for region in module.regions():
        for name, operator in api.generate.OPERATORS.items():
            for edit in operator(region):
                mutant = module.apply(region, name, edit)
                before, after = module.around(region, edit)
                assert _tree(before) != _tree(after)
                assert _tree(mutant.source) != whole
                assert after.removeprefix("if 1:\n") in mutant.source
                assert before.removeprefix("if 1:\n") in text
                found += 1
    assert found > 10
