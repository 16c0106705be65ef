"""Every registered implementation compiles for the targets that ``--compile-for`` names, and fits them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.contract import Contract, Implementation

if TYPE_CHECKING:
    from harness.device.targets import Target

pytestmark = pytest.mark.conformance


def test_compiles_and_fits(contract: Contract[Any], implementation: Implementation, compile_target: Target) -> None:
    from harness.compiling import lane, matrix, plan

    if plan.without_cases([(contract, implementation)]):
        pytest.fail(f"nothing to compile: {contract.name} has no workloads or pinned cases", pytrace=False)
    judged = lane.compiled([(contract, implementation)], [compile_target])
    failures = [one for one in judged if one.judgement.failing]
    if failures:
        pytest.fail("\n".join(matrix.failure_line(one) for one in failures), pytrace=False)
