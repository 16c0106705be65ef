"""The mutants that a command line chooses, through the checks of their contracts."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from harness import selection
from harness.discover import SetupError, load
from harness.mutation import parts, pool, results, styles, table, targets
from harness.mutation.cache import Cache
from harness.mutation.generate import mutants
from harness.mutation.operators import OPERATORS
from harness.mutation.results import Part, Red, Result, Status, Told
from harness.mutation.source import Mutant

#: Where results are kept below the folder of the pytest configuration.
CACHE = Path(".cache/mutation")


@dataclass(frozen=True, kw_only=True)
class Found:
    """Results, the part of a campaign that they are, and lines for whoever reads them."""

    results: list[Result]
    part: Part
    notes: list[str]


def run(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> Found:
    """Judge the mutants that ``options`` choose of the kernels that ``modules`` register.

    Raises SetupError before anything runs for an unknown kernel, operator or file, where no kernel is found, or where
    the style has no case for a contract; and where a worker cannot go on.
    """
    if options.in_order and options.earlier:
        raise SetupError("--in-order asks nothing first: --earlier would have no effect")
    earlier = results.read(options.earlier) if options.earlier else []
    again = None if options.again is None else results.read(options.again)
    styles.version(options.style)
    load(modules, folder=folder)
    pairs = selection.pairs(options.kernels, options.impl)
    notes = _without_kernels(pairs, named=bool(options.kernels))
    chosen = targets.targets(pairs, selection.pairs(impl=options.impl))
    styles.check(options.style, [pair for target in chosen for pair in target.pairs])
    settings = pool.Settings(
        modules=tuple(modules),
        folder=folder,
        examples=options.examples,
        seed=options.seed,
        deadline=options.deadline,
        jobs=options.jobs,
        style=options.style,
        in_order=options.in_order,
        told={r.mark: Told(check=r.check, case=r.case) for r in earlier if r.status.killed},
    )
    until = time.monotonic() + (options.budget or float("inf"))
    made = [(target, _made(target, folder)) for target in chosen]
    wanted = [(target, _chosen(target, every, options, again, folder)) for target, every in made]
    if again is not None:
        own = {target.name for target in chosen}
        asked = [result for result in again if result.kernel in own or not options.kernels]
        notes += _unmatched(options.again, asked, [mutant for _, every in made for mutant in every])
    kept = folder / CACHE if options.out is None else options.out / "kept"
    found, red = _judged(wanted, settings, {target.name: Cache(kept, target, settings) for target in chosen}, until)
    return Found(
        results=found,
        part=Part(
            style=options.style,
            shard=options.shard[0],
            shards=options.shard[1],
            kernels={target.name: parts.whole(every) for target, every in made},
            red=tuple(red),
            limit=options.limit,
            operators=tuple(options.operator),
            again=again is not None,
        ),
        notes=notes,
    )


def _judged(
    wanted: Sequence[tuple[targets.Target, Sequence[Mutant]]],
    settings: pool.Settings,
    caches: dict[str, Cache],
    until: float,
) -> tuple[list[Result], list[Red]]:
    """Return the results of all mutants, from the caches where they have them, and what fails on the originals."""
    progress = _Progress(sys.stderr, sum(len(mutants) for _, mutants in wanted))
    found: dict[tuple[str, str], Result] = {}
    fresh: list[tuple[targets.Target, list[Mutant]]] = []
    for target, made in wanted:
        known = {mutant.key: caches[target.name].get(mutant.key) for mutant in made}
        for result in known.values():
            if result is not None:
                found[target.name, result.key] = result
                progress.add(result)
        left = [mutant for mutant in made if known[mutant.key] is None]
        fresh.append((target, sorted(left, key=lambda mutant: mutant.mark)))

    def keep(result: Result) -> None:
        found[result.kernel, result.key] = result
        if result.status is not Status.SKIPPED:
            caches[result.kernel].put(result)
        progress.add(result)

    def keep_red(red: Red) -> None:
        if red.check not in {known.check for known in caches[red.kernel].red}:
            sys.stderr.write(f"{red.kernel}: fails on the original: {red.check} on {red.case}: {red.message}\n")
        caches[red.kernel].put_red(red)

    try:
        pool.run_all(fresh, settings, until=until, on_result=keep, on_red=keep_red)
    except pool.WorkerError as error:
        raise SetupError(str(error)) from error
    ordered = [found[target.name, mutant.key] for target, made in wanted for mutant in made]
    return ordered, [red for cache in caches.values() for red in cache.red]


def _without_kernels(pairs: Sequence[targets.Pair], *, named: bool) -> list[str]:
    """Return a line for each contract behind whose implementations no kernel was found.

    Raises SetupError where that is all, or where they were ``named``.
    """
    lines = [
        f"{name}: no jitted function in {', '.join(searched) or 'any module'}, searched for its implementations; "
        "name the kernel, or the function that launches it, in the module that registers it"
        for name, searched in targets.without_kernels(pairs).items()
    ]
    if lines and (named or len(lines) == len({contract.name for contract, _ in pairs})):
        raise SetupError("\n".join(lines))
    return lines


def _made(target: targets.Target, folder: Path, operators: Sequence[str] = ()) -> list[Mutant]:
    """Return the mutants of ``target`` but for those of what judges."""
    sources = [targets.source(name, folder) for name in target.modules]
    try:
        return targets.changing(mutants(sources, operators), target.pairs)
    except KeyError as error:
        raise SetupError(f"no operator {error}; there are: {', '.join(OPERATORS)}") from error


def _chosen(
    target: targets.Target,
    made: Sequence[Mutant],
    options: argparse.Namespace,
    again: Sequence[Result] | None,
    folder: Path,
) -> list[Mutant]:
    """Return the mutants of ``target`` that are this shard's, and of those at most ``--limit``."""
    chosen = _made(target, folder, options.operator) if options.operator else made
    if again is not None:
        survived = {result.mark for result in again if result.status is Status.SURVIVED}
        chosen = [mutant for mutant in chosen if mutant.mark in survived]
    return limited(shard(chosen, *options.shard), options.limit)


def _unmatched(path: Path, again: Sequence[Result], made: Sequence[Mutant]) -> list[str]:
    """Return a line for each survivor in ``path`` that is no mutant of the chosen kernels any more."""
    marks = {mutant.mark for mutant in made}
    return [
        f"{path}: no such mutant now: {result.kernel} {result.file}:{result.line} {result.operator} {result.key}"
        for result in again
        if result.status is Status.SURVIVED and result.mark not in marks
    ]


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
