"""The ``mutate`` command: mutants of the chosen kernels, through the checks of their contracts."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from harness import selection
from harness.discover import SetupError, load
from harness.mutation import argued, floors, peers, pool, results, table, targets
from harness.mutation.cache import Cache
from harness.mutation.generate import mutants
from harness.mutation.operators import OPERATORS
from harness.mutation.results import Result, Status, Told
from harness.mutation.source import Mutant

#: Where results are kept, and where survivors are argued about, below the folder of the pytest configuration.
CACHE = Path(".cache/mutation")
ARGUED = Path("ci/equivalents.toml")
#: What ``--out`` gets: results for ``--merge``, and the table with the survivors.
RESULTS, TABLE = "results.jsonl", "table.txt"
#: Kill rates that a whole campaign must not fall below.
FLOORS = Path("ci/kill_rate.toml")


def run(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> bool:
    """Judge the mutants that ``options`` choose, or merge files; returns whether no rate is below what is wanted.

    Raises SetupError before anything runs for an unknown kernel, operator or file.
    """
    arguments = argued.read(folder / ARGUED)
    if options.merge:
        found = results.merged(results.read(path) for path in options.merge)
    else:
        load(modules, folder=folder)
        found = _campaign(options, modules, folder)
    found = argued.explained(found, arguments)
    text = table.render(found)
    if options.json is not None:
        results.write(options.json, found)
    if options.out is not None:
        results.write(options.out / RESULTS, found)
        (options.out / TABLE).write_text(text)
    sys.stdout.write(text)
    if options.beside is not None:
        # of what --out wrote the folder is the name
        name = options.beside.parent.name if options.beside.name == RESULTS else options.beside.stem
        sys.stdout.write(peers.render({options.style: found, name: results.read(options.beside)}))
    for argument in argued.stale(found, arguments):
        sys.stdout.write(f"{ARGUED}: killed, so no equivalent: {argument.before!r} -> {argument.after!r}\n")
    # part of a kernel's mutants says little about its rate
    complete = options.merge or (options.shard == (1, 1) and options.limit is None and not options.operator)
    complete = complete and options.again is None
    whole = complete and options.style == "contract"
    lost = floors.below(found, folder / FLOORS) if whole else []
    for kernel, rate, floor in lost:
        sys.stdout.write(f"{kernel}: kill rate {rate:.1%} is below the {floor:.1%} of {FLOORS}\n")
    return not lost and table.rate(found) >= float(options.at_least)


def _campaign(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> list[Result]:
    chosen = targets.targets(selection.pairs(options.kernels, options.impl), selection.pairs(impl=options.impl))
    earlier = results.read(options.earlier) if options.earlier else []
    settings = pool.Settings(
        modules=tuple(modules),
        folder=folder,
        examples=options.examples,
        seed=options.seed,
        deadline=options.deadline,
        jobs=options.jobs,
        fixed=options.style == "fixed",
        told={r.mark: Told(check=r.check, case=r.case) for r in earlier if r.status.killed},
    )
    until = time.monotonic() + (options.budget or float("inf"))
    made = [(target, _chosen(target, options, folder)) for target in chosen]
    progress = _Progress(sys.stderr, sum(len(wanted) for _, wanted in made))
    kept = folder / CACHE if options.out is None else _writable(options.out)
    caches = {target.name: Cache(kept, target, settings) for target, _ in made}
    found: dict[tuple[str, str], Result] = {}
    fresh: list[tuple[targets.Target, list[Mutant]]] = []
    for target, wanted in made:
        known = {mutant.key: caches[target.name].get(mutant.key) for mutant in wanted}
        for result in known.values():
            if result is not None:
                found[target.name, result.key] = result
                progress.add(result)
        left = [mutant for mutant in wanted if known[mutant.key] is None]
        fresh.append((target, sorted(left, key=lambda mutant: mutant.mark)))

    def keep(result: Result) -> None:
        found[result.kernel, result.key] = result
        if result.status is not Status.SKIPPED:
            caches[result.kernel].put(result)
        progress.add(result)

    try:
        pool.run_all(fresh, settings, until=until, on_result=keep)
    except pool.WorkerError as error:
        raise SetupError(str(error)) from error
    return [found[target.name, mutant.key] for target, wanted in made for mutant in wanted]


def _writable(out: Path) -> Path:
    """Return where results of an interrupted run are found again, below ``out``."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"--out {out}: {error.strerror}") from error
    return out / "kept"


def _chosen(target: targets.Target, options: argparse.Namespace, folder: Path) -> list[Mutant]:
    """Return the mutants of ``target`` that are this shard's, and of those at most ``--limit``."""
    sources = [targets.source(name, folder) for name in target.modules]
    try:
        made = mutants(sources, options.operator)
    except KeyError as error:
        raise SetupError(f"no operator {error}; there are: {', '.join(OPERATORS)}") from error
    judging = targets.judging_functions(target.pairs)
    number, count = options.shard
    changed = [mutant for mutant in made if (mutant.module, mutant.function) not in judging]
    if options.again is not None:
        survived = {result.mark for result in results.read(options.again) if result.status is Status.SURVIVED}
        changed = [mutant for mutant in changed if mutant.mark in survived]
    return limited(shard(changed, number, count), options.limit)


def shard(made: Sequence[Mutant], number: int, count: int) -> list[Mutant]:
    """Return part ``number`` of ``count``, counted from 1: every mutant is in one part, whatever else there is."""
    return [mutant for mutant in made if int(mutant.key, 16) % count == number - 1]


def limited(made: Sequence[Mutant], limit: int | None) -> list[Mutant]:
    """Return a sample of at most ``limit`` mutants, the same for the same functions, in the order of the text."""
    sample = {mutant.key for mutant in sorted(made, key=lambda mutant: mutant.mark)[:limit]}
    return [mutant for mutant in made if mutant.key in sample]


class _Progress:
    """One line that is rewritten on a terminal, a line for every survivor elsewhere."""

    def __init__(self, stream: TextIO, total: int) -> None:
        self._stream = stream
        self._total = total
        self._done: list[Result] = []
        self._terminal = stream.isatty()

    def add(self, result: Result) -> None:
        """Tell of one more result."""
        self._done.append(result)
        if self._terminal:
            self._stream.write(f"\r\x1b[K{len(self._done)}/{self._total} {table.headline(self._done)}"[:160])
        elif result.status is Status.SURVIVED or len(self._done) % 50 == 0 or len(self._done) == self._total:
            self._stream.write(
                f"{len(self._done)}/{self._total} {result.status.value.lower()} "
                f"{result.file}:{result.line} {result.operator}\n"
            )
        self._stream.flush()
