"""Which mutants a sample holds: those by which a feature of a contract, or a check, is all that finds them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.contract import Policy
from harness.mutation import sample
from harness.mutation.judge import Judging, Trusted
from harness.mutation.plan import Unit, label
from harness.mutation.results import Status
from harness.mutation.sample import Entry
from harness.mutation.session import Outcome, Progress, Session, in_time, killed
from harness.mutation.source import Mutant

#: Seconds of a processor in which a mutant has to be killed to be looked at, and that the sample spends on one.
LOOK_SECONDS, KEEP_SECONDS = 6.0, 1.0
#: Checks that compare with what is committed beside the kernels, which changes with them.
_RECORDED = ("traffic",)


@dataclass(frozen=True)
class _Candidate:
    mutant: Mutant
    outcome: Outcome


def size(mutants: int) -> int:
    """Return how many of a kernel's mutants a sample holds: about a hundred of twenty kernels."""
    return max(2, math.ceil(math.sqrt(mutants) / 3))


def renewed(
    session: Session, name: str, entries: Iterable[Entry], pool: int | None, operators: Sequence[str] = ()
) -> list[Entry]:
    """Return the sample of target ``name``: those of ``entries`` that still are killed, and drawn ones for others.

    ``pool`` mutants are looked at, None for all, each by every unit that may tell more about it.  With ``operators``
    they are of those, and what tells something new is drawn beside a full sample, too, half as many again; new is what
    no kept mutant of these operators tells, as a need that another kind of fault has may be there by coincidence.
    """
    made = sample.once(session.mutants(name))
    kept = [again for one in entries if one.kernel == name and (again := _again(session, one, made)) is not None]
    wanted = size(len(session.mutants(name)))
    if operators:
        wanted = len(kept) + math.ceil(wanted / 2)
    if len(kept) >= wanted:
        return kept
    known = {one.mark for one in kept}
    asked = [mark for mark, one in made.items() if mark not in known and (not operators or one.operator in operators)]
    left = sorted(asked)[:pool]
    found = [candidate for mark in left if (candidate := _looked_at(session, name, made[mark])) is not None]
    levels: dict[str, float] = {}
    _cover(levels, [one.needs for one in kept if not operators or one.operator in operators])
    while found and len(kept) < wanted:
        cases = {one.case for one in kept}
        best = max(found, key=lambda one: (_gain(levels, one.outcome.needs), label(_unit(one)) not in cases))
        found.remove(best)
        if operators and not _gain(levels, best.outcome.needs):
            break
        if (line := _line(session, name, best)) is not None:
            kept.append(line)
            _cover(levels, [line.needs])
    return kept or [sample.none(name, len(left))]


def _again(session: Session, one: Entry, made: dict[str, Mutant]) -> Entry | None:
    """Return ``one`` if its mutant is still there and still killed, by its unit or by another."""
    if one.mark not in made:
        return None
    mutant, unit = made[one.mark], session.unit(one.kernel, one.case, deep=one.deep)
    own = [] if unit is None else [unit]
    for found in (own, session.units(one.kernel)):
        outcome = session.first_kill(one.kernel, mutant, found, LOOK_SECONDS)
        if outcome.status is Status.KILLED and outcome.check not in _RECORDED:
            unit = _unit_of(outcome)
            return replace(one, check=outcome.check, case=label(unit), deep=unit.deep)
    return None


def _looked_at(session: Session, name: str, mutant: Mutant) -> _Candidate | None:
    outcome = session.tried(name, mutant, session.units(name), _search)
    # a process that ends may do so for another reason, and a launch that raises may be one that Triton refuses
    if outcome.status is not Status.KILLED or (mutant.device and outcome.check == "raises"):
        return None
    return _Candidate(mutant, outcome)


def _line(session: Session, name: str, found: _Candidate) -> Entry | None:
    """Return ``found`` as an entry, None where its unit alone does not kill it, or not fast."""
    unit = _unit(found)
    alone = session.first_kill(name, found.mutant, [unit], math.inf)
    if alone.status is not Status.KILLED or alone.cpu > KEEP_SECONDS:
        return None
    needs = found.outcome.needs
    return sample.entry(name, found.mutant, check=alone.check, case=label(unit), deep=unit.deep, needs=needs)


def _unit(found: _Candidate) -> Unit:
    return _unit_of(found.outcome)


def _unit_of(outcome: Outcome) -> Unit:
    assert outcome.unit is not None
    return outcome.unit


def _gain(levels: dict[str, float], needs: Sequence[str]) -> float:
    """Return how much better known it is, with one more mutant, that everything is needed."""
    return sum(max(0.0, 1 / len(needs) - levels.get(need, 0.0)) for need in needs)


def _cover(levels: dict[str, float], chosen: Iterable[Sequence[str]]) -> None:
    """Raise ``levels``: a mutant that only one feature finds says that it is needed, one of two says half of it."""
    for needs in chosen:
        for need in needs:
            levels[need] = max(levels.get(need, 0.0), 1 / len(needs))


def _search(judging: Judging, found: Sequence[Unit], progress: Progress) -> dict[str, Any]:
    """Return the first kill, and what all units that kill have in common.

    Policies come first, where there are any.  Values of cases come next: a unit whose case has all that the kills have
    in common so far tells nothing more.  Where values say nothing the first kill by anything else has its check.
    """
    until = time.process_time() + LOOK_SECONDS
    for unit in in_time([unit for unit in found if isinstance(unit.case, Policy)], until):
        if (kill := judging.run([unit], Trusted(), progress)) is not None:
            return {**killed(kill), "needs": [f"{unit.contract.name}: check {kill.violation.check}"]}
    values = [unit for unit in found if _is_values(unit)]
    first: dict[str, Any] = {}
    common: frozenset[str] | None = None
    for unit in in_time(values, until):
        if common is not None and common <= _features(unit):
            continue
        kill = judging.run([unit], Trusted(), progress)
        if kill is not None and kill.violation.check not in _RECORDED:
            first = first or killed(kill)
            common = _features(unit) if common is None else common & _features(unit)
    if first:
        return {**first, "needs": sorted(common or ())}
    for unit in in_time([unit for unit in found if not _is_values(unit)], until):
        kill = judging.run([unit], Trusted(), progress)
        if kill is not None and kill.violation.check not in _RECORDED:
            return {**killed(kill), "needs": [f"{unit.contract.name}: check {kill.violation.check}"]}
    return {"status": Status.SURVIVED}


def _is_values(unit: Unit) -> bool:
    return not (unit.case is None or unit.deep or unit.target or unit.case in unit.contract.vast)


def _features(unit: Unit) -> frozenset[str]:
    return frozenset(f"{unit.contract.name}: {feature}" for feature in unit.contract.features(unit.case))
