"""From a compilation's result to a verdict: what, where, how far, what was allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.compiling.figures import Figures, Result
from harness.contract import Expected
from harness.device.limits import NvidiaLimits
from harness.device.targets import Target
from harness.launch.residency import Residency, resident_blocks

Verdict = Literal[
    "FITS", "SPILLS", "EXCEEDS", "RACES", "LOWERED", "REFUSED", "EXPECTED_REFUSED", "STALE", "TIMEOUT", "CRASH"
]  # fmt: skip

#: From the worst to the best: a cell that stands for several results shows its first.
ORDER: tuple[Verdict, ...] = (
    "CRASH", "TIMEOUT", "REFUSED", "STALE", "RACES", "EXCEEDS", "SPILLS", "LOWERED", "EXPECTED_REFUSED", "FITS"
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A verdict; ``message`` says why, and is empty for FITS.

    ``failing`` is False where the verdict was declared beforehand. ``residency`` is there for what compiled.
    """

    verdict: Verdict
    failing: bool
    message: str = ""
    residency: Residency | None = None


def judge(result: Result, target: Target, *, expected: Expected | None = None, deadline: float = 0.0) -> Judgement:
    """Return the verdict on ``result``; ``expected`` is what was declared about it, ``deadline`` what it had.

    A declaration that does not come true is STALE, whatever came instead, except that a failure with other words is
    that failure.
    """
    found = _undeclared(result, target, deadline)
    if expected is None:
        return found
    if found.verdict == expected.verdict:
        if expected.says in found.message:
            verdict: Verdict = "EXPECTED_REFUSED" if found.verdict == "REFUSED" else found.verdict
            return Judgement(verdict=verdict, failing=False, message=found.message, residency=found.residency)
        message = f"{found.message} (expected on {target.arch}: {expected.says!r})"
        return Judgement(verdict=found.verdict, failing=True, message=message, residency=found.residency)
    if found.failing:
        return found
    return Judgement(
        verdict="STALE",
        failing=True,
        message=f"declared {expected.verdict} on {target.arch} ({expected.because}), found {found.verdict}",
        residency=found.residency,
    )


def _undeclared(result: Result, target: Target, deadline: float) -> Judgement:
    if result.ending == "crashed":
        return Judgement(verdict="CRASH", failing=True, message=result.message)
    if result.ending == "late":
        return Judgement(
            verdict="TIMEOUT",
            failing=True,
            message=f"not compiled after {result.seconds:.0f} s, allowed {deadline:.0f} s",
        )
    if result.ending == "refused" or result.figures is None:
        return Judgement(verdict="REFUSED", failing=True, message=result.message)
    figures = result.figures
    residency = resident_blocks(figures.resources, target.limits)
    excess = _excess(figures, target, residency)
    if excess:
        return Judgement(verdict="EXCEEDS", failing=True, message=excess, residency=residency)
    if figures.overwritten:
        message = (
            f"{figures.overwritten} registers are written while a wgmma may read its left operand from them, with "
            f"{figures.outstanding} groups outstanding (triton-lang/triton issue 9433, ptxas before CUDA 13.3); "
            "0 allowed: wait for all groups before the next left operand is made"
        )
        return Judgement(verdict="RACES", failing=True, message=message, residency=residency)
    if figures.spilled:
        message = (
            f"spills {figures.spill_stores} bytes stored, {figures.spill_loads} loaded a thread, "
            f"with {figures.registers} registers; 0 allowed"
        )
        return Judgement(verdict="SPILLS", failing=True, message=message, residency=residency)
    if figures.lowered:
        message = f"tensor descriptor {', '.join(figures.lowered)}: no TMA instruction on {target.arch}"
        return Judgement(verdict="LOWERED", failing=True, message=message, residency=residency)
    return Judgement(verdict="FITS", failing=False, residency=residency)


def _excess(figures: Figures, target: Target, residency: Residency) -> str:
    """Say which limit of a block is exceeded, and by how much; neither Triton nor ptxas does."""
    limits = target.limits
    nvidia = isinstance(limits, NvidiaLimits)
    shared = figures.shared + figures.shared_static
    most = limits.shared_per_block if isinstance(limits, NvidiaLimits) else limits.lds_per_workgroup
    if shared > most:
        what = "shared memory" if nvidia else "LDS"
        return f"{shared} bytes of {what}, {shared - most} more than the {most} of a block on {target.arch}"
    if not residency.blocks_per_sm:
        return f"no block is resident on {target.arch}: {residency.detail}"
    return ""
