"""The virtual GPU's sm_90 against what an H200 gave, case by case and bit by bit; see ``tests/vgpu/conformance``."""

from dataclasses import replace
from fnmatch import fnmatchcase

import pytest

from tests.vgpu.conformance.allowances import ALLOWANCES, REFUSED
from tests.vgpu.conformance.cases import In, every_case
from tests.vgpu.conformance.compare import differences, judge
from tests.vgpu.conformance.packing import load
from tests.vgpu.conformance.reasons import Allowance, Reason


@pytest.fixture(scope="module")
def cases():
    return every_case()


@pytest.fixture(scope="module")
def recording():
    return load()


@pytest.fixture(scope="module")
def judged(cases, recording):
    return judge(cases, recording, ALLOWANCES)


def test_the_recording_says_what_it_was_made_on(recording):
    assert recording.about["gpu"] == "NVIDIA H200"
    assert set(recording.about) >= {"driver", "triton", "torch", "ptxas", "cuda"}
    assert not any(said.startswith("unknown") for said in recording.about.values())


def test_every_case_was_recorded_with_the_inputs_it_has_now(cases, recording):
    assert {id: case.digest() for id, case in cases.items()} == recording.digests


def test_what_was_not_recorded_is_what_the_compiler_or_the_driver_refuses(recording):
    refused = recording.refused

    def matches(id, why, pattern):
        return fnmatchcase(id, pattern) and REFUSED[pattern] in why

    undeclared = [id for id, why in refused.items() if not any(matches(id, why, pattern) for pattern in REFUSED)]
    assert undeclared == []
    unused = [pattern for pattern in REFUSED if not any(matches(id, why, pattern) for id, why in refused.items())]
    assert unused == []


def test_every_result_can_be_decoded_here(judged):
    # what numpy and torch compute in float64 may differ in the last place from one machine to another
    assert len(judged.undecoded) <= 10, judged.undecoded


def test_nothing_differs_from_the_recording_without_a_reason(judged):
    assert not judged.unexplained, "\n".join(judged.unexplained)


def test_every_allowance_is_needed(judged):
    assert judged.stale == []


def test_a_difference_is_told_with_its_operands_both_results_and_their_distance(cases, recording):
    case = cases["plus/int32"]
    (recorded,) = recording.results(case)
    got = recorded.copy()
    got[7] += 3
    (line,), used = differences(case, [got], [recorded], [])
    x, y = (operand.bits[7] for operand in case.inputs)
    assert line.splitlines() == [
        "plus/int32: 1 of 3072 elements of result 0 (int32) differ, unexplained",
        f"  at 7: f(int32 {x:#x}, int32 {y:#x}) = {got[7]:#x}, recorded {recorded[7]:#x}, 3 ulp apart",
    ]
    assert used == set()


def test_an_allowance_that_nothing_needs_is_named(cases, recording):
    chosen = {"plus/int32": cases["plus/int32"]}
    unneeded = Allowance("plus/int32 plus/int64", Reason.OPEN, "made up")
    assert judge(chosen, recording, [unneeded]).stale == [("plus/int32", "OPEN"), ("plus/int64", "OPEN")]


def test_a_recording_of_other_inputs_is_noticed(cases):
    case = cases["exp/fp32"]
    other = replace(case, operands=(In("fp32", case.inputs[0].bits ^ 1), *case.outputs))
    assert case.digest() == cases["exp/fp32"].digest() != other.digest()
