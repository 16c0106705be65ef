"""A survivor beside the original: proved to be the same program, refused by Triton's compiler, or neither."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from harness.compiling import sources
from harness.mutation import canonical, dead_lanes, frontend, generic, ir, launched
from harness.mutation.apart import apart
from harness.mutation.behind import file_of
from harness.mutation.generate import changed_choices, changed_fills, changed_numbers, same_bytecode
from harness.mutation.install import current, installed
from harness.mutation.results import LANES, Status
from harness.mutation.wanted import Bench, Wanted

Proof = Callable[[Wanted, Sequence[frontend.Specialisation]], bool]

#: Specialisations that one process takes to machine code.
_TOGETHER = 8
#: Seconds of a processor after which nobody looks further for a launch that Triton refuses.
REFUSAL_SECONDS = 8.0


def kernel(wanted: frontend.Specialisation) -> Any:
    """Return the kernel that ``wanted`` is about as it is installed now."""
    return frontend.kernel_of(wanted, sys.modules[wanted.module])


class NotCompiled(Exception):
    """Triton's compiler takes the original to machine code and not the mutant; the message says why."""


def compared(wanted: Wanted, bench: Bench, recorder: frontend.Recorder) -> dict[str, Any]:
    """Return the fields of a survivor that is proved to be the original, or that Triton refuses; empty for others.

    One that is the same for all that is launched, and not for what else may be, stays a survivor that says so.
    """
    if not wanted.device:
        same = same_bytecode(file_of(sys.modules[wanted.module]).read_text(), wanted.source)
        return _proved("Python compiles it to the same instructions") if same else {}
    seen = _changed(wanted, list(recorder.seen.values()))
    if refused := _refused(wanted, seen):
        return {"status": Status.INVALID, "reason": refused}
    if words := _not_taken(wanted, bench):
        return {"status": Status.KILLED, "lane": LANES[1], "check": "compiles", "message": words}
    more: list[frontend.Specialisation] | None = None
    unlike = ""
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
                words = f"{words} all {len(seen + more)} specialisations that the cases launch"
                forms = _not_launched(wanted, seen + more)
                found = next((form for form in forms if not _holds(holds, wanted, form.one)), None)
                if found is None:
                    return _proved(f"{words}, and for {len(forms)} that none does")
                unlike = unlike or f"{words}, but not {found.words}, which none does"
    except NotCompiled as error:
        return {"status": Status.INVALID, "reason": str(error)}
    except Exception as error:
        # a launch that Triton's compiler refuses in the original too proves nothing
        if not _is_refusal(error):
            raise
    return {"message": unlike} if unlike else {}


def _is_refusal(error: Exception) -> bool:
    # where what a kernel became is no valid IR, and where a pass fails, Triton raises no class of its own
    return type(error).__module__.partition(".")[0] == "triton" or type(error) is RuntimeError


def _not_launched(wanted: Wanted, seen: Sequence[frontend.Specialisation]) -> list[generic.Form]:
    """Return forms of ``seen`` that no case launches, as far as Triton takes them in the original."""
    module = sys.modules[wanted.module]
    numbers = generic.numbers(file_of(module).read_text(), wanted.source, vars(module))
    constants = {
        one.kernel: frozenset(parameter.name for parameter in kernel(one).params if parameter.is_constexpr)
        for one in seen
    }
    forms = _taken(generic.unaligned(seen, constants))
    # a kernel may insist on strides of 1
    around = forms or [generic.Form(one, "") for one in seen]
    return [*forms, *_taken(generic.others(around, constants, numbers))]


def _taken(forms: Sequence[generic.Form]) -> list[generic.Form]:
    return [form for form in forms if frontend.refusal(kernel(form.one), form.one) is None]


def _holds(holds: Proof, wanted: Wanted, one: frontend.Specialisation) -> bool:
    """Whether a proof holds for ``one``, which Triton may refuse in the mutant."""
    try:
        return holds(wanted, [one])
    except NotCompiled:
        return False
    except Exception as error:
        if not _is_refusal(error):
            raise
        return False


def _proved(reason: str) -> dict[str, Any]:
    return {"status": Status.EQUIVALENT, "reason": reason}


def _changed(wanted: Wanted, seen: Sequence[frontend.Specialisation]) -> list[frontend.Specialisation]:
    """Return those of ``seen`` whose kernel, or something that it calls, is another in the mutant."""
    before = {id(one): sources.digest(kernel(one)) for one in seen}
    with installed(wanted.module, wanted.source, wanted.modules):
        return [one for one in seen if sources.digest(kernel(one)) != before[id(one)]]


def _dead_lanes(wanted: Wanted, seen: Sequence[frontend.Specialisation]) -> bool:
    """Whether a mutant differs only in what a load or a ``where`` gives for lanes of which nothing depends."""
    original = file_of(sys.modules[wanted.module]).read_text()
    lines, choices = changed_fills(original, wanted.source), []
    if not lines and not (choices := changed_choices(original, wanted.source)):
        return False
    if not seen:
        return True
    programs = [frontend.intermediate(kernel(one), one, locations=True) for one in seen]
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
        mutated = [ir.read(frontend.intermediate(kernel(one), one, locations=True)) for one in seen]
    return all(_operations(new) <= _operations(old) for new, old in zip(mutated, originals, strict=True))


def _operations(ops: list[ir.Op]) -> Counter[tuple[str, tuple[int, ...], str]]:
    return Counter(
        (op.name, op.shape, op.text.rpartition(" : ")[2]) for op in ir.walk(ops) if op.name != "arith.constant"
    )


def _refused(wanted: Wanted, seen: Sequence[frontend.Specialisation]) -> str:
    """Return why Triton refuses one of ``seen`` in the mutant alone, as far as there is time, or ""."""
    until = time.process_time() + REFUSAL_SECONDS
    for one in seen:
        with installed(wanted.module, wanted.source, wanted.modules):
            mutated = frontend.refusal(kernel(one), one)
        if mutated and not frontend.refusal(kernel(one), one):
            return f"Triton refuses it: {mutated}"
        if time.process_time() > until:
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
    return _same_programs(wanted, seen)


def _same_values(wanted: Wanted, seen: Sequence[frontend.Specialisation]) -> bool:
    """Whether all of ``seen`` compute the same values in the mutant, operation by operation."""
    return _same_programs(wanted, seen, canonical.form)


def _same_code(wanted: Wanted, seen: Sequence[frontend.Specialisation]) -> bool:
    """Whether all of ``seen`` have the same machine code in the mutant.

    Raises NotCompiled where the mutant has none.  It is compiled in a process of its own: what comes after Triton's IR
    may end the process.
    """
    until = _spent() + wanted.patience
    # most differ in the first
    for start in (0, *range(1, len(seen), _TOGETHER)):
        some = seen[start : start + (_TOGETHER if start else 1)]
        originals = _machine_code(some)
        with installed(wanted.module, wanted.source, wanted.modules):
            mutated = apart(partial(_machine_code, some), seconds=wanted.patience)
        if mutated.problem and not mutated.late:
            raise NotCompiled(f"Triton makes no machine code of it: {mutated.problem}")
        if mutated.value != originals or _spent() > until:
            return False
    return True


def _machine_code(seen: Sequence[frontend.Specialisation]) -> list[str]:
    return [frontend.intermediate(kernel(one), one, until="ptx") for one in seen]


def _spent() -> float:
    """Seconds of a processor that this process and those that it waited for have used."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _same_programs(
    wanted: Wanted, seen: Sequence[frontend.Specialisation], form: Callable[[str], object] = str
) -> bool:
    until = time.process_time() + wanted.patience
    for one in seen:
        original = form(frontend.intermediate(kernel(one), one))
        with installed(wanted.module, wanted.source, wanted.modules):
            if form(frontend.intermediate(kernel(one), one)) != original or time.process_time() > until:
                return False
    return True


#: What proves that a mutant is the original, cheapest first.
_PROOFS: tuple[tuple[Proof, str], ...] = (
    (_same_ir, "Triton's IR is the same for"),
    (_same_values, "every value that Triton's IR computes is the same in"),
    (_same_code, f"the machine code for sm_{frontend.CAPABILITY} is the same for"),
    (_dead_lanes, "nothing depends on the lanes that the mask turns off, in"),
)
