"""Compares the virtual GPU with a recording: which elements differ, and which reasons were needed."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from harness import vgpu
from tests.vgpu.conformance.packing import Undecodable
from tests.vgpu.conformance.reasons import Compared, Reason, explained, ulp

#: The target that the recording was made on.
PROFILE = "sm_90"
_SHOWN = 4


def results_of(cases, package=vgpu):
    """Run every case on the virtual GPU of ``package``.

    Returns by name the results, whether the operation is outside of the proven set, and why others are refused.
    """
    found, untrusted, refused = {}, {}, {}
    for case in cases:
        try:
            with package.VirtualGPU(profile=PROFILE) as gpu:
                found[case.id] = case.run("cpu")
            untrusted[case.id] = bool(gpu.untrusted)
        except package.UnsupportedOperation as error:
            refused[case.id] = str(error)
    return found, untrusted, refused


def differences(case, got, recorded, allowances, fused=None, untrusted=False):
    """Compare one case; return (what nothing explains, the allowances that were needed)."""
    lines, used = [], set()
    for number, (out, mine, theirs) in enumerate(zip(case.outputs, got, recorded, strict=True)):
        bad = mine != theirs
        if not bad.any():
            continue
        other = None if fused is None else fused[number]
        compared = Compared(case, out.type, mine, theirs, number, other, untrusted)
        for allowance in allowances:
            if allowance.reason is Reason.NOT_EXECUTED or not bad.any():
                continue
            excused = bad & explained(allowance, compared)
            if excused.any():
                used.add(allowance)
                bad &= ~excused
        if bad.any():
            lines.append(_described(case, number, compared, bad))
    return lines, used


def _described(case, number, compared, bad):
    at = np.argwhere(bad)
    distance = ulp(compared.got, compared.recorded, compared.type)
    text = [f"{case.id}: {len(at)} of {bad.size} elements of result {number} ({compared.type}) differ, unexplained"]
    for place in (tuple(p) for p in at[:_SHOWN]):
        inputs = [
            f"{operand.type} {int(operand.bits[place]):#x}"
            for operand in case.operands
            if operand.bits is not None and operand.bits.shape == compared.got.shape
        ]
        text.append(
            f"  at {','.join(map(str, place))}: f({', '.join(inputs) or '...'}) = {int(compared.got[place]):#x}, "
            f"recorded {int(compared.recorded[place]):#x}, {distance[place]:g} ulp apart"
        )
    return "\n".join(text)


#: The fused operations that a product and a sum become.
_FUSED = {"times_plus": "fma", "minus_times": "fma_negated"}


@dataclass
class Judgement:
    """``unexplained`` differences; ``stale``: patterns of allowances that nothing needed; ``undecoded``: cases."""

    unexplained: list[str] = field(default_factory=list)
    stale: list[tuple[str, str]] = field(default_factory=list)
    undecoded: list[str] = field(default_factory=list)


def judge(cases, recording, allowances, package=vgpu):
    """Compare all cases that were recorded."""
    found = Judgement()
    executed, untrusted, refused = results_of((case for id, case in cases.items() if id in recording.stored), package)
    used = set()

    def needed(id, allowance):
        used.update((allowance, pattern) for pattern in allowance.patterns if fnmatchcase(id, pattern))

    for id, case in cases.items():
        mine = [a for a in allowances if a.covers(id)]
        if id in refused:
            named = [a for a in mine if a.reason is Reason.NOT_EXECUTED]
            for allowance in named:
                needed(id, allowance)
            if not named:
                found.unexplained.append(f"{id}: {refused[id]}")
        if id not in executed:
            continue
        name, _, type = id.partition("/")
        other = f"{_FUSED[name]}/{type}" if name in _FUSED else None
        try:
            recorded = recording.results(case)
            fused = recording.results(cases[other]) if other else None
        except Undecodable as error:
            found.undecoded.append(str(error))
            continue
        lines, wanted = differences(case, executed[id], recorded, mine, fused, untrusted[id])
        found.unexplained += lines
        for allowance in wanted:
            needed(id, allowance)
    found.stale = [(p, a.reason.name) for a in allowances if a.applies() for p in a.patterns if (a, p) not in used]
    return found
