"""Run one implementation on one case and check everything its contract promises: the whole flow in one place."""

from __future__ import annotations

import contextvars
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.blame import blamed_on
from harness.contract import Contract, Implementation, Policy
from harness.lanes import Lane, NoRoom, VirtualLane
from harness.outcome import CaseResult, Violation, described
from harness.poison import HUGE, NAN
from harness.trial import Trial

if TYPE_CHECKING:
    from harness.compiling.acceptance import Acceptance

#: Checks whose failures a race between programs may be behind.
RACE_SHOWS = ("oracle", "written", "poison", "unwritten", "repeat", "relation", "interleaving")


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
    asks: Acceptance | None = None,
    races: bool = True,
) -> CaseResult:
    """Return every violation of ``case``; the result is the same each time.

    ``lane`` is the virtual GPU with ``profile`` by default.  ``only`` limits the work to what one check id needs.
    ``config`` fixes the autotune configuration; otherwise the first runs through all checks and the others through
    those that need one launch: all of them, or with ``every_config=False`` one, which the case picks.
    On the virtual GPU, Triton is asked whether it compiles what these launch: ``asks`` says how much of it, by default
    all; and where ``races``, programs that touch an element with nothing to order them are looked for in a launch of
    its own, unless the implementation says how itself, with Interleavings.
    A launch that ends in a fault ends the case: later checks do not run and are not in ``checks_run``.  Nothing runs
    where the lane has no room for the case: the result's ``no_room`` says so.
    Raises ContractError where the contract itself fails: a function of its own raises, its inputs are not the same
    twice, its oracle writes to one, or returns other outputs than the tolerances are for.
    """
    trial = Trial(contract, implementation, case, lane or VirtualLane(profile), only)
    if isinstance(trial.lane, VirtualLane) and only in (None, "compiles"):
        trial.asks = asks or acceptance(implementation, trial.lane.profile)
    try:
        with trial.lane.room(contract, case):
            _run(trial, config, every_config, races and implementation.interleavings is None)
    except NoRoom as error:
        trial.result.no_room = str(error)
    return trial.result


def _run(trial: Trial, config: int | None, every_config: bool, races: bool) -> None:
    # kernel first: its new memory must not be what an oracle freed, which would hold the answer
    first = trial.first_launch(config or 0)
    if first is None:
        return
    if races:
        trial.check_race(first, config or 0)
    if trial.only in ("compiles", "device", "race", "traffic"):
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
        trial.check_assembly(first, outputs)
        trial.check_repeat(outputs)
    interleavings = trial.implementation.interleavings
    if interleavings is not None:
        for seed in range(interleavings.seeds):
            trial.check_interleaving(outputs, seed)
    for relation in trial.contract.relations:
        trial.check_relation(outputs, relation)


def acceptance(implementation: Implementation, profile: str, *, most: int | None = None) -> Acceptance:
    """Return who knows whether Triton compiles the launches of ``implementation``, as ``Acceptance`` has it.

    It is asked for ``profile``, or for the first target that the implementation is for where that is another.
    """
    # loads Triton, which nothing else here needs before a launch
    from harness.compiling.acceptance import Acceptance
    from harness.device.targets import TARGETS, target_of

    target, wanted = target_of(profile), implementation.requires.targets
    return Acceptance(target if not wanted or target.marker in wanted else TARGETS[wanted[0]], most=most)


def with_race(
    violation: Violation, contract: Contract[Any], implementation: Implementation, case: Any, lane: Lane
) -> Violation:
    """Return ``violation`` with the race between programs that may be behind it in its message, if there is one."""
    if not isinstance(lane, VirtualLane) or violation.check.partition(":")[0] not in RACE_SHOWS:
        return violation
    race = Trial(contract, implementation, case, lane).race(violation.config)
    if race is None:
        return violation
    return replace(violation, message=f"{violation.message.rstrip()}\nand its programs race: {race}")


def check_rejections(
    contract: Contract[Any],
    implementation: Implementation,
    *,
    lane: Lane | None = None,
    profile: str = "sm_120",
) -> CaseResult:
    """Return a violation ``rejects:LABEL`` for each illegal call that is not refused before any launch.

    A refusal is a ValueError or TypeError whose message contains the argument's name as a word.
    Raises ContractError where the contract cannot make an illegal call.
    """
    result = CaseResult()
    used = lane or VirtualLane(profile)
    with blamed_on(contract, "rejects"):
        rejections = tuple(contract.rejects())
    for rejection in rejections:
        check = f"rejects:{rejection.label}"
        result.checks_run.add(check)
        with blamed_on(contract, f"the illegal call {rejection.label!r}"):
            inputs = rejection.inputs()
        execution = used.run(implementation.launch, inputs)
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


def check_policies(policies: Iterable[Policy]) -> CaseResult:
    """Return a violation ``policy:NAME`` for each of ``policies`` that does not hold: the first thing that is wrong."""
    result = CaseResult()
    for policy in policies:
        check = f"policy:{policy.name}"
        result.checks_run.add(check)
        try:
            # what is in force in a context variable afterwards is nobody else's
            wrong = contextvars.copy_context().run(_first_wrong, policy)
        except Exception as error:
            wrong = f"raised {described(error)}"
        if wrong is not None:
            result.violations.append(Violation(check, wrong, site=check, case=repr(policy)))
    return result


def _first_wrong(policy: Policy) -> str | None:
    return next(iter(policy.right()), None)
