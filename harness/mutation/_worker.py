"""A warm process that judges one mutant after the other, each in a fork of itself.

Reads lines of JSON from standard input (first a setup, then mutants) and writes lines of JSON to a pipe.  A fork that
crashes, hangs or fills the memory costs its mutant only.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.mutation.fork import Fork
from harness.mutation.results import Status, Told

#: A unit that takes this many times what the original takes may be a hang.
UNIT_FACTOR = 10.0
#: Seconds for the comparison of a survivor with the original, and those in which programs are compiled for it.
COMPARE_SECONDS, PATIENCE = 240.0, 100.0


def main(pipe: int) -> None:
    """Serve until standard input ends."""

    def send(**message: Any) -> None:
        os.write(pipe, json.dumps(message).encode() + b"\n")

    lines = iter(sys.stdin)
    worker = Worker.load(json.loads(next(lines)))
    send(kind="ready", cases=len(worker.units), judges=worker.judges, red=worker.news())
    for line in lines:
        send(kind="result", **worker.judge(json.loads(line)), red=worker.news())


@dataclass
class Worker:
    """One target with what is known about its unmutated implementations."""

    pairs: list[Any]
    units: list[Any]
    lane: Any
    deadline: float
    silence: float
    trusted: Any
    oracles: Any
    order: Any
    baseline: Any
    seconds: dict[int, float] = field(default_factory=dict)
    cpu: float = 0.0
    judging: Any = None
    modules: tuple[str, ...] = ()
    kernels: dict[Any, frozenset[str]] = field(default_factory=dict)
    tool: Any = None
    red: list[dict[str, str]] = field(default_factory=list)
    judges: bool = True
    #: Number of a unit that ended a mutant's process -> whether the original comes through it in such a process.
    fits: dict[int, bool] = field(default_factory=dict)

    @cached_property
    def digests(self) -> Any:
        """Digests of the original's jitted functions."""
        from harness.mutation import frontend

        return frontend.digests(sys.modules[name] for name in self.modules)

    @cached_property
    def launches(self) -> Any:
        """What the original launches."""
        from harness.mutation import launched
        from harness.mutation.install import current

        return launched.launched(self.pairs, current)

    @classmethod
    def load(cls, setup: dict[str, Any]) -> Worker:
        """Import everything that forks will need, and run the first units of the original."""
        from harness import discover

        # first: what it refuses shows before seconds of imports
        discover.load(setup["modules"], folder=Path(setup["folder"]))
        from harness import selection
        from harness.lanes import VirtualLane
        from harness.mutation import original, styles
        from harness.mutation.judge import Oracles, Trusted
        from harness.mutation.plan import Order
        from harness.traffic import record

        pairs = [
            (contract, implementation)
            for contract, implementation in selection.pairs(setup["contracts"])
            if [contract.name, implementation.name] in setup["pairs"]
        ]
        kept = record.read(Path(setup["folder"]))
        lane, oracles = VirtualLane(setup["profile"], record=kept), Oracles()
        style = styles.make(setup["style"], pairs, examples=setup["examples"], seed=setup["seed"])
        judging = style.judging
        worker = cls(
            pairs=pairs,
            units=style.units,
            judging=judging,
            lane=lane,
            deadline=setup["deadline"],
            silence=setup["silence"],
            trusted=Trusted(),
            oracles=oracles,
            order=Order(learns=not setup.get("in_order", False)),
            baseline=lambda: judging(lane, oracles, lambda implementation: implementation),
        )
        if setup["style"] in styles.TOOLS:
            from harness.mutation.reach import Reach

            worker.tool = Reach.of(judging(lane, oracles, lambda implementation: implementation), worker.units)
            worker.units, worker.trusted = worker.tool.units, worker.tool.trusted
        else:
            for unit in worker.units[: setup["warm"]]:
                worker.ask_original(unit)
            if setup["first"]:
                original.ask_pinned(worker.units, worker.baseline, worker.ask_original)
        worker.judges = original.judges(worker.units, worker.trusted, worker.ask_original)
        gc.collect()
        gc.freeze()
        return worker

    def ask_original(self, unit: Any) -> None:
        """Find out which checks pass on the original where ``unit`` runs."""
        from harness.mutation.judge import place
        from harness.mutation.plan import label

        if place(unit) not in self.trusted.green:
            began = time.process_time()
            result = self.baseline().result(unit.contract, unit.implementation, unit.case, unit.target)
            self.trusted.add(place(unit), result)
            self.seconds[unit.number] = time.process_time() - began
            self.red += [
                {"check": found.check, "case": found.case or label(unit), "message": found.message}
                for found in result.violations
            ]
            # pools of gibibytes of address space may hang in cycles, and a fork has to find room for them again
            gc.collect()

    def news(self) -> list[dict[str, str]]:
        """Return what failed on the original since this was called last."""
        found, self.red = self.red, []
        return found

    def judge(self, mutant: dict[str, Any]) -> dict[str, Any]:
        """Return what became of ``mutant``; a kill counts only by a check that passes on the original."""
        from harness.mutation.plan import label
        from harness.mutation.wanted import Wanted

        began, self.cpu = time.monotonic(), 0.0
        if self.tool is not None and (words := self.tool.refusal(mutant["module"])):
            return {"status": Status.SKIPPED, "reason": words, "key": mutant["key"], "seconds": 0.0, "cpu": 0.0}
        told = Told(**mutant.get("told", {}))
        wanted = Wanted(
            told=told,
            module=mutant["module"],
            device=mutant["device"],
            orders=mutant.get("orders", False),
            patience=min(max(PATIENCE, self.deadline), COMPARE_SECONDS / 2),
            source=mutant["source"],
            modules=tuple(mutant["modules"]),
        )
        while True:
            found = self._fork(wanted, mutant["function"])
            number, status = found.pop("unit", None), Status(found["status"])
            if number is None or not status.killed:
                break
            unit = self.units[number]
            found = {"case": label(unit), **found}
            if status is not Status.KILLED and not self._comes_through(unit):
                continue
            # a contract that fails on the original too ends this worker: that is no mutant's doing
            self.ask_original(unit)
            if status is Status.KILLED and not self._counts(unit, found["check"]):
                # it is known now that this check says nothing here: the next fork passes it over
                continue
            self.order.killed(mutant["function"], unit)
            break
        found |= {"seconds": round(time.monotonic() - began, 3), "cpu": round(self.cpu, 3)}
        return {**found, "key": mutant["key"], "in_order": not self.order.learns}

    def _comes_through(self, unit: Any) -> bool:
        """Return whether the original survives ``unit`` under the limits of a mutant; where not, nobody is asked it."""
        from harness.mutation.plan import label

        if unit.number not in self.fits:

            def work(send: Callable[..., None]) -> None:
                send(unit=unit.number)
                self.baseline().result(unit.contract, unit.implementation, unit.case, unit.target)
                send(result={"status": Status.SURVIVED})

            fork = Fork(work)
            found = fork.watch(self._allowed)
            # what it raises is a mistake in the contract, which asking the original here will say
            self.fits[unit.number] = found["status"] == Status.SURVIVED or bool(fork.failure)
            if not self.fits[unit.number]:
                self.red.append({"check": found["check"], "case": label(unit), "message": found["message"]})
        return self.fits[unit.number]

    def _counts(self, unit: Any, check: str) -> bool:
        from harness.mutation.judge import place

        return bool(self.trusted.counts(place(unit), check))

    def _fork(self, wanted: Any, function: str) -> dict[str, Any]:
        from harness.mutation.child import judged
        from harness.mutation.judge import Judging, place
        from harness.mutation.plan import concerning
        from harness.mutation.wanted import Bench

        # before the fork: the next one needs it too
        self.modules = wanted.modules
        contracts = self.judging is Judging
        launches = self.launches if contracts and not wanted.device else {}
        digests = self.digests if (contracts or self.tool is not None) and wanted.device else {}

        units = [unit for unit in concerning(self.units, wanted.module) if self.fits.get(unit.number, True)]

        def work(send: Callable[..., None]) -> None:
            bench = Bench(
                lane=self.lane,
                pairs=self.pairs,
                units=self.order.of(function, units, wanted.told, turns=wanted.orders),
                judging=self.judging,
                trusted=self.trusted,
                oracles=self.oracles,
                seconds=self.deadline,
                launches=launches,
                digests=digests,
                in_order=not self.order.learns,
                kernels=self.kernels,
                reached=None if self.tool is None else self.tool.kernels,
                launched=lambda unit, kernels: send(ran=unit.number, kernels=sorted(kernels)),
                progress=lambda unit: send(unit=None if unit is None else unit.number),
            )
            send(result=judged(wanted, bench))

        fork = Fork(work)
        found = fork.watch(self._allowed)
        self.cpu += fork.cpu
        if wanted.device:
            # host code decides what is launched: of a mutant of it this would say nothing
            self.kernels |= {place(self.units[number]): frozenset(names) for number, names in fork.kernels.items()}
        return found

    def _allowed(self, number: int | None) -> float:
        """Seconds after which a unit hangs; None is the comparison of a survivor with the original."""
        if number is None:
            return COMPARE_SECONDS
        return max(self.silence, UNIT_FACTOR * self.seconds.get(number, 0.0))


if __name__ == "__main__":
    main(int(sys.argv[1]))
