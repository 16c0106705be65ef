"""Outputs of more than 2^31 elements: a few programs of each launch show whether offsets wrap."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.contract import Contract, Implementation
from harness.lanes import VirtualLane
from harness.outcome import CaseResult, Violation, described, site
from harness.poison import Poison

#: Programs of each grid: enough that some work on the second half of what is there.
PROGRAMS = 32


def check_vast(contract: Contract[Any], implementation: Implementation, case: Any, lane: VirtualLane) -> CaseResult:
    """Return the fault, if there is one, of some programs of the launches of ``case``, one of ``contract.vast``.

    Nothing is committed of memory that no program touches: inputs repeat one row.
    """
    inputs = contract.inputs(case, lane.device, Poison())
    execution = replace(lane, sample=PROGRAMS).run(implementation.launch, inputs)
    result = CaseResult(untrusted=set(execution.untrusted))
    if execution.unsupported is not None:
        result.untrusted.add(execution.unsupported)
        return result
    if isinstance(execution.error, RuntimeError) and "allocate memory" in str(execution.error):
        # address space that this machine does not give says nothing about the implementation
        return result
    result.checks_run |= {"memory", "raises"}
    if execution.error is not None:
        check, said = ("memory", str) if execution.fault else ("raises", described)
        message = f"[{PROGRAMS} programs of each launch] {said(execution.error)}"
        result.violations.append(Violation(check, message, site=site(execution.error)))
    return result
