"""Shared relations hold for right implementations and are broken by the fault each is about."""

from dataclasses import replace

import pytest
import torch

from harness.checks import permuted_rows, renamed_pages, retyped
from harness.run import check_case
from tests.unit.pooling import CASE, CONTRACT, RIGHT, Case, PlainLane, implementation, pooled


def broken(subject, relation, case=CASE):
    result = check_case(replace(CONTRACT, relations=(relation,)), subject, case, lane=PlainLane())
    return {violation.check for violation in result.violations}, result.checks_run


ROWS = permuted_rows("rows permuted", arguments=("indices", "scores", "sink"), outputs=("out", "lse"))
IDS = retyped("int64 indices", argument="indices", dtype=torch.int64)


@pytest.mark.parametrize("case", [CASE, replace(CASE, sink=True), replace(CASE, nan=True)])
@pytest.mark.parametrize("relation", [ROWS, IDS], ids=lambda relation: relation.name)
def test_relation_holds_for_the_right_implementation(relation, case):
    violations, ran = broken(RIGHT, relation, case)
    assert violations == set()
    assert f"relation:{relation.name}" in ran


def test_row_that_depends_on_its_place_breaks_the_permutation():
    def minds_its_place(**inputs):
        outputs = pooled(**inputs)
        return {**outputs, "lse": outputs["lse"] + 4e-8 * torch.arange(len(outputs["lse"]))}

    assert broken(implementation(minds_its_place), ROWS)[0] == {"relation:rows permuted"}


def test_dtype_that_changes_the_answer_is_found():
    def minds_the_dtype(**inputs):
        outputs = pooled(**inputs)
        return {**outputs, "lse": outputs["lse"] * (1 + (inputs["indices"].dtype == torch.int64))}

    assert broken(implementation(minds_the_dtype), IDS)[0] == {"relation:int64 indices"}


def test_one_row_cannot_be_permuted():
    assert "relation:rows permuted" not in broken(RIGHT, ROWS, Case(rows=((0,),)))[1]


def test_permutation_follows_from_the_case_and_is_not_the_identity():
    inputs = {"indices": torch.arange(5), "scores": torch.arange(5.0), "sink": None}
    for seed in range(20):
        case = replace(CASE, seed=seed)
        moved = [ROWS.transform(case, inputs)["indices"] for _ in range(2)]
        assert torch.equal(*moved)
        assert not torch.equal(moved[0], inputs["indices"])
        assert torch.equal(moved[0], ROWS.expect(case, {"out": torch.arange(5)})["out"])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float8_e4m3fn, torch.bfloat16])
@pytest.mark.parametrize("tokens", [True, False])
def test_renamed_pages_are_found_under_their_new_ids(dtype, tokens):
    storage = torch.arange(4 * 24, dtype=torch.uint8).repeat_interleave(dtype.itemsize).view(dtype)
    pages = storage.as_strided((4, 3, 5), (24, 5, 1))
    ids = torch.tensor([[-1, 0, 1, 2, 3, 7, 11, 12, 2**31 - 1]], dtype=torch.int32)
    inputs = {"cache": pages, "ids": ids}
    moved = renamed_pages("renamed", cache="cache", ids="ids", tokens=tokens).transform(CASE, inputs)
    unit = 3 if tokens else 1

    def looked_up(given):
        valid = [int(i) for i in given["ids"][0] if 0 <= i < 4 * unit]
        flat = given["cache"].view(torch.uint8) if dtype.itemsize == 1 else given["cache"]
        return [flat[i // unit, i % unit if tokens else ...].tolist() for i in valid]

    assert looked_up(moved) == looked_up(inputs)
    assert not torch.equal(moved["ids"], ids)
    assert moved["ids"][0, [0, -1]].tolist() == [-1, 2**31 - 1]
    assert moved["cache"].stride() == pages.stride()
    assert torch.equal(inputs["ids"], ids)


def test_renaming_says_nothing_about_one_page_no_page_or_a_huge_pool():
    relation = renamed_pages("renamed", cache="cache", ids="ids", tokens=True)
    ids = torch.zeros(1, dtype=torch.int32)
    far = torch.empty(2**40, dtype=torch.uint8, device="meta").as_strided((2, 1, 8), (2**39, 8, 1))
    for cache in (None, torch.zeros(1, 4, 8), far):
        assert relation.transform(CASE, {"cache": cache, "ids": ids}) is None
