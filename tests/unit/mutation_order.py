"""What must hold of lanes, orders and workers of the mutation engine; see ``mutation_checks``, which these join."""

import os
from contextlib import contextmanager
from types import SimpleNamespace

from harness.contract import Interleavings
from harness.lanes import VirtualLane
from harness.outcome import CaseResult
from tests.unit import test_interleavings
from tests.unit.mutation_checks import CHECKS, check, result

__all__ = ["CHECKS"]


def _compiler(api, refused, differs):
    """Stand in for Triton: specialisations in ``refused`` do not compile in the mutant, those in ``differs`` change."""
    state = SimpleNamespace(mutated=False)

    @contextmanager
    def installed(*arguments):
        state.mutated = True
        yield
        state.mutated = False

    compared = api.compared
    compared.installed, compared.kernel = installed, lambda one: one
    compared.frontend = SimpleNamespace(
        refusal=lambda kernel, one: "no such type" if state.mutated and one in refused else None,
        intermediate=lambda kernel, one, **options: f"{one}{state.mutated and one in differs}",
    )
    return compared


@check
def units_that_launch_nothing_of_what_changed_come_last(api):
    """Of a unit that nobody ran yet it is not known; what host code changes is looked at in order."""
    made = [SimpleNamespace(number=n, implementation="merge-triton", case=n, target=None) for n in range(4)]
    kernels = {api.judge.place(made[0]): frozenset({"m.words"}), api.judge.place(made[1]): frozenset()}
    kernels[api.judge.place(made[3])] = frozenset({"m.words", "m.bytes"})
    kept = api.child.frontend
    try:
        now = {"m.words": "1", "m.bytes": "3"}
        api.child.frontend = SimpleNamespace(digests=lambda modules: (list(modules), now)[1])
        bench = SimpleNamespace(units=made, kernels=kernels, digests={"m.words": "1", "m.bytes": "2"}, in_order=False)
        wanted = SimpleNamespace(device=True, modules=())
        assert [unit.number for unit in api.child._promising(wanted, bench)] == [2, 3, 0, 1]
        wanted.device = False
        assert [unit.number for unit in api.child._promising(wanted, bench)] == [0, 1, 2, 3]
    finally:
        api.child.frontend = kept


@check
def launches_of_the_compile_lane_have_to_be_the_same_too(api):
    changed = ("installed", "kernel", "frontend", "launched", "_changed", "_not_launched", "_PROOFS")
    kept = {name: getattr(api.compared, name) for name in changed}
    wanted = SimpleNamespace(module="m", source="", modules=("m",), device=True, orders=False, patience=9.0)
    bench, recorder = SimpleNamespace(pairs=[]), SimpleNamespace(seen={1: "a", 2: "b"})
    try:
        for compiled, differs, proved in (((), (), True), (("c",), (), True), (("c",), ("c",), False)):
            compared = _compiler(api, refused=(), differs=differs)
            compared._PROOFS = kept["_PROOFS"][:1]
            compared.launched = SimpleNamespace(specialisations=lambda pairs, modules, found=compiled: list(found))
            compared._changed = lambda wanted, seen: list(seen)
            compared._not_launched = lambda wanted, seen: []
            found = compared.compared(wanted, bench, recorder)
            assert bool(found) == proved, (compiled, differs)
    finally:
        vars(api.compared).update(kept)


@check
def a_change_of_order_that_some_target_does_not_take_is_a_kill(api):
    kept = {name: getattr(api.compared, name) for name in ("installed", "kernel", "frontend", "launched")}
    try:
        compared = _compiler(api, refused=(), differs=())
        for orders, mutated, original, told in (
            (True, [("sm_80", "too old")], [], "on sm_80: too old"),
            (True, [("sm_80", "too old")], [("sm_80", "too old")], ""),
            (True, [("sm_80", "too old"), ("sm_90", "early")], [("sm_80", "too old")], "on sm_90: early"),
            (False, [("sm_80", "too old")], [], ""),
        ):
            asked = iter([mutated, original])
            compared.launched = SimpleNamespace(refusals=lambda pairs, find, asked=asked: next(asked))
            wanted = SimpleNamespace(module="m", source="", modules=("m",), orders=orders)
            assert compared._not_taken(wanted, SimpleNamespace(pairs=[])) == told
    finally:
        vars(api.compared).update(kept)


@check
def a_refusal_anywhere_makes_a_mutant_invalid(api):
    kept = {name: getattr(api.compared, name) for name in ("installed", "kernel", "frontend")}
    wanted = SimpleNamespace(module="m", source="", modules=("m",))
    try:
        compared = _compiler(api, refused=("c",), differs=("a",))
        assert compared._refused(wanted, ["a", "b", "c"]) == "Triton refuses it: no such type"
        assert compared._refused(wanted, ["a", "b"]) == ""
    finally:
        vars(api.compared).update(kept)


@check
def programs_in_other_orders_judge_too(api):
    subject, _ = test_interleavings.implementation(Interleavings(seeds=1))
    judging = api.judge.Judging(VirtualLane(), api.judge.Oracles(), lambda implementation: implementation)
    result = judging.result(test_interleavings.CONTRACT, subject, test_interleavings.Case(3))
    assert "interleaving" in result.checks_run


@check
def a_free_worker_goes_where_most_is_left(api):
    few, many, done = (api.pool._Queue(None, list(range(left)), workers) for left, workers in ((3, 0), (40, 4), (0, 0)))
    assert api.pool._neediest([few, many, done]) is many
    many.workers = 16
    assert api.pool._neediest([many, few, done]) is few
    few.workers = 1
    assert api.pool._neediest([many, few, done]) is None, "a worker takes seconds to start"


@check
def judges_are_compared_on_what_counts_for_all(api):
    judged = {
        "contract": {"a": "KILLED", "b": "KILLED", "c": "EQUIVALENT", "d": "SURVIVED"},
        "fixed": {"a": "KILLED", "b": "SURVIVED", "c": "SURVIVED"},
    }
    found = {who: [result(api, key, status=status) for key, status in of.items()] for who, of in judged.items()}
    lines = [line.split() for line in api.peers.render(found).splitlines()]
    assert lines == [
        ["kernel", "mutants", "contract", "fixed"], ["merge", "2", "100.0%", "50.0%"], ["all", "2", "100.0%", "50.0%"]
    ]  # fmt: skip


@check
def a_process_that_the_original_ends_too_is_no_kill(api):
    unit = SimpleNamespace(
        case=1, contract=None, implementation="merge-triton", name="Case()", target=None, number=0, deep=False
    )

    def judged(result):
        worker = api.worker.Worker(
            pairs=[], units=[unit], lane=None, deadline=9.0, silence=9.0, trusted=api.judge.Trusted(), oracles=None,
            order=api.plan.Order(), baseline=lambda: SimpleNamespace(result=result),
        )  # fmt: skip
        told = iter([{"status": "CRASH", "check": "process", "unit": 0}, {"status": "SURVIVED"}])
        worker._fork = lambda wanted, function: next(told)
        worker.ask_original = lambda asked: None
        mutant = {"key": "k", "module": "m", "function": "f", "device": True, "source": "", "modules": []}
        return worker.judge(mutant)["status"], [one["message"] for one in worker.news()], worker.fits

    assert judged(lambda *arguments: os._exit(3)) == ("SURVIVED", ["ended with status 3"], {0: False})
    assert judged(lambda *arguments: CaseResult()) == ("CRASH", [], {0: True})
