"""One mutant against the units of a plan, until a check fails that passes on the original."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.compare import first_bit_error
from harness.contract import Contract, Implementation, Policy
from harness.device.targets import Target
from harness.elsewhere import as_on
from harness.lanes import Lane, VirtualLane
from harness.mutation.plan import Unit
from harness.outcome import CaseResult, Violation
from harness.poison import HUGE, NAN
from harness.run import check_policies, check_rejections
from harness.traffic.record import CHECK as TRAFFIC
from harness.trial import Trial
from harness.vast import check_vast

#: (implementation, case) of a unit, as text.
Place = tuple[str, str]
#: A case that is being judged, and the stages left of it.
Begun = tuple[Trial, Iterator[bool]]


@dataclass(frozen=True)
class Kill:
    """The violation that gave a mutant away, and where."""

    unit: Unit
    violation: Violation


@dataclass
class Trusted:
    """What passes on the original, as far as it was asked.

    ``green`` holds, for a place that was asked about, the checks that came to a verdict there and passed.  Of other
    places every check is taken to pass until it matters.
    """

    green: dict[Place, frozenset[str]] = field(default_factory=dict)

    def counts(self, place: Place, check: str) -> bool:
        """Whether a failure of ``check`` at ``place`` tells a mutant from the original."""
        known = self.green.get(place)
        return known is None or check in known or (check == "poison:several" and _any_poison(known))

    def add(self, place: Place, result: CaseResult) -> None:
        """Remember what the original did."""
        self.green[place] = frozenset(result.checks_run - {violation.check for violation in result.violations})


def _any_poison(checks: frozenset[str]) -> bool:
    return any(check.startswith("poison:") for check in checks)


class Oracles:
    """What the outputs of a case must be: computed once for all mutants."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[Any, Any, Any]] = {}
        self._plain: dict[tuple[str, str], Any] = {}

    def fill(self, trial: Trial) -> None:
        """Give ``trial`` its oracles."""
        key = (trial.contract.name, repr(trial.case))
        if key not in self._kept:
            trial.run_oracles()
            self._kept[key] = (trial.low, trial.high, trial.magnitude)
        trial.low, trial.high, trial.magnitude = self._kept[key]

    def once(self, contract: str, case: Any, compute: Callable[[], Any]) -> Any:
        """Return what ``compute`` returned for a case the first time."""
        key = (contract, repr(case))
        if key not in self._plain:
            self._plain[key] = compute()
        return self._plain[key]


class Judging:
    """All units of one mutant, or of the original."""

    def __init__(self, lane: Lane, oracles: Oracles, find: Callable[[Implementation], Implementation]) -> None:
        self._lane = lane
        self._oracles = oracles
        self._find = find
        self._begun: dict[Place, Begun] = {}
        #: Outputs of the first launch of every case that came so far.
        self.outputs: dict[Place, dict[str, torch.Tensor]] = {}

    def run(self, units: Iterable[Unit], trusted: Trusted, progress: Callable[[Unit], object]) -> Kill | None:
        """Run ``units`` in their order and return the first violation that counts; says each before it runs."""
        for unit in units:
            progress(unit)
            for violation in self._violations(unit):
                if trusted.counts(place(unit), violation.check):
                    return Kill(unit, violation)
        return None

    def result(
        self, contract: Contract[Any], implementation: Implementation, case: Any, target: Target | None = None
    ) -> CaseResult:
        """Run everything about one case, or its values as on ``target``, or a policy, or illegal calls."""
        if case is None:
            return check_rejections(contract, self._find(implementation), lane=self._lane)
        if isinstance(case, Policy):
            return check_policies((case,))
        if case in contract.vast:
            assert isinstance(self._lane, VirtualLane)
            return check_vast(contract, self._find(implementation), case, self._lane)
        if target is not None:
            return self._elsewhere(contract, implementation, case, target)
        trial, stages = self._trial(contract, implementation, case)
        for _ in stages:
            pass
        del self._begun[str(implementation), repr(case)]
        return trial.result

    def _elsewhere(
        self, contract: Contract[Any], implementation: Implementation, case: Any, target: Target
    ) -> CaseResult:
        assert isinstance(self._lane, VirtualLane)
        trial = Trial(contract, self._find(implementation), case, as_on(self._lane, target))
        first = trial.first_launch(0)
        if first is not None:
            self._oracles.fill(trial)
            trial.judge(first, 0)
        return trial.result

    def _violations(self, unit: Unit) -> Iterator[Violation]:
        alone = unit.case is None or isinstance(unit.case, Policy) or unit.case in unit.contract.vast
        if alone or unit.target is not None:
            yield from self.result(unit.contract, unit.implementation, unit.case, unit.target).violations
            return
        trial, stages = self._trial(unit.contract, unit.implementation, unit.case)
        told = 0
        while True:
            found = trial.result.violations
            yield from _by_weight(found[told:])
            told = len(found)
            values_done = next(stages, None)
            yield from _by_weight(found[told:])
            told = len(found)
            if values_done is None or (values_done and not unit.deep):
                return

    def _trial(self, contract: Contract[Any], implementation: Implementation, case: Any) -> Begun:
        key = (str(implementation), repr(case))
        if key not in self._begun:
            trial = Trial(contract, self._find(implementation), case, self._lane)
            self._begun[key] = trial, self._stages(key, trial)
        return self._begun[key]

    def _stages(self, key: Place, trial: Trial) -> Iterator[bool]:
        """Do one thing after another; yields whether the values of the first launch have been judged."""
        first = trial.first_launch(0)
        if first is None:
            yield True
            return
        self._oracles.fill(trial)
        outputs = trial.judge(first, 0)
        if outputs is not None:
            self.outputs[key] = outputs
        yield True
        for other in trial.other_configs(first, fixed=False, every=False):
            trial.judge_config(other)
            yield True
        if outputs is None:
            return
        if trial.contract.deterministic:
            # of some mutants this alone tells, of most nothing but values
            trial.check_assembly(first, outputs)
            yield False
        for pattern in (NAN, HUGE):
            trial.check_content(outputs, pattern)
            yield False
        if trial.contract.deterministic:
            trial.check_repeat(outputs)
            yield False
        interleavings = trial.implementation.interleavings
        if interleavings is None:
            trial.check_race(first, 0)
            yield False
        for seed in range(0 if interleavings is None else interleavings.seeds):
            trial.check_interleaving(outputs, seed)
            yield False
        for relation in trial.contract.relations:
            trial.check_relation(outputs, relation)
            yield False


def _by_weight(found: Sequence[Violation]) -> list[Violation]:
    """Return what a stage found; what only differs from a record comes last, so that it takes no kill from others."""
    return sorted(found, key=lambda violation: violation.check == TRAFFIC)


def place(unit: Unit) -> Place:
    """Return where ``unit`` runs."""
    where = "" if unit.target is None else f"[as on {unit.target.arch}] "
    return str(unit.implementation), where + repr(unit.case)


def nearest(units: Sequence[Unit], mutated: Judging, original: Judging, *, until: float) -> tuple[str, str]:
    """Return the shortest case on which the outputs of a survivor differ in a bit, and how; empty if there is none.

    No case is looked at after ``until``, seconds of this process.
    """
    values = [unit for unit in units if not (unit.deep or unit.target) and place(unit) in mutated.outputs]
    for done, unit in enumerate(sorted(values, key=lambda unit: (len(unit.name), unit.number))):
        if time.process_time() > until:
            return "", f"changes no bit of an output in {done} of {len(values)} units; time was up"
        original.run([unit], Trusted(), lambda unit: None)
        expected = original.outputs.get(place(unit))
        if expected is not None:
            error = first_bit_error(mutated.outputs[place(unit)], expected, "same as the original's")
            if error is not None:
                return f"{unit.implementation}: {unit.name}", error
    return "", ""
