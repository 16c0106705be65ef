"""The ``mutate`` command: mutants of the chosen kernels, through the checks of their contracts."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from harness import selection
from harness.discover import SetupError, load
from harness.mutation import argued, floors, pool, results, table, targets
from harness.mutation.cache import Cache
from harness.mutation.generate import mutants
from harness.mutation.operators import OPERATORS
from harness.mutation.results import Result, Status
from harness.mutation.source import Mutant

#: Where results are kept, and where survivors are argued about, below the folder of the pytest configuration.
CACHE = Path(".cache/mutation")
ARGUED = Path("ci/equivalents.toml")
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
        found = list(_campaign(options, modules, folder))
    found = argued.explained(found, arguments)
    if options.json is not None:
        results.write(options.json, found)
    sys.stdout.write(table.render(found))
    for argument in argued.stale(found, arguments):
        sys.stdout.write(f"{ARGUED}: killed, so no equivalent: {argument.before!r} -> {argument.after!r}\n")
    # part of a kernel's mutants says little about its rate
    whole = options.merge or (options.shard == (1, 1) and options.limit is None and not options.operator)
    lost = floors.below(found, folder / FLOORS) if whole else []
    for kernel, rate, floor in lost:
        sys.stdout.write(f"{kernel}: kill rate {rate:.1%} is below the {floor:.1%} of {FLOORS}\n")
    return not lost and table.rate(found) >= float(options.at_least)


def _campaign(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> Iterator[Result]:
    chosen = targets.targets(selection.pairs(options.kernels, options.impl), selection.pairs(impl=options.impl))
    settings = pool.Settings(
        modules=tuple(modules),
        folder=folder,
        examples=options.examples,
        seed=options.seed,
        deadline=options.deadline,
        jobs=options.jobs,
    )
    until = time.monotonic() + (options.budget or float("inf"))
    made = [(target, _chosen(target, options, folder)) for target in chosen]
    progress = _Progress(sys.stderr, sum(len(wanted) for _, wanted in made))
    for target, wanted in made:
        cache = Cache(folder / CACHE, target, settings)
        found = {mutant.key: known for mutant in wanted if (known := cache.get(mutant.key)) is not None}
        for known in found.values():
            progress.add(known)

        def keep(result: Result, cache: Cache = cache, found: dict[str, Result] = found) -> None:
            found[result.key] = result
            if result.status is not Status.SKIPPED:
                cache.put(result)
            progress.add(result)

        fresh = sorted((m for m in wanted if m.key not in found), key=lambda mutant: mutant.key)
        try:
            pool.run(target, fresh, settings, until=until, on_result=keep)
        except pool.WorkerError as error:
            raise SetupError(str(error)) from error
        yield from (found[mutant.key] for mutant in wanted)


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
    return limited(shard(changed, number, count), options.limit)


def shard(made: Sequence[Mutant], number: int, count: int) -> list[Mutant]:
    """Return part ``number`` of ``count``, counted from 1: every mutant is in one part, whatever else there is."""
    return [mutant for mutant in made if int(mutant.key, 16) % count == number - 1]


def limited(made: Sequence[Mutant], limit: int | None) -> list[Mutant]:
    """Return a sample of at most ``limit`` mutants, the same for the same sources, in the order of the text."""
    sample = {mutant.key for mutant in sorted(made, key=lambda mutant: mutant.key)[:limit]}
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
