"""What runs in a forked child: one mutant in the place of the original, judged, and compared if it survives."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.lanes import Lane
from harness.mutation import dead_lanes, frontend, ir
from harness.mutation.generate import changed_fills, same_bytecode
from harness.mutation.install import NotImportable, current, installed
from harness.mutation.judge import Judging, Kill, Oracles, Trusted, nearest
from harness.mutation.launched import CHECK, difference, launched
from harness.mutation.plan import Unit
from harness.mutation.results import LANES, Status
from harness.mutation.targets import Pair, file_of

#: Seconds that a survivor and the original may take to be compiled to machine code.
COMPARE_SECONDS = 40.0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A mutant of a loaded module; ``modules`` are all that belong to its kernel, used ones before users."""

    module: str
    device: bool
    source: str
    modules: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What judges: a lane, the units in their order, and what is known about the original.

    With another kind of ``judging`` than the contracts' a survivor is one, whatever else could be said of it.
    """

    lane: Lane
    pairs: Sequence[Pair]
    units: Sequence[Unit]
    trusted: Trusted
    oracles: Oracles
    until: float
    progress: Callable[[Unit | None], object]
    judging: type[Judging] = Judging


def judged(wanted: Wanted, bench: Bench) -> dict[str, Any]:
    """Return the fields of a result, and for a kill the number of the unit.

    No unit begins after ``bench.until``; ``bench.progress(None)`` is called when the units are over.
    """
    judging = bench.judging(bench.lane, bench.oracles, current)
    counted = _Counted(bench)
    try:
        with installed(wanted.module, wanted.source, wanted.modules):
            recorder = frontend.Recorder(sys.modules[name] for name in wanted.modules)
            kill = judging.run(counted, bench.trusted, bench.progress)
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
    # device code has no say in what is launched
    if not wanted.device and (found := _other_launches(wanted, bench)):
        return {**survived, **found}
    if reason := _equal(wanted, recorder):
        return {**survived, "status": Status.EQUIVALENT, "reason": reason}
    if counted.late:
        return {**survived, "message": f"time was up after {counted.begun} of {len(bench.units)} units"}
    case, difference = nearest(bench.units, judging, Judging(bench.lane, bench.oracles, current))
    return {**survived, "nearest": case, "message": difference}


class _Counted(Sequence[Unit]):
    """The units of a bench for as long as there is time; counts those that began."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.begun = 0
        self.late = False

    def __len__(self) -> int:
        return len(self._bench.units)

    def __getitem__(self, place: Any) -> Any:
        return self._bench.units[place]

    def __iter__(self) -> Iterator[Unit]:
        for unit in self._bench.units:
            if time.monotonic() > self._bench.until:
                self.late = True
                return
            self.begun += 1
            yield unit


def _killed(kill: Kill) -> dict[str, Any]:
    unit, violation = kill.unit, kill.violation
    return {
        "status": Status.KILLED,
        "lane": LANES[0],
        "check": violation.check,
        "case": violation.case or f"{unit.implementation}: {unit.name}",
        "message": violation.message,
        "unit": unit.number,
    }


def _other_launches(wanted: Wanted, bench: Bench) -> dict[str, Any] | None:
    """Return the fields of a kill by the compile lane, if the mutant launches anything else than the original."""
    original = launched(bench.pairs, current)
    with installed(wanted.module, wanted.source, wanted.modules):
        found = difference(original, launched(bench.pairs, current))
    if found is None:
        return None
    return {"status": Status.KILLED, "lane": LANES[1], "check": CHECK, "message": found[0], "case": found[1]}


def _refusal(kill: Kill | None, recorder: frontend.Recorder) -> str | None:
    """Why Triton's compiler refuses the last launch, where that is what the virtual GPU may have stumbled over."""
    if recorder.last is None or (kill is not None and kill.violation.check != "raises"):
        return None
    reason = frontend.refusal(_kernel(recorder.last), recorder.last)
    return None if reason is None else f"Triton refuses it: {reason}"


def _kernel(wanted: frontend.Specialisation) -> Any:
    return frontend.kernel_of(wanted, sys.modules[wanted.module])


def _equal(wanted: Wanted, recorder: frontend.Recorder) -> str:
    """Return the proof that a survivor is the original, or an empty string."""
    if not wanted.device:
        same = same_bytecode(file_of(sys.modules[wanted.module]).read_text(), wanted.source)
        return "Python compiles it to the same instructions" if same else ""
    launches = f"all {len(recorder.seen)} specialisations that the cases launch"
    try:
        if _same_programs(wanted, recorder, "ttir"):
            return f"Triton's IR is the same for {launches}"
        if _same_programs(wanted, recorder, "ptx"):
            return f"the machine code for sm_{frontend.CAPABILITY} is the same for {launches}"
        if _dead_lanes(wanted, recorder):
            return f"nothing depends on the lanes that the mask turns off, in {launches}"
    except Exception as error:
        # a launch that Triton's compiler refuses in the original too proves nothing
        if type(error).__module__.partition(".")[0] != "triton":
            raise
    return ""


def _dead_lanes(wanted: Wanted, recorder: frontend.Recorder) -> bool:
    """Whether a mutant differs only in what a load gives for lanes of which nothing depends."""
    lines = changed_fills(file_of(sys.modules[wanted.module]).read_text(), wanted.source)
    programs = [frontend.intermediate(_kernel(one), one, locations=True) for one in recorder.seen.values()]
    try:
        read = [ir.read(program) for program in programs] if lines else []
        with_load = [ops for ops in read if dead_lanes.loads(ops, lines)]
        for ops in with_load:
            dead_lanes.prove(ops, lines)
    except (dead_lanes.Unproved, ir.UnknownSyntax):
        return False
    return bool(with_load)


def _same_programs(wanted: Wanted, recorder: frontend.Recorder, stage: str) -> bool:
    until = time.monotonic() + COMPARE_SECONDS
    for one in recorder.seen.values():
        original = frontend.intermediate(_kernel(one), one, until=stage)
        with installed(wanted.module, wanted.source, wanted.modules):
            if frontend.intermediate(_kernel(one), one, until=stage) != original or time.monotonic() > until:
                return False
    return bool(recorder.seen)
