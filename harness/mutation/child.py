"""What runs in a forked child: one mutant in the place of the original, judged, and compared if it survives."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from harness.compiling import sources
from harness.lanes import Lane
from harness.mutation import dead_lanes, frontend, ir, launched
from harness.mutation.behind import file_of
from harness.mutation.generate import changed_choices, changed_fills, changed_numbers, same_bytecode
from harness.mutation.install import NotImportable, current, installed
from harness.mutation.judge import Judging, Kill, Oracles, Place, Trusted, nearest, place
from harness.mutation.launched import CHECK
from harness.mutation.plan import Unit, label
from harness.mutation.results import LANES, NOTHING_TOLD, Status, Told
from harness.mutation.targets import Pair

#: Seconds that a survivor and the original may take to be compiled, unless more are given to a mutant.
COMPARE_SECONDS = 40.0
#: Seconds after which nobody looks further for a launch that Triton refuses, of a mutant known to be another program.
REFUSAL_SECONDS = 8.0
#: Units that judge a mutant of host code before it is looked at what it launches, which takes seconds.
UNITS_FIRST = 30
#: Seconds for the search of a case on which a survivor changes a bit.
NEAREST_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A mutant of a loaded module; ``modules`` are all that belong to its kernel, used ones before users.

    ``orders``: it is about the order in which programs do things; ``told``: what killed it in an earlier run;
    ``patience``: seconds in which a survivor's programs are compared with the original's.
    """

    module: str
    device: bool
    source: str
    modules: tuple[str, ...]
    orders: bool = False
    told: Told = NOTHING_TOLD
    patience: float = COMPARE_SECONDS


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What judges: a lane, the units in their order, and what is known about the original.

    ``seconds`` of a processor are for a mutant.  For one of host code ``launches`` is what the original launches; for
    one of device code ``digests`` are those of the original's functions and ``kernels`` which of them are launched, as
    far as it is known; ``launched`` is told of others.  ``reached`` is what a tool launches of the original, where it
    sees that: it has no say in a mutant of device code that is in none of these.  With another kind of ``judging`` than
    the contracts' a survivor is one, whatever else could be said of it.
    """

    lane: Lane
    pairs: Sequence[Pair]
    units: Sequence[Unit]
    trusted: Trusted
    oracles: Oracles
    seconds: float
    launches: Mapping[str, str]
    digests: Mapping[str, str]
    kernels: Mapping[Place, frozenset[str]]
    progress: Callable[[Unit | None], object]
    launched: Callable[[Unit, frozenset[str]], object] = lambda unit, kernels: None
    judging: type[Judging] = Judging
    reached: frozenset[str] | None = None


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
            if wanted.told.check != CHECK:
                kill = judging.run(counted.some(UNITS_FIRST), bench.trusted, bench.progress)
            if kill is None and launching:
                # its seconds are not those of the last unit
                bench.progress(None)
                launches = _other_launches(bench)
            if kill is None and launches is None:
                kill = judging.run(counted.some(None), bench.trusted, bench.progress)
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
    if found := _compared(wanted, bench, recorder):
        return {**survived, **found}
    if counted.late:
        return {**survived, "message": f"time was up after {counted.begun} of {len(bench.units)} units"}
    original = Judging(bench.lane, bench.oracles, current)
    case, difference = nearest(bench.units, judging, original, until=time.monotonic() + NEAREST_SECONDS)
    return {**survived, "nearest": case, "message": difference}


class _Counted:
    """The units of a bench for as long as there is time; counts those that began."""

    def __init__(self, bench: Bench, units: Sequence[Unit], recorder: frontend.Recorder) -> None:
        self._bench = bench
        self._left = iter(units)
        self._recorder = recorder
        self.begun = 0
        self.late = False

    def some(self, count: int | None) -> Iterator[Unit]:
        """Yield the next ``count`` units, None for all that are left."""
        for unit in islice(self._left, count):
            if time.process_time() > self._bench.seconds:
                self.late = True
                return
            self.begun += 1
            self._recorder.names.clear()
            yield unit
            if place(unit) not in self._bench.kernels:
                self._bench.launched(unit, frozenset(self._recorder.names))


def _promising(wanted: Wanted, bench: Bench) -> Sequence[Unit]:
    """Return the units of ``bench``, those last that are known to launch no kernel in which the mutant differs."""
    if not (wanted.device and bench.digests):
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
        "lane": LANES[0],
        "check": violation.check,
        "case": violation.case or label(unit),
        "message": violation.message,
        "unit": unit.number,
    }


def _other_launches(bench: Bench) -> dict[str, Any] | None:
    """Return the fields of a kill by the compile lane, if what is installed launches something else."""
    found = launched.difference(bench.launches, launched.launched(bench.pairs, current))
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


def _compared(wanted: Wanted, bench: Bench, recorder: frontend.Recorder) -> dict[str, Any]:
    """Return the fields of a survivor that is proved to be the original, or that Triton refuses; empty for others."""
    if not wanted.device:
        same = same_bytecode(file_of(sys.modules[wanted.module]).read_text(), wanted.source)
        return _proved("Python compiles it to the same instructions") if same else {}
    seen = _changed(wanted, list(recorder.seen.values()))
    if refused := _refused(wanted, seen):
        return {"status": Status.INVALID, "reason": refused}
    if words := _not_taken(wanted, bench):
        return {"status": Status.KILLED, "lane": LANES[1], "check": "compiles", "message": words}
    more: list[frontend.Specialisation] | None = None
    try:
        for holds, words in _PROOFS:
            if not holds(wanted, seen):
                continue
            if more is None:
                # what is launched on a device may be what no case launches here
                more = _changed(wanted, launched.specialisations(bench.pairs, wanted.modules))
                if refused := _refused(wanted, more):
                    return {"status": Status.INVALID, "reason": refused}
            if seen + more and holds(wanted, more):
                return _proved(f"{words} all {len(seen + more)} specialisations that the cases launch")
    except Exception as error:
        # a launch that Triton's compiler refuses in the original too proves nothing
        if type(error).__module__.partition(".")[0] != "triton":
            raise
    return {}


def _proved(reason: str) -> dict[str, Any]:
    return {"status": Status.EQUIVALENT, "reason": reason}


def _changed(wanted: Wanted, seen: Sequence[frontend.Specialisation]) -> list[frontend.Specialisation]:
    """Return those of ``seen`` whose kernel, or something that it calls, is another in the mutant."""
    before = {id(one): sources.digest(_kernel(one)) for one in seen}
    with installed(wanted.module, wanted.source, wanted.modules):
        return [one for one in seen if sources.digest(_kernel(one)) != before[id(one)]]


def _dead_lanes(wanted: Wanted, seen: Sequence[frontend.Specialisation]) -> bool:
    """Whether a mutant differs only in what a load or a ``where`` gives for lanes of which nothing depends."""
    original = file_of(sys.modules[wanted.module]).read_text()
    lines, choices = changed_fills(original, wanted.source), []
    if not lines and not (choices := changed_choices(original, wanted.source)):
        return False
    if not seen:
        return True
    programs = [frontend.intermediate(_kernel(one), one, locations=True) for one in seen]
    try:
        read = [ir.read(program) for program in programs]
        if lines:
            concerned = [ops for ops in read if dead_lanes.loads(ops, lines)]
        else:
            concerned = [ops for ops in read if dead_lanes.loads(ops, choices, "arith.select")]
            # a choice that was made into something else, or that decides a type, is followed by nobody
            if len(concerned) < len(read) or not _same_but_for_choices(wanted, seen, read):
                return False
        for ops in concerned:
            dead_lanes.prove(ops, lines, choices, changed_numbers(original, wanted.source))
    except (dead_lanes.Unproved, ir.UnknownSyntax):
        return False
    return bool(concerned)


def _same_but_for_choices(
    wanted: Wanted, seen: Sequence[frontend.Specialisation], originals: Sequence[list[ir.Op]]
) -> bool:
    """Whether the mutant has no operation that the original does not have as often, constants aside."""
    with installed(wanted.module, wanted.source, wanted.modules):
        mutated = [ir.read(frontend.intermediate(_kernel(one), one, locations=True)) for one in seen]
    return all(_operations(new) <= _operations(old) for new, old in zip(mutated, originals, strict=True))


def _operations(ops: list[ir.Op]) -> Counter[tuple[str, tuple[int, ...], str]]:
    return Counter(
        (op.name, op.shape, op.text.rpartition(" : ")[2]) for op in ir.walk(ops) if op.name != "arith.constant"
    )


def _refused(wanted: Wanted, seen: Sequence[frontend.Specialisation]) -> str:
    """Return why Triton refuses one of ``seen`` in the mutant alone, as far as there is time, or ""."""
    until = time.monotonic() + REFUSAL_SECONDS
    for one in seen:
        with installed(wanted.module, wanted.source, wanted.modules):
            mutated = frontend.refusal(_kernel(one), one)
        if mutated and not frontend.refusal(_kernel(one), one):
            return f"Triton refuses it: {mutated}"
        if time.monotonic() > until:
            break
    return ""


def _not_taken(wanted: Wanted, bench: Bench) -> str:
    """Return what the compile lane says about a change of order on some target where it takes the original, or ""."""
    if not wanted.orders:
        return ""
    with installed(wanted.module, wanted.source, wanted.modules):
        refused = launched.refusals(bench.pairs, current)
    known = launched.refusals(bench.pairs, current) if refused else []
    return next((f"on {arch}: {message}" for (arch, message) in refused if (arch, message) not in known), "")


def _same_ir(wanted: Wanted, seen: Sequence[frontend.Specialisation]) -> bool:
    """Whether all of ``seen`` have the same IR in the mutant."""
    return _same_programs(wanted, seen, "ttir")


def _same_code(wanted: Wanted, seen: Sequence[frontend.Specialisation]) -> bool:
    """Whether all of ``seen`` have the same machine code in the mutant."""
    return _same_programs(wanted, seen, "ptx")


def _same_programs(wanted: Wanted, seen: Sequence[frontend.Specialisation], stage: str) -> bool:
    until = time.monotonic() + wanted.patience
    for one in seen:
        original = frontend.intermediate(_kernel(one), one, until=stage)
        with installed(wanted.module, wanted.source, wanted.modules):
            if frontend.intermediate(_kernel(one), one, until=stage) != original or time.monotonic() > until:
                return False
    return True


#: What proves that a mutant is the original, cheapest first.
_PROOFS: tuple[tuple[Callable[[Wanted, Sequence[frontend.Specialisation]], bool], str], ...] = (
    (_same_ir, "Triton's IR is the same for"),
    (_same_code, f"the machine code for sm_{frontend.CAPABILITY} is the same for"),
    (_dead_lanes, "nothing depends on the lanes that the mask turns off, in"),
)
