"""The ``memcheck`` command: every chosen implementation under every chosen tool, and a table."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness import selection
from harness.cases import parse
from harness.contract import Contract, Implementation
from harness.device import TARGETS, detect, target_of, unmet
from harness.discover import SetupError, load
from harness.hardware import placing
from harness.known import Ledger
from harness.memcheck import lane, tools
from harness.memcheck.tools import Tool
from harness.report import table
from harness.report.records import FaultRecord, Record
from harness.report.summary import Summary

Pair = tuple[Contract[Any], Implementation]


class ToolSummary(Summary):
    """A run under tools: what replays a fault is the tool on that case."""

    def replay(self, record: Record, fault: FaultRecord) -> str:
        """Return the shell command that runs the case of ``fault`` again, under the tool that found it."""
        command = ["python", "-m", "harness", "memcheck", record.contract, "--impl", record.implementation]
        return shlex.join([*command, "--tool", record.check, "--case", fault.case, *self.options])


def run(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> bool:
    """Run what ``options`` choose and print the result; returns whether nothing was found and all of it ran.

    Raises SetupError before anything runs where there is no GPU or no compute-sanitizer, and for unknown names.
    """
    began = time.monotonic()
    if missing := unmet(["cuda"], detect()):
        raise SetupError(f"memcheck: {missing}")
    load(modules, folder=folder)
    emulated = selection.targets([options.emulate])[0].arch if options.emulate else ""
    chosen = selection.pairs(options.contracts, options.impl)
    _check_cases(options.case, chosen)
    pairs, elsewhere = _runnable(chosen, emulated)
    if not pairs:
        raise SetupError("memcheck: " + "; ".join(elsewhere))
    jobs = [
        lane.Job(
            contract=contract.name,
            implementation=implementation.name,
            modules=tuple(modules),
            folder=str(folder),
            pinned=options.pinned,
            drawn=options.drawn,
            seed=options.seed,
            cases=tuple(options.case),
            device=_device(implementation, emulated),
            emulated=emulated,
        )
        for contract, implementation in pairs
    ]
    try:
        results = lane.run(
            jobs,
            watching=tuple(options.tool) or tools.TOOLS,
            children=options.jobs,
            deadline=options.deadline,
            excused=excused(pairs),
            on_done=_progress,
        )
    except tools.Missing as error:
        raise SetupError(f"memcheck: {error}") from error
    if options.output:
        _keep(results, Path(options.output))
    summary = ToolSummary(
        records=tuple(result.record() for result in results),
        options=_repeated(options),
        seconds=time.monotonic() - began,
    )
    sys.stdout.write(table.render(summary))
    sys.stdout.writelines(f"not run: {reason}\n" for reason in elsewhere)
    sys.stdout.write(f"{tools.PROGRAM} {tools.version(tools.find())}, {tools.PADDING >> 10} KiB between allocations\n")
    return summary.good


def excused(pairs: Sequence[Pair]) -> Callable[[lane.Job, Tool, str], bool]:
    """Return whether a report of a tool on a case is of a failure that its implementation declares as known."""
    by_name = {(contract.name, implementation.name): (contract, implementation) for contract, implementation in pairs}

    def is_known(job: lane.Job, tool: Tool, case: str) -> bool:
        contract, implementation = by_name[job.contract, job.implementation]
        if not case or not implementation.known:
            return False
        return Ledger(implementation.known).tolerates(tool, parse(contract, case))

    return is_known


def lacks(implementation: Implementation, emulated: str = "") -> str | None:
    """Return ``"needs sm_100, found sm_90"`` for an implementation that does not run here, or None."""
    if emulated:
        wanted = [TARGETS[name].arch for name in implementation.requires.targets if name in TARGETS]
        return None if not wanted or emulated in wanted else f"needs {' or '.join(wanted)}, emulates {emulated}"
    return unmet([*implementation.requires.targets], detect(), gpus=implementation.requires.gpus)


def _device(implementation: Implementation, emulated: str) -> int:
    """Return the index of the first GPU that ``implementation``, which runs here, may run on."""
    if emulated:
        found = placing.stand_in(target_of(emulated), detect())
    else:
        found = placing.first_of(implementation.requires.targets, detect())
    return 0 if found is None else found.index


def _check_cases(texts: Sequence[str], pairs: Sequence[Pair]) -> None:
    contracts = {contract.name: contract for contract, _ in pairs}
    if texts and len(contracts) > 1:
        raise SetupError(f"memcheck: --case is a case of one contract, chosen are {', '.join(contracts)}")
    for text in texts:
        for contract in contracts.values():
            try:
                parse(contract, text)
            except ValueError as error:
                raise SetupError(f"memcheck: --case: {error}") from error


def _runnable(pairs: Sequence[Pair], emulated: str) -> tuple[list[Pair], list[str]]:
    kept: list[Pair] = []
    elsewhere: dict[str, list[str]] = {}
    for pair in pairs:
        reason = lacks(pair[1], emulated)
        if reason is None:
            kept.append(pair)
        else:
            elsewhere.setdefault(reason, []).append(str(pair[1]))
    return kept, [f"{', '.join(names)}: {reason}" for reason, names in elsewhere.items()]


def _repeated(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the options without which a fault does not replay."""
    kept = [argument for module in options.module for argument in ("--module", module)]
    for name in ("adapter", "emulate"):
        if value := getattr(options, name):
            kept += [f"--{name}", value]
    return tuple(kept)


def _progress(result: lane.Result) -> None:
    job = result.job
    verdict = result.judgement.verdict
    sys.stderr.write(f"{job.contract} {job.implementation} {result.tool}: {verdict} in {result.seconds:.1f} s\n")


def _keep(results: Sequence[lane.Result], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        name = f"{result.job.contract}-{result.job.implementation}-{result.tool}.txt"
        (folder / name).write_text(result.output)
