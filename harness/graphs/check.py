"""The check ``capturable`` of ``verify``: the lint on the cases that an implementation declares."""

from __future__ import annotations

from typing import Any

import torch

from harness.contract import Contract, Implementation
from harness.device.targets import TARGETS
from harness.graphs.cases import graph_cases, other_size
from harness.graphs.lint import capture_lint
from harness.outcome import CaseResult, ContractError, Violation, described
from harness.poison import Poison

CHECK = "capturable"
_CPU = torch.device("cpu")


def check_capturable(
    contract: Contract[Any], implementation: Implementation, case: Any, *, profile: str = "sm_120"
) -> CaseResult:
    """Return a violation for each line of a launch on ``case`` that a CUDA graph cannot hold.

    The launch is linted as on ``profile``, or, if the implementation runs on some targets only and that is none of
    them, as on the first of those.  With something that the emulation lacks the check is in ``untrusted`` and has no
    verdict.  Raises ContractError where the contract's inputs fail.
    """
    result = CaseResult()
    others = other_size(graph_cases(contract, implementation), case)
    try:
        given, *rest = (contract.inputs(one, _CPU, Poison()) for one in (case, *others))
    except (MemoryError, ContractError):
        raise
    except Exception as error:
        raise ContractError(f"inputs of contract {contract.name} failed on {case!r}: {described(error)}") from error
    lint = capture_lint(implementation.launch, given, target=_target(implementation, profile), others=rest)
    if lint.unsupported:
        result.untrusted = set(lint.unsupported)
        return result
    result.checks_run.add(CHECK)
    for finding in lint.findings:
        result.violations.append(Violation(CHECK, str(finding), site=finding.site))
    return result


def _target(implementation: Implementation, profile: str) -> str:
    able = [TARGETS[marker].arch for marker in implementation.requires.targets]
    return able[0] if able and profile not in able else profile
