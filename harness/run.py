"""Run one implementation on one case and check everything its contract promises: the whole flow in one place."""

from __future__ import annotations

import re
from typing import Any

from harness.contract import Contract, Implementation
from harness.lanes import Lane, NoRoom, VirtualLane
from harness.outcome import CaseResult, Violation, described
from harness.poison import HUGE, NAN
from harness.trial import Trial


def check_case(
    contract: Contract[Any],
    implementation: Implementation,
    case: Any,
    *,
    lane: Lane | None = None,
    profile: str = "sm_120",
    only: str | None = None,
    config: int | None = None,
    every_config: bool = True,
) -> CaseResult:
    """Return every violation of ``case``; the result is the same each time.

    ``lane`` is the virtual GPU with ``profile`` by default.  ``only`` limits the work to what one check id needs.
    ``config`` fixes the autotune configuration; otherwise the first runs through all checks and the others through
    those that need one launch: all of them, or with ``every_config=False`` one, which the case picks.
    A launch that ends in a fault ends the case: later checks do not run and are not in ``checks_run``.  Nothing runs
    where the lane has no room for the case: the result's ``no_room`` says so.
    Raises ContractError where the contract itself fails: its inputs or oracle raise, or an oracle writes to an input.
    """
    trial = Trial(contract, implementation, case, lane or VirtualLane(profile), only)
    try:
        with trial.lane.room(contract, case):
            _run(trial, config, every_config)
    except NoRoom as error:
        trial.result.no_room = str(error)
    return trial.result


def _run(trial: Trial, config: int | None, every_config: bool) -> None:
    # kernel first: its new memory must not be what an oracle freed, which would hold the answer
    first = trial.first_launch(config or 0)
    if first is None:
        return
    trial.run_oracles()
    outputs = trial.judge(first, config or 0)
    for other in trial.other_configs(first, fixed=config is not None, every=every_config):
        trial.judge_config(other)
    if outputs is None:
        return
    for pattern in (NAN, HUGE):
        trial.check_content(outputs, pattern)
    if trial.contract.deterministic:
        trial.check_repeat(outputs)
    interleavings = trial.implementation.interleavings
    if interleavings is not None:
        for seed in range(interleavings.seeds):
            trial.check_interleaving(outputs, seed)
    for relation in trial.contract.relations:
        trial.check_relation(outputs, relation)


def check_rejections(
    contract: Contract[Any],
    implementation: Implementation,
    *,
    lane: Lane | None = None,
    profile: str = "sm_120",
) -> CaseResult:
    """Return a violation ``rejects:LABEL`` for each illegal call that is not refused before any launch.

    A refusal is a ValueError or TypeError whose message contains the argument's name as a word.
    """
    result = CaseResult()
    used = lane or VirtualLane(profile)
    for rejection in contract.rejects():
        check = f"rejects:{rejection.label}"
        result.checks_run.add(check)
        execution = used.run(implementation.launch, rejection.inputs())
        result.untrusted |= execution.untrusted
        wanted = f"expected ValueError or TypeError naming {rejection.argument!r} before any launch"
        if execution.error is None:
            happened = "accepted silently"
        elif not isinstance(execution.error, ValueError | TypeError):
            happened = f"raised {described(execution.error)}"
        elif execution.kernels:
            happened = f"launched {execution.kernels} kernels, then raised {described(execution.error)}"
        elif not re.search(rf"\b{re.escape(rejection.argument)}\b", str(execution.error)):
            happened = f"the message does not name it: {described(execution.error)}"
        else:
            continue
        result.violations.append(Violation(check, f"{happened}; {wanted}", case=repr(rejection)))
    return result
