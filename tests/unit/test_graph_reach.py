"""Every way that a launch takes at a real size is captured in a graph, and run at a real size in every profile."""

from types import SimpleNamespace

import pytest

from harness import cases, registry
from harness.graphs import graph_cases, reach
from harness.hardware.sizes import FIRST
from tests.unit.reach_checks import BOTH, CHECKS


@pytest.mark.parametrize("name", CHECKS)
def test_ways(name):
    CHECKS[name](SimpleNamespace(reach=reach))


@pytest.fixture(scope="module")
def shipped():
    registry.load(["kernels"], installed=False)
    ours = {}
    for implementation in registry.implementations():
        if implementation.launch.__module__.startswith("kernels.") and implementation.capturable is not None:
            ours.setdefault(implementation.contract, []).append(implementation)
    return ours


NAMES = (
    "ep_dispatch_combine", "mega_moe", "merge_attn_states", "moe_scatter", "mxfp4_moe", "paged_mqa_logits",
    "sparse_mla_decode",
)  # fmt: skip


def test_every_contract_with_a_capturable_kernel_is_asked(shipped):
    assert sorted(shipped) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_way_of_a_workload_or_of_what_is_declared_to_compile_is_captured(shipped, name):
    of, implementations = registry.contract(name), shipped[name]
    users = {}
    for implementation in implementations:
        users.setdefault(graph_cases(of, implementation), []).append(implementation)
    captured = [one for cases_, who in users.items() for one in reach.ways(of, who, cases_, BOTH)]
    declared = [
        one
        for implementation in implementations
        for one in reach.ways(of, [implementation], parsed(of, implementation.compiles.cases), BOTH)
    ]
    wanted = reach.ways(of, implementations, of.workloads, BOTH)
    assert told(reach.unreached([*wanted, *declared], captured)) == []
    assert left_out(name, implementations, wanted) == []


def parsed(of, texts):
    return [cases.parse(of, text) for text in texts]


def told(unreached):
    """One line for each way that is missing."""
    return [
        f"{name} on {target}: no such launch as {', '.join(map(str, way))} of {case!r}"
        for (target, name), lost in unreached.items()
        for case, way in lost
    ]


def left_out(name, implementations, wanted):
    """The ways that no implementation takes at a real size in the profile that has no time for all."""
    run = {one.name: FIRST.get((name, one.name), (0,)) for one in implementations}
    taken = {
        (target, way)
        for number, users in enumerate(wanted)
        for (target, implementation), way in users.ways.items()
        if number in run[implementation]
    }
    return [
        f"workload {number} of {name}-{implementation} on {target}: {', '.join(map(str, way))}"
        for number, users in enumerate(wanted)
        for (target, implementation), way in users.ways.items()
        if (target, way) not in taken
    ]
