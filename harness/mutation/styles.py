"""Who judges mutants: the contracts, the usual tests of fixed shapes, or another tool with the same cases."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.discover import SetupError

if TYPE_CHECKING:
    from harness.mutation.judge import Judging
    from harness.mutation.plan import Unit
    from harness.mutation.targets import Pair

CONTRACT, FIXED = "contract", "fixed"
#: Style -> the package that it needs beside what the harness needs.  None is required by the harness.
TOOLS = {"gpucheck": "gpucheck", "triton-viz": "triton-viz", "ttsem": "ttsem"}
NAMES = (CONTRACT, FIXED, *TOOLS)


@dataclass(frozen=True, kw_only=True)
class Style:
    """How the mutants of some implementations are judged: a kind of judging, and its units."""

    judging: type[Judging]
    units: list[Unit]


def version(name: str) -> str:
    """Return which release of its package style ``name`` uses, empty where it needs none.

    Raises SetupError where the package is not there.
    """
    if name not in TOOLS:
        return ""
    try:
        return importlib.metadata.version(TOOLS[name])
    except importlib.metadata.PackageNotFoundError as error:
        raise SetupError(f"--style {name} needs {TOOLS[name]}, found none") from error


def check(name: str, pairs: Sequence[Pair]) -> None:
    """Raise SetupError where style ``name`` has no case for a contract of ``pairs``: it would let all mutants live."""
    from harness.mutation import fixed

    lost = [] if name == CONTRACT else fixed.without_shapes(pairs)
    if lost:
        raise SetupError(f"--style {name} has no cases for {', '.join(lost)}; it has for: {', '.join(fixed.SHAPES)}")


def make(name: str, pairs: Sequence[Pair], *, examples: int, seed: int) -> Style:
    """Return style ``name`` for ``pairs``; ``examples`` and ``seed`` are for the contracts' cases."""
    from harness.mutation import fixed, plan, tools
    from harness.mutation.judge import Judging

    if name == CONTRACT:
        return Style(judging=Judging, units=plan.units(pairs, examples, seed))
    units = fixed.units(pairs)
    if name == FIXED:
        return Style(judging=fixed.FixedJudging, units=units)
    if name == "gpucheck":
        return Style(judging=tools.Gpucheck, units=units + tools.fuzzed(pairs, len(units)))
    return Style(judging={"triton-viz": tools.TritonViz, "ttsem": tools.Ttsem}[name], units=units)
