"""What the contract of ``mega_moe`` adds to that of ``mxfp4_moe``: grids, and that they change nothing."""

import functools

import torch
from hypothesis import HealthCheck, Phase, find, given, settings

from harness.cases import parse
from tests.unit.contract_cases import build, contract

NAME = "mega_moe"
GRIDS = {f"at most {blocks} blocks" for blocks in (2, 3, 4, 8)}


@functools.cache
def drawn():
    """Some cases, the same every time."""
    cases = []

    @settings(
        max_examples=50,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(contract(NAME).cases())
    def collect(case):
        cases.append(case)

    collect()
    return tuple(cases)


def test_every_grid_is_drawn_beside_the_features_of_mxfp4_moe():
    found = frozenset().union(*(contract(NAME).features(case) for case in drawn()))
    assert found > GRIDS
    assert found - GRIDS >= {"fp16", "float32 scales", "padded token", "one expert twice", "clamp", "int64 ids"}


def test_the_simplest_case_has_no_features():
    wanted = settings(max_examples=100, database=None, derandomize=True)
    simplest = find(contract(NAME).cases(), lambda case: not contract(NAME).features(case), settings=wanted)
    assert simplest.max_blocks is None


def test_a_printed_case_is_read_back():
    of = contract(NAME)
    for case in (*drawn(), *of.pinned):
        assert parse(of, repr(case)) == case


def test_the_grid_says_nothing_to_the_oracle():
    of = contract(NAME)
    (relation,) = (relation for relation in of.relations if relation.name == "another grid")
    for case in drawn()[:15]:
        inputs, _ = build(of, case)
        changed = relation.transform(case, inputs)
        assert changed["max_blocks"] != inputs["max_blocks"]
        first, second = of.oracle(**inputs)["out"], of.oracle(**changed)["out"]
        assert torch.equal(first.nan_to_num(7), second.nan_to_num(7))


def test_every_illegal_call_of_mxfp4_moe_is_one_of_mega_moe():
    labels = {rejection.label for rejection in contract(NAME).rejects()}
    assert labels > {rejection.label for rejection in contract("mxfp4_moe").rejects()}
    assert len(labels) == len(contract(NAME).rejects())


def test_workloads_are_those_of_mxfp4_moe():
    ours, theirs = (
        {case.routing.num_tokens: case for case in contract(name).workloads} for name in (NAME, "mxfp4_moe")
    )
    assert ours.keys() == theirs.keys() - {4, 16, 128}
    for tokens, case in ours.items():
        assert contract(NAME).features(case) == contract("mxfp4_moe").features(theirs[tokens])
