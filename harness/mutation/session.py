"""One process that has loaded everything once and tries mutants of any kernel, each in a fork."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness import selection
from harness.discover import load
from harness.lanes import VirtualLane
from harness.mutation import generate, targets
from harness.mutation.fork import Fork
from harness.mutation.install import NotImportable, current, installed
from harness.mutation.judge import Judging, Kill, Oracles, Trusted, place
from harness.mutation.plan import Unit, concerning, label, units
from harness.mutation.results import Status
from harness.mutation.source import Mutant
from harness.mutation.targets import Target
from harness.traffic import record

#: Cases drawn beside the pinned ones, and with which seed.
EXAMPLES, SEED = 20, 0
#: Seconds without a word after which a fork hangs.
SILENCE = 30.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one try: the unit that kills and the check, or in ``status`` and ``message`` why there is none.

    ``cpu`` are seconds of a processor; ``needs`` what a search found out about all units that kill.
    """

    status: Status
    unit: Unit | None = None
    check: str = ""
    message: str = ""
    needs: tuple[str, ...] = ()
    cpu: float = 0.0


Progress = Callable[[Unit], object]
#: What a fork does with the mutant installed, saying each unit before it begins: fields of an outcome, the unit by its
#: number.
Work = Callable[[Judging, Sequence[Unit], Progress], dict[str, Any]]


class Session:
    """The kernels that ``modules`` register, on the virtual GPU; loads them when it is made.

    Raises SetupError for a module that cannot be loaded and a record of traffic that is none.
    """

    def __init__(self, modules: Sequence[str], folder: Path) -> None:
        # a fork inherits no threads: there must be none
        os.environ["OMP_NUM_THREADS"] = "1"
        load(modules, folder=folder)
        self._folder = folder
        self._pairs = selection.pairs()
        self._lane, self._oracles = VirtualLane("sm_120", record=record.read(folder)), Oracles()
        self._sound: dict[tuple[tuple[str, str], bool], bool] = {}
        self._made: dict[str, list[Mutant]] = {}

    @cached_property
    def targets(self) -> dict[str, Target]:
        """Name to target, of all kernels."""
        return {target.name: target for target in targets.targets(self._pairs, self._pairs)}

    @cached_property
    def _units(self) -> list[Unit]:
        return units(self._pairs, EXAMPLES, SEED)

    def mutants(self, name: str) -> list[Mutant]:
        """Return all mutants of a target."""
        if name not in self._made:
            target = self.targets[name]
            sources = [targets.source(module, self._folder) for module in target.modules]
            self._made[name] = targets.changing(generate.mutants(sources), target.pairs)
        return self._made[name]

    def units(self, name: str) -> list[Unit]:
        """Return all that judges a target, in the order of the plan."""
        target = self.targets[name]
        own = {str(implementation) for _, implementation in target.pairs}
        return concerning([unit for unit in self._units if str(unit.implementation) in own], target.modules[0])

    def unit(self, name: str, case: str, *, deep: bool) -> Unit | None:
        """Return the unit of a target called ``case``; None where nothing draws or pins that case any more."""
        return next((unit for unit in self.units(name) if label(unit) == case and unit.deep == deep), None)

    def sound(self, unit: Unit) -> bool:
        """Whether the original passes ``unit``; no mutant is killed by another."""
        key = (place(unit), unit.deep)
        if key not in self._sound:
            original = Judging(self._lane, self._oracles, current)
            self._sound[key] = original.run([unit], Trusted(), lambda unit: None) is None
            gc.collect()
        return self._sound[key]

    def first_kill(self, name: str, mutant: Mutant, found: Sequence[Unit], seconds: float) -> Outcome:
        """Return the first of ``found`` that kills ``mutant`` and that the original passes.

        None begins after ``seconds`` of a processor.  A process that ends is a kill by the unit on which it did.
        """
        left, cpu = list(found), 0.0
        while True:
            outcome = self.tried(name, mutant, left, lambda judging, some, say: _first(judging, some, say, seconds))
            cpu += outcome.cpu
            if outcome.unit is None or self.sound(outcome.unit):
                return Outcome(**{**vars(outcome), "cpu": cpu})
            left.remove(outcome.unit)

    def tried(self, name: str, mutant: Mutant, found: Sequence[Unit], work: Work) -> Outcome:
        """Return what ``work`` says of ``mutant`` in a process of its own."""
        by_number = {unit.number: unit for unit in found}

        def in_fork(send: Callable[..., None]) -> None:
            judging = Judging(self._lane, self._oracles, current)

            def progress(unit: Unit) -> None:
                send(unit=unit.number)

            try:
                with installed(mutant.module, mutant.source, self.targets[name].loaded):
                    send(result=work(judging, found, progress))
            except NotImportable as error:
                send(result={"status": Status.INVALID, "message": str(error)})

        fork = Fork(in_fork)
        plain = fork.watch(lambda number: SILENCE)
        number = plain.get("unit")
        return Outcome(
            status=Status(plain["status"]),
            unit=None if number is None else by_number[number],
            check=plain.get("check", ""),
            message=plain.get("message", ""),
            needs=tuple(plain.get("needs", ())),
            cpu=fork.cpu,
        )


def _first(judging: Judging, found: Sequence[Unit], progress: Progress, seconds: float) -> dict[str, Any]:
    kill = judging.run(in_time(found, time.process_time() + seconds), Trusted(), progress)
    return {"status": Status.SURVIVED} if kill is None else killed(kill)


def killed(kill: Kill) -> dict[str, Any]:
    """Return ``kill`` as plain fields."""
    violation = kill.violation
    return {
        "status": Status.KILLED,
        "unit": kill.unit.number,
        "check": violation.check,
        "message": violation.message,
    }


def in_time(found: Sequence[Unit], until: float) -> Iterator[Unit]:
    """Yield units for as long as this process has not used more than ``until`` seconds of a processor in its life."""
    for unit in found:
        if time.process_time() > until:
            return
        yield unit
