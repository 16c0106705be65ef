"""What must hold of results checked in shares: all of them, each once, whatever one of them does to its process."""

from dataclasses import replace

import torch

from harness.bench import gates
from harness.bench.measure import Bench, Measured, Refused
from harness.lanes import ContextLost, VirtualLane
from tests.unit.bench_measuring import QUICK, contract, implementation, oracle, right, wrong

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


@check
def what_had_no_memory_beside_others_is_checked_alone():
    owner = contract("merge_attn_states")
    calls = []

    def hungry(outs, lses):
        calls.append(1)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("beside the others")
        return oracle(outs, lses)

    owner = replace(owner, oracle=hungry)
    both = [implementation(right, "right"), implementation(wrong, "wrong")]
    checked = gates.share([(owner, both, owner.pinned[3], "x")], VirtualLane(), 0, 1)
    assert (checked.found, sorted(checked.again)) == (
        {},
        ["merge_attn_states[right-x]", "merge_attn_states[wrong-x]"],
    )
    bench = Bench(lane=VirtualLane(), effort=QUICK, gates=checked)
    done = list(bench.measure(owner, both, owner.pinned[3], "x"))
    assert [type(one) for one in done] == [Measured, Refused]
    assert done[1].reason.startswith("oracle:out: ")


@check
def a_check_that_loses_the_device_is_the_only_one_lost():
    owner, kept = contract("merge_attn_states"), []

    def fatal(outs, lses):
        raise AssertionError("the lane below is lost before it gets here")

    class Fragile(VirtualLane):
        def run(self, launch, inputs, **options):
            if launch is fatal:
                raise ContextLost("an illegal access")
            return super().run(launch, inputs, **options)

    three = [implementation(right, "right"), implementation(fatal, "fatal"), implementation(wrong, "wrong")]
    workloads = [(owner, three, owner.pinned[3], "x"), (owner, three[:1], owner.pinned[4], "y")]
    first = gates.share(workloads, Fragile(), 0, 1, keep=kept.append)
    assert first.found == {"merge_attn_states[right-x]": None, "merge_attn_states[fatal-x]": "an illegal access"}
    assert not first.done
    assert [one.at for one in kept] == [f"merge_attn_states[{name}-x]" for name in ("right", "right", "fatal")]
    # another process goes on behind it
    second = gates.share(workloads, Fragile(), 0, 1, before=first)
    assert second.done
    assert second.found["merge_attn_states[wrong-x]"].startswith("oracle:out: ")
    assert second.found["merge_attn_states[right-y]"] is None
    assert len(second.found) == 4


@check
def every_workload_is_in_one_share():
    owner = contract("merge_attn_states")
    cases = [(owner, [implementation(right)], case, f"{place}") for place, case in enumerate(owner.pinned[:4])]
    shares = [set(gates.share(cases, VirtualLane(), number, 3).found) for number in range(3)]
    assert sorted(map(len, shares)) == [1, 1, 2]
    assert len(set.union(*shares)) == 4
