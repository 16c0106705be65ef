"""The ``targets`` command: what would be launched, compiled for every target and judged."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from harness import selection
from harness.compiling import baseline, grids, lane, matrix, plan
from harness.compiling.cache import Cache, default_folder
from harness.compiling.lane import Judged, Progress
from harness.device.capabilities import installed_triton
from harness.discover import SetupError, load


def run(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> bool:
    """Compile what ``options`` choose, print the matrix and what failed; returns whether nothing did.

    An update of the baseline names every figure that is worse and accepted by it, every spill first of all.

    Raises SetupError before anything is compiled for an unknown name, a module that does not load, a baseline that
    is none, and where nothing would be compiled.
    """
    began = time.monotonic()
    chosen = selection.targets(options.target)
    load(modules, folder=folder)
    pairs = selection.pairs(options.contracts, options.impl)
    if bare := plan.without_cases(pairs):
        have = "has" if len(bare) == 1 else "have"
        raise SetupError(f"nothing to compile: {', '.join(bare)} {have} no workloads or pinned cases")
    file = baseline.path_in(options.baseline, installed_triton())
    try:
        before = baseline.read(file)
        grids_file = grids.path_in(options.baseline, installed_triton())
        grids_before = grids.read(grids_file)
    except ValueError as error:
        raise SetupError(str(error)) from error
    progress = _Progress(sys.stderr)
    made = plan.make(pairs, chosen, on_case=progress.case)
    if not made.uses:
        progress.clear()
        on = ", ".join(target.arch for target in chosen)
        raise SetupError(f"nothing to compile: no chosen implementation launches a kernel on {on}")
    cache = None if options.no_cache else Cache(options.cache or default_folder())
    judged = lane.carry_out(
        made,
        cache,
        jobs=options.jobs,
        deadline=options.deadline,
        share=not options.no_sharing,
        on_progress=progress.compilation,
    )
    progress.clear()
    now = baseline.table_of(judged)
    whole = not options.contracts and options.impl is None
    changes: list[matrix.Shown] = [
        *baseline.compare(before, now),
        *baseline.unlisted(before, judged, whole=whole),
        *grids.compare(grids_before, made.grids),
    ]
    accepted: list[matrix.Shown] = []
    if options.update_baseline:
        compiled = {one.use.kernel for one in judged}
        after = baseline.updated(before, now, compiled, {target.arch for target in chosen})
        worse = [change for change in changes if change.failing]
        accepted = list(dict.fromkeys([*worse, *baseline.newly_excused(judged, before, after)]))
        before = after
        baseline.write(file, before)
        grids.write(grids_file, grids.updated(grids_before, made.grids, {target.arch for target in chosen}))
        changes = []
    judged = baseline.excused(judged, before)
    if options.json is not None:
        options.json.write_text(json.dumps(_document(judged, changes), indent=1, default=repr) + "\n")
    summary = _summary(judged, len(made.specialisations), changes, time.monotonic() - began)
    sys.stdout.write(matrix.render(judged, chosen, changes, summary, accepted))
    return not any(one.judgement.failing for one in judged) and not any(change.failing for change in changes)


def _document(judged: Sequence[Judged], changes: Sequence[matrix.Shown]) -> dict[str, Any]:
    """Everything, for machines."""
    return {
        "triton": ".".join(map(str, installed_triton())),
        "results": [
            {
                "contract": one.use.contract,
                "implementation": one.use.implementation,
                "kernel": one.use.kernel,
                "config": one.use.config,
                "target": one.use.target.arch,
                "case": one.use.case,
                "verdict": one.judgement.verdict,
                "failing": one.judgement.failing,
                "message": one.judgement.message,
                "seconds": one.result.seconds,
                "cpu_seconds": one.result.cpu_seconds,
                "lent": one.result.lent,
                "figures": None if one.result.figures is None else asdict(one.result.figures),
                "residency": None if one.judgement.residency is None else asdict(one.judgement.residency),
            }
            for one in judged
        ],
        "changes": [asdict(change) for change in changes],
    }


def _summary(judged: Sequence[Judged], compilations: int, changes: Sequence[matrix.Shown], seconds: float) -> str:
    """``"412 compilations in 180.2 s (cpu 340.1 s): 700 FITS, 2 SPILLS; 1 regression"``."""
    verdicts = Counter(one.judgement.verdict for one in judged)
    counts = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    cpu = sum({one.use.key: one.result.cpu_seconds for one in judged}.values())
    worse = sum(change.failing for change in changes)
    lent = len({one.use.key for one in judged if one.result.lent})
    borrowed = f", {lent} from another target's PTX" if lent else ""
    return (
        f"{compilations} compilations ({cpu:.0f} CPU s when they ran{borrowed}) in {seconds:.1f} s: {counts}; "
        f"{worse} regressions"
    )


class _Progress:
    """One line that is rewritten on a terminal, a line now and then elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._every = 0.1 if self._terminal else 10.0
        # the first line comes at once
        self._shown = float("-inf")

    def case(self, text: str) -> None:
        """Say which case is about to be launched."""
        self._show(f"launching {text}")

    def compilation(self, progress: Progress) -> None:
        """Say how far the compilations are."""
        self._show(f"{progress.done} of {progress.total} compiled ({progress.cached} cached): {progress.what}")

    def clear(self) -> None:
        """Take the line away."""
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _show(self, text: str) -> None:
        now = time.monotonic()
        if now - self._shown < self._every:
            return
        self._shown = now
        width = os.get_terminal_size(self._stream.fileno()).columns - 1 if self._terminal else 160
        self._stream.write(f"\r\x1b[K{text[:width]}" if self._terminal else f"{text[:width]}\n")
        self._stream.flush()
