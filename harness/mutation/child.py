"""What runs in a forked child: one mutant in the place of the original, judged, and compared if it survives."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from harness.mutation import frontend, launched, unseen
from harness.mutation.behind import file_of
from harness.mutation.compared import compared, kernel
from harness.mutation.install import NotImportable, current, installed
from harness.mutation.judge import Judging, Kill, Trusted, nearest, place
from harness.mutation.launched import CHECK
from harness.mutation.plan import Unit, label
from harness.mutation.results import LANES, Status
from harness.mutation.wanted import Bench, Wanted
from harness.traffic.record import CHECK as TRAFFIC

#: Seconds of a processor for the search of a case on which a survivor changes a bit.
NEAREST_SECONDS = 10.0


def judged(wanted: Wanted, bench: Bench) -> dict[str, Any]:
    """Return the fields of a result, and for a kill the number of the unit.

    No unit begins after ``bench.seconds``; ``bench.progress(None)`` is called before what is no unit.
    """
    judging = bench.judging(bench.lane, bench.oracles, current)
    launches, kill = None, None
    # device code has no say in what is launched
    launching = not wanted.device and bench.judging is Judging
    try:
        with installed(wanted.module, wanted.source, wanted.modules):
            recorder = frontend.Recorder(sys.modules[name] for name in wanted.modules)
            if bench.reached is not None and wanted.device and bench.reached.isdisjoint(_differing(wanted, bench)):
                return {"status": Status.SKIPPED, "reason": "launches no kernel that the mutant is in", "units": 0}
            counted = _Counted(bench, _promising(wanted, bench), recorder)
            kill = judging.run(counted.each(), bench.trusted, bench.progress)
            if kill is None and launching:
                # its seconds are not those of the last unit
                bench.progress(None)
                launches = _other_launches(bench)
            bench.progress(None)
            refused = _refusal(kill, recorder) if wanted.device else None
    except NotImportable as error:
        return {"status": Status.INVALID, "reason": str(error), "units": 0}
    if refused is not None:
        return {"status": Status.INVALID, "reason": refused, "units": counted.begun}
    if kill is not None:
        return {**_killed(kill), "units": counted.begun}
    survived: dict[str, Any] = {"status": Status.SURVIVED, "units": counted.begun}
    if bench.judging is not Judging:
        return survived
    if launches is not None:
        return {**survived, **launches}
    if found := compared(wanted, bench, recorder):
        return {**survived, **found}
    if counted.late:
        return {**survived, "message": f"time was up after {counted.begun} of {len(bench.units)} units"}
    original = Judging(bench.lane, bench.oracles, current)
    case, difference = nearest(bench.units, judging, original, until=time.process_time() + NEAREST_SECONDS)
    return {**survived, "nearest": case, "message": difference or _unseen(wanted, bench, counted)}


def _unseen(wanted: Wanted, bench: Bench, counted: _Counted) -> str:
    """Return what is known of a survivor that changes no bit."""
    if wanted.device:
        with installed(wanted.module, wanted.source, wanted.modules):
            changed = _differing(wanted, bench)
        return unseen.launched(counted.ran, changed)
    module = sys.modules[wanted.module]
    lines = unseen.lines(file_of(module).read_text(), wanted.source)

    def run(unit: Unit) -> object:
        return Judging(bench.lane, bench.oracles, current).run([unit], Trusted(), lambda unit: None)

    return unseen.ran([unit for unit, _ in counted.ran], str(module.__file__), lines, run)


class _Counted:
    """The units of a bench for as long as there is time; counts those that began."""

    def __init__(self, bench: Bench, units: Sequence[Unit], recorder: frontend.Recorder) -> None:
        self._bench = bench
        self._units = units
        self._recorder = recorder
        self.begun = 0
        self.late = False
        #: Those that came to an end, and the kernels that they launched.
        self.ran: list[tuple[Unit, frozenset[str]]] = []

    def each(self) -> Iterator[Unit]:
        """Yield the units."""
        for unit in self._units:
            if time.process_time() > self._bench.seconds:
                self.late = True
                return
            self.begun += 1
            self._recorder.names.clear()
            yield unit
            names = frozenset(self._recorder.names)
            self.ran.append((unit, names))
            if place(unit) not in self._bench.kernels:
                self._bench.launched(unit, names)


def _promising(wanted: Wanted, bench: Bench) -> Sequence[Unit]:
    """Return the units of ``bench``, those last that are known to launch no kernel in which the mutant differs."""
    if bench.in_order or not (wanted.device and bench.digests):
        return bench.units
    changed = _differing(wanted, bench)
    return sorted(bench.units, key=lambda unit: bench.kernels.get(place(unit), changed).isdisjoint(changed))


def _differing(wanted: Wanted, bench: Bench) -> frozenset[str]:
    """Return the jitted functions that are others in what is installed, or that call such."""
    now = frontend.digests(sys.modules[name] for name in wanted.modules)
    return frozenset(name for name, digest in now.items() if digest != bench.digests.get(name))


def _killed(kill: Kill) -> dict[str, Any]:
    unit, violation = kill.unit, kill.violation
    return {
        "status": Status.KILLED,
        # a record of what is moved is committed as others are
        "lane": LANES[2] if violation.check == TRAFFIC else LANES[0],
        "check": violation.check,
        "case": violation.case or label(unit),
        "message": violation.message,
        "unit": unit.number,
    }


def _other_launches(bench: Bench) -> dict[str, Any] | None:
    """Return the fields of a kill by what is committed, if what is installed launches something else."""
    found = launched.difference(bench.launches, launched.launched(bench.pairs, current))
    if found is None:
        return None
    return {"status": Status.KILLED, "lane": LANES[2], "check": CHECK, "message": found[0], "case": found[1]}


def _refusal(kill: Kill | None, recorder: frontend.Recorder) -> str | None:
    """Why Triton's compiler refuses the last launch, where that is what the virtual GPU may have stumbled over."""
    if recorder.last is None or (kill is not None and kill.violation.check != "raises"):
        return None
    reason = frontend.refusal(kernel(recorder.last), recorder.last)
    return None if reason is None else f"Triton refuses it: {reason}"
