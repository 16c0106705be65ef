"""What must hold of how a mutant's process ends, and of what nobody launches; see ``mutation_checks``."""

import os
import time
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness.discover import SetupError
from tests.unit.mutation_behind import check
from tests.unit.mutation_checks import result, results_of
from tests.unit.mutation_gates import CHECKS, _file, _merge, _part
from tests.unit.mutation_proofs import _PROGRAM, _STORE

__all__ = ["CHECKS"]


def _ended(api, *units, how=lambda: os._exit(3)):
    """What is said of a process that begins ``units``, None for no unit, and ends."""

    def work(send):
        for unit in units:
            send(unit=unit)
        how()

    return api.fork.Fork(work).watch(lambda unit: 9.0)


def _fails():
    raise KeyError("engine")


@check
def a_process_that_ends_beside_every_unit_kills_nothing(api):
    """Whatever ends it while a survivor is compared, or while its module is imported, is no check."""
    found = _ended(api, 0, 1, None)
    assert (found["status"], found.get("units")) == ("SURVIVED", 2)
    assert found["message"] == "comparison failed: ended with status 3"
    assert "KeyError" in _ended(api, 0, None, how=_fails)["message"]
    assert _ended(api)["status"] == "INVALID"
    assert _ended(api)["reason"] == "ended with status 3, on import"
    assert (_ended(api, 0, None, 7)["status"], _ended(api, 0)["check"]) == ("CRASH", "process")


@check
def who_waits_for_a_processor_does_not_hang(api):
    """Silent seconds are those that a process computes or sleeps, at any load of the machine."""
    kept, clock = (api.fork._computed, api.fork.time), [0.0]
    states = iter([(5.0, "R"), (5.0, "R"), (5.0, "D"), (7.0, "S"), (7.0, "S"), (7.0, "R")])
    api.fork._computed = lambda pid: next(states)
    api.fork.time = SimpleNamespace(monotonic=lambda: clock[0])
    try:
        silence, found = api.fork._Silence(1), []
        for _ in range(5):
            clock[0] += 100.0
            found.append(silence.seconds())
    finally:
        api.fork._computed, api.fork.time = kept
    assert found == [0.0, 0.0, 100.0, 200.0, 200.0]


@check
def what_a_process_computes_is_seen(api):
    until = time.process_time() + 0.03
    while time.process_time() < until:
        pass
    used, state = api.fork._computed(os.getpid())
    assert abs(used - time.process_time()) < 0.5
    assert state == "R"


@contextmanager
def _compiler(api, *, differs=(), ends=(), fails=(), forms=(), proofs=slice(1), stage="ptx"):
    """Stand in for Triton: in a mutant what ``differs`` holds is other, what ``ends`` and ``fails`` hold does so."""
    compared, state = api.compared, SimpleNamespace(mutated=False)
    names = ("installed", "kernel", "frontend", "launched", "_changed", "_not_launched", "_PROOFS")
    kept = {name: getattr(compared, name) for name in names}

    @contextmanager
    def installed(*arguments):
        state.mutated = True
        yield
        state.mutated = False

    def intermediate(kernel, one, until="ttir"):
        if state.mutated and until == "ptx" and one in ends:
            os._exit(6)
        if state.mutated and one in fails and until == stage:
            raise RuntimeError("PassManager::run failed")
        return f"{one}{state.mutated and one in differs}"

    compared.installed, compared.kernel = installed, lambda one: one
    compared.frontend = SimpleNamespace(refusal=lambda kernel, one: None, intermediate=intermediate)
    compared.launched = SimpleNamespace(specialisations=lambda pairs, modules: ["c"])
    compared._changed = lambda wanted, seen: list(seen)
    compared._not_launched = lambda wanted, seen: [api.generic.Form(*form) for form in forms]
    compared._PROOFS = kept["_PROOFS"][proofs]
    wanted = SimpleNamespace(module="m", source="", modules=("m",), device=True, orders=False, patience=9.0)
    recorder = SimpleNamespace(seen={1: "a", 2: "b"})
    try:
        yield lambda: compared.compared(wanted, SimpleNamespace(pairs=[]), recorder)
    finally:
        vars(compared).update(kept)


@check
def what_nobody_launches_has_to_be_the_same_too(api):
    forms = [("g", "where stride is not 1"), ("h", "with TOPK=8")]
    with _compiler(api, forms=forms) as compared:
        assert compared()["status"] == "EQUIVALENT"
        assert compared()["reason"].endswith("all 3 specialisations that the cases launch, and for 2 that none does")
    with _compiler(api, forms=forms, differs="h") as compared:
        found = compared()
    assert "status" not in found, "a survivor, which counts"
    with _compiler(api, forms=forms, fails="g", stage="ttir") as compared:
        assert "but not where stride is not 1" in str(compared().get("message"))
    assert "all 3 specialisations that the cases launch, but not with TOPK=8, which none does" in found["message"]


@check
def what_has_no_machine_code_is_invalid(api):
    code = slice(2, 3)
    for words in ({"ends": "a"}, {"fails": "b"}):
        with _compiler(api, proofs=code, **words) as compared:
            found = compared()
        assert found.get("status") == "INVALID", words
        assert "no machine code" in found["reason"]
    with _compiler(api, proofs=code) as compared:
        assert compared()["status"] == "EQUIVALENT"
    with _compiler(api, proofs=code, differs="b") as compared:
        assert compared() == {}
    with _compiler(api, proofs=code, ends="g", forms=[("g", "x")]) as compared:
        assert "not x" in compared()["message"], "what nobody launches makes no mutant invalid"


def _launches(api, *constants, signature=(("p", "*fp32"), ("stride", "constexpr"), ("B", "constexpr"))):
    """Launches of one kernel with ``stride`` 1 and ``B`` each of ``constants``."""
    options = SimpleNamespace()
    return [
        api.frontend.Specialisation(
            module="m", kernel="k", key=f"{value}", options=options, signature=dict(signature),
            constexprs={(1,): 1, (2,): value}, attributes={(0,): [["tt.divisibility", 16]]},
        )
        for value in constants
    ]  # fmt: skip


@check
def callers_may_give_other_strides_and_constants(api):
    names = {"k": frozenset({"B"})}
    forms = api.generic.unaligned(_launches(api, 4, 16), names)
    assert [(form.one.signature["stride"], form.one.constexprs) for form in forms] == [
        ("i32", {(2,): 4}), ("i32", {(2,): 16})
    ]  # fmt: skip
    assert {form.words for form in forms} == {"where stride is not 1"}
    assert [form.one.attributes for form in forms] == [{}, {}]
    assert len(api.generic.unaligned(_launches(api, 4) * 2, names)) == 1
    two = [replace(_launches(api, b)[0], constexprs={(0,): c, (2,): b}) for b, c in ((4, 2), (16, 3), (4, 3))]
    assert len(api.generic.unaligned(two, names)) == 2, "every value of each constant, not every combination"

    def values(numbers, *constants):
        forms = api.generic.unaligned(_launches(api, *constants), names)
        return {form.one.constexprs[2,] for form in api.generic.others(forms, names, numbers)}

    assert values({}, 4, 16) == {32, 2}
    assert values({"B": 0, "LIMIT": 8}, 4, 16) == {32, 2, 8, 7, 9}
    assert values({"LIMIT": 8}, 4, 16) == {32, 2}, "the changed lines do not name it"
    assert values({}, True) == {False}
    assert values({}, True, False) == set()
    assert values({}, None) == set()


@check
def numbers_of_changed_lines_are_found_by_name(api):
    original = "a = 1\nif B <= LIMIT + 3:\n    c = 9\n"
    scope = {"LIMIT": SimpleNamespace(value=8), "B": "no number"}
    found = api.generic.numbers(original, original.replace("<=", "<"), scope)
    assert found == {"if": 0, "B": 0, "LIMIT": 8, "3": 3}


_LOOP = "%r:2 = scf.for %i = %n to %k step %n iter_args(%old = %zero, %m = %wide)"
_TURNS = f"""{_LOOP} -> (tensor<8xf32>, tensor<8xi1>) : i32 {{
      %is = tt.splat %i : i32 -> tensor<8xi32> loc(#loc2)
      %in = arith.cmpi slt, %row, %is : tensor<8xi32> loc(#loc2)
      tt.store %p, %old, %STORED : tensor<8x!tt.ptr<f32>> loc(#loc2)
      %new = tt.load %p, %LOADED, %zero : tensor<8x!tt.ptr<f32>> loc(#loc1)
      scf.yield %new, %in : tensor<8xf32>, tensor<8xi1> loc(#loc2)
    }} loc(#loc2)"""


@check
def a_mask_of_the_turn_before_is_another_mask(api):
    def proved(stored, loaded):
        turns = _TURNS.replace("%STORED", stored).replace("%LOADED", loaded)
        ops = api.ir.read(_PROGRAM.replace("EFFECT", f"tt.store %p, %w, %mask{_STORE}\n{turns}"))
        try:
            api.dead_lanes.prove(ops, [7])
        except api.dead_lanes.Unproved:
            return False
        return True

    assert proved("%mask", "%mask"), "made before the loop: the same in every turn"
    assert not proved("%in", "%in"), "made in the loop"
    assert not proved("%m", "%m"), "carried by the loop"


@check
def parts_say_that_they_are_a_sample(api, folder):
    whole = api.results.Whole(mutants=275, digest="d")
    fields = {"style": "contract", "shard": 1, "shards": 1, "kernels": {"merge": whole}}
    part = api.results.Part(**fields, limit=2, operators=("sign",))
    path = _file(api, folder / "sample.jsonl", results_of(api, KILLED=3), part)
    assert api.results.read_parts(path)[0] == [part]
    shown, answer = _merge(api, folder, path, "--at-least", "0.97")
    assert "3 of 275 mutants are here; 3 of 3 mutants killed (100.0%)" in shown
    assert "a sample (--limit 2 --operator sign), which has to be asked for again beside --merge" in str(answer)
    assert _merge(api, folder, path, "--limit", "2", "--operator", "sign")[1] is True
    assert "not one whole campaign" in str(_merge(api, folder, path, "--limit", "3", "--operator", "sign")[1])
    again = api.results.Part(**fields, again=True)
    assert "a sample (--again)" in str(_merge(api, folder, _file(api, path, results_of(api, KILLED=3), again))[1])
    all_of_it = _file(api, path, results_of(api, KILLED=2), _part(api))
    assert "are here" not in _merge(api, folder, all_of_it)[0]
    assert "not the sample that is asked for (--limit 2)" in str(_merge(api, folder, all_of_it, "--limit", "2")[1])


@check
def files_that_disagree_are_not_merged(api):
    def merged(one, other):
        return api.results.merged([[result(api, "a", status=status)] for status in (one, other)])

    for one, other in (("KILLED", "SURVIVED"), ("SURVIVED", "EQUIVALENT"), ("INVALID", "CRASH")):
        with pytest.raises(SetupError, match=f"kernels/merge.py:3 bound a: {one} in one file and {other} in another"):
            merged(one, other)
    for one, other in (("KILLED", "CRASH"), ("EQUIVALENT", "INVALID"), ("SKIPPED", "SURVIVED"), ("KILLED", "SKIPPED")):
        assert len(merged(one, other)) == 1


def _unit(number, name):
    return SimpleNamespace(number=number, name=name, implementation="merge-triton")


@check
def a_survivor_that_changes_nothing_says_where_it_ran(api):
    ran = [
        (_unit(0, "Case(n=1000)"), frozenset({"m.k"})),
        (_unit(1, "Case(n=1)"), frozenset()),
        (_unit(2, "Case(n=20)"), frozenset({"m.k", "m.l"})),
    ]
    assert api.unseen.launched(ran, frozenset({"m.k"})) == (
        "changes no bit of an output in 3 units, 2 of which launch it; the shortest: merge-triton: Case(n=20)"
    )
    assert api.unseen.launched(ran, frozenset({"m.o"})) == "no unit launches it, of 3 that ran"


@check
def the_shortest_case_that_runs_a_line_is_found(api, folder):
    path = folder / "traced.py"
    path.write_text("def launch(n):\n    if n > 10:\n        n = n - 1\n    return n\n")
    scope = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    changed = api.unseen.lines(path.read_text(), path.read_text().replace("n - 1", "n - 2"))
    assert changed == {3}
    units = [_unit(0, "Case(n=1000)"), _unit(1, "Case(n=1)"), _unit(2, "Case(n=20)")]

    def ran(units):
        return api.unseen.ran(units, str(path), changed, lambda unit: scope["launch"](int(unit.name[7:-1])))

    assert ran(units) == ("changes no bit of an output in 3 units; the shortest that runs it: merge-triton: Case(n=20)")
    assert ran(units[1:2]) == "its lines run in none of 1 units"
