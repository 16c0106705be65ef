"""Run one printed case again, through every check and every configuration."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from textwrap import indent
from typing import TYPE_CHECKING, Any

from harness import cases, selection
from harness.contract import Contract, Implementation
from harness.discover import SetupError
from harness.elsewhere import check_elsewhere, others, virtual_lane
from harness.lanes import VirtualLane
from harness.outcome import CaseResult, ContractError
from harness.report.summary import counted
from harness.run import check_case, check_policies, check_rejections, with_race
from harness.vast import PROGRAMS, check_vast

if TYPE_CHECKING:
    from harness.traffic.record import Record

_POLICY = re.compile(r"\s*Policy\(name=(?P<quote>['\"])(?P<name>.*?)(?P=quote)")
_REJECTION = re.compile(r"\s*Rejection\(label=(?P<quote>['\"])(?P<label>.*?)(?P=quote)")


def run(
    contract: str,
    text: str,
    *,
    impl: str | None,
    target: str | None = None,
    record: Record | None = None,
    write: Callable[[str], object],
) -> int:
    """Replay ``text``, a case, a policy or a rejection as reports print them, and return the number of violations.

    ``impl`` chooses implementations as ``selection.pairs`` does; ``target`` is what the virtual GPU is to be, and
    ``record`` what launches are to move. An operation that the virtual GPU is not proven to model counts as a
    violation. Raises SetupError for a text that is no case of the contract, and for an unknown target.
    """
    found = 0
    lane = replace(virtual_lane(None if target is None else selection.virtual_target(target)), record=record)
    for owner, implementation in selection.pairs((contract,), impl):
        try:
            result, ran = _result(owner, implementation, text, lane)
        except (ValueError, ContractError) as error:
            raise SetupError(f"{error}") from error
        found += len(result.violations) + len(result.untrusted)
        for violation in result.violations:
            write(f"FAIL {owner.name} {implementation.name} {violation.check}\n")
            write(indent(violation.message.rstrip(), "    ") + "\n")
        for operation in sorted(result.untrusted):
            write(f"UNTRUSTED {owner.name} {implementation.name}: {operation}\n")
        if not result.violations and not result.untrusted:
            write(f"PASS {owner.name} {implementation.name}: {ran}\n")
    return found


def _result(
    owner: Contract[Any], implementation: Implementation, text: str, lane: VirtualLane
) -> tuple[CaseResult, str]:
    """The result of one replay, and what ran, in words."""
    if (match := _POLICY.match(text)) is not None:
        policies = owner.policies()
        chosen = [policy for policy in policies if policy.name == match["name"]]
        if not chosen:
            names = ", ".join(policy.name for policy in policies) or "none"
            raise SetupError(f"{owner.name} has no policy called {match['name']!r}; there are: {names}")
        return check_policies(chosen), "holds"
    if (match := _REJECTION.match(text)) is None:
        case = cases.parse(owner, text)
        if case in owner.vast:
            return check_vast(owner, implementation, case, lane), f"{PROGRAMS} programs of each launch"
        result = check_case(owner, implementation, case, lane=lane)
        if not result.of("race"):
            result.violations = [with_race(found, owner, implementation, case, lane) for found in result.violations]
        for target in others(implementation):
            away = check_elsewhere(owner, implementation, case, lane, target)
            result.violations += [v for v in away.violations if not result.of(v.check)]
            result.untrusted |= away.untrusted
        if implementation.capturable is not None:
            # loads the emulated device, which nothing else here needs
            from harness.graphs.check import check_capturable

            linted = check_capturable(owner, implementation, case, profile=lane.profile)
            result.violations += linted.violations
            result.checks_run |= linted.checks_run
            result.untrusted |= linted.untrusted
        ran = f"{counted(len(result.checks_run), 'check')}, {counted(result.configs, 'configuration')}"
        return result, ran
    check = f"rejects:{match['label']}"
    result = check_rejections(owner, implementation, lane=lane)
    if check not in result.checks_run:
        labels = ", ".join(rejection.label for rejection in owner.rejects())
        raise SetupError(f"{owner.name} rejects nothing called {match['label']!r}; there are: {labels}")
    result.violations = result.of(check)
    return result, "refused before any launch"
