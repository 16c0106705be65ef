"""The ``verify`` command: every chosen implementation in a child of its own, progress meanwhile, reports at the end."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

from harness import isolate, known_file, selection, spread
from harness.contract import Contract, Implementation
from harness.device.targets import target_of
from harness.discover import SetupError, load
from harness.hardware import selection as hardware
from harness.lanes import VirtualLane
from harness.report import jsonl, junit, markdown, places, table
from harness.report.records import Record
from harness.report.summary import Summary, Unit
from harness.traffic import record as traffic

REPORTS = {"report.md": markdown, "records.jsonl": jsonl, "junit.xml": junit}


def run(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> int:
    """Run what ``options`` choose, print the result, write reports into ``--out``; returns the exit status.

    Raises SetupError before anything runs for an unknown name, a module that does not load, a record of traffic that
    is none, or an ``--out`` that cannot be written.
    """
    load(modules, folder=folder)
    traffic.read(folder)
    if options.known is not None:
        known_file.read(options.known)
    target = None if options.target is None else selection.virtual_target(options.target)
    jobs = [
        isolate.Job(
            contract=contract.name,
            implementation=implementation.name,
            modules=tuple(modules),
            folder=str(folder),
            examples=options.examples,
            seed=options.seed,
            pinned=not options.no_pinned,
            known=None if options.known is None else str(options.known.resolve()),
            lane=options.lane,
            emulate=options.emulate,
            target=target,
        )
        for contract, implementation in _runnable(options, target)
    ]
    if options.cases is not None:
        jobs = spread.spread(jobs, options.cases, options.jobs)
    out = None if options.out is None else places.writable("--out", options.out)
    began = time.monotonic()
    with_progress = _Progress(sys.stderr, len(jobs))
    isolate.run(
        jobs,
        children=options.jobs,
        deadline=options.timeout,
        on_progress=with_progress.update,
        on_done=with_progress.done,
    )
    summary = Summary(
        records=tuple(spread.merged(with_progress.found[job] for job in jobs)),
        environment=environment(options.seed) | {"target": _target(options, target)},
        options=(
            *(argument for module in options.module for argument in ("--module", module)),
            *(() if target is None else ("--target", target)),
        ),
        seconds=time.monotonic() - began,
    )
    sys.stdout.write(table.render(summary))
    if out is not None:
        for name, report in REPORTS.items():
            (out / name).write_text(report.render(summary))
        sys.stdout.write(f"reports: {', '.join(str(out / name) for name in REPORTS)}\n")
    return summary.status


def _runnable(options: argparse.Namespace, virtual: str | None) -> list[tuple[Contract[Any], Implementation]]:
    """Return the chosen pairs that the lane can run: on a device, or on a ``virtual`` target, those that need no other.

    Raises SetupError where there is no device, or none that can stand in for ``--emulate``.
    """
    pairs = selection.pairs(options.contracts, options.impl)
    if options.lane == "virtual":
        if options.emulate is not None:
            raise SetupError("--emulate: wanted --lane device with it")
        if virtual is None:
            return pairs
        target, how = target_of(virtual), f"--target {virtual}"
    elif virtual is not None:
        raise SetupError("--target: wanted --lane virtual with it; a device stands in for another with --emulate")
    else:
        target, how = hardware.lane_target(options.emulate), "--lane device"
    kept = [pair for pair in pairs if target.marker in (pair[1].requires.targets or (target.marker,))]
    if not kept:
        raise SetupError(f"{how}: no chosen implementation is for {target.arch}")
    return kept


def _target(options: argparse.Namespace, virtual: str | None) -> str:
    """The target whose rules hold in a run."""
    return hardware.lane_target(options.emulate).arch if options.lane == "device" else virtual or VirtualLane().profile


def environment(seed: int) -> dict[str, str]:
    """Return what a run depends on: versions, the platform and the seed."""
    found = {"python": platform.python_version()}
    for distribution in ("kernel-harness", "torch", "triton", "hypothesis", "numpy"):
        try:
            found[distribution] = version(distribution)
        except PackageNotFoundError:
            # the harness itself may run from a source tree; the others are imported by now
            found[distribution] = "not installed"
    return {**found, "platform": f"{platform.system()} {platform.machine()}", "seed": str(seed)}


class _Progress:
    """Says what runs: one line that is rewritten on a terminal, one line an implementation elsewhere."""

    def __init__(self, stream: TextIO, jobs: int) -> None:
        self._stream = stream
        self._left = jobs
        self._terminal = stream.isatty()
        self._shown = 0.0
        #: The records of every job that has ended.
        self.found: dict[isolate.Job, list[Record]] = {}

    def update(self, progress: isolate.Progress) -> None:
        """Show the case that a child is about to run, on a terminal and not more often than an eye follows."""
        now = time.monotonic()
        if not self._terminal or now - self._shown < 0.1:
            return
        self._shown = now
        job = progress.job
        text = f"{job.contract} {job.implementation}: {progress.phase}, {progress.done} cases done, {self._left} left"
        self._stream.write(f"\r\x1b[K{text[: os.get_terminal_size(self._stream.fileno()).columns - 1]}")
        self._stream.flush()

    def done(self, job: isolate.Job, records: list[Record]) -> None:
        """Keep ``records`` and show how one implementation ended."""
        self.found[job] = records
        self._left -= 1
        unit = Unit(contract=job.contract, implementation=job.implementation, records=tuple(records))
        clear = "\r\x1b[K" if self._terminal else ""
        self._stream.write(
            f"{clear}{unit.contract} {unit.implementation}: {unit.verdict}, "
            f"{unit.examples} cases in {unit.seconds:.1f} s, {self._left} left\n"
        )
        self._stream.flush()
