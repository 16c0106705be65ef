"""The sample of mutants: all of it tried again, or drawn anew; ``mutate --sample`` and ``mutate --renew``.

Processes of their own load torch and the kernels, once each, and take one kernel after the other.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.discover import SetupError
from harness.mutation import arguments, sample
from harness.mutation.sample import Entry

if TYPE_CHECKING:
    from harness.mutation.session import Session

#: Where the sample is, below the folder of the pytest configuration.
SAMPLE = Path(arguments.SAMPLE)
#: Seconds of a processor for a mutant that its own unit does not kill any more.
SEARCH_SECONDS = 15.0
#: Mutants of each kernel that are looked at for new ones, unless ``--limit`` says otherwise.
POOL = 40

#: What this process has loaded.
_sessions: list[Session] = []


@dataclass(frozen=True)
class Tried:
    """The sample of one kernel: how many of it were killed, a line for each that was not and for each out of date."""

    kernel: str
    killed: int
    survived: tuple[str, ...]
    stale: tuple[str, ...]
    cpu: float


def run(options: argparse.Namespace, modules: Sequence[str], folder: Path) -> bool:
    """Try the sample of the chosen kernels again, or draw it anew; returns whether all is killed and up to date.

    Raises SetupError for an unknown kernel, for a file that holds no sample, and where a process cannot go on.
    """
    entries = sample.read(folder / SAMPLE)
    with _processes(options.jobs, modules, folder) as processes:
        known = processes.submit(_names).result()
        for name in options.kernels:
            if name not in known:
                raise SetupError(f"no kernel {name!r}; there are: {', '.join(known)}")
        names = options.kernels or known
        own = [[one for one in entries if one.kernel == name] for name in names]
        if options.renew:
            pool = POOL if options.limit is None else options.limit
            renewed = processes.map(_renewed, names, own, [pool] * len(names), [options.operator] * len(names))
            gone = [one for one in entries if one.kernel not in known and not options.kernels]
            _keep(folder / SAMPLE, [one for one in entries if one not in gone], zip(names, renewed, strict=True))
            return True
        return _told(list(processes.map(try_again, names, own)), [one for one in entries if one.kernel not in known])


@contextmanager
def _processes(jobs: int, modules: Sequence[str], folder: Path) -> Iterator[ProcessPoolExecutor]:
    # read when torch is loaded: a fork inherits no threads, so there must be none
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(jobs, context, _begin, (tuple(modules), folder)) as processes:
            yield processes
    except BrokenProcessPool as error:
        raise SetupError(f"--sample: a process ended: {error}") from error


def _begin(modules: Sequence[str], folder: Path) -> None:
    from harness.mutation.session import Session

    _sessions.append(Session(modules, folder))


def _names() -> list[str]:
    return list(_sessions[0].targets)


def _renewed(name: str, entries: Sequence[Entry], pool: int, operators: Sequence[str]) -> list[Entry]:
    from harness.mutation import draw

    return draw.renewed(_sessions[0], name, entries, pool, operators)


def try_again(name: str, entries: Sequence[Entry]) -> Tried:
    """Return what became of the ``entries`` of kernel ``name``."""
    session = _sessions[0]
    made = sample.once(session.mutants(name))
    stale = [f"{name}: no such mutant now: {one}" for one in entries if one.mark and one.mark not in made]
    if not entries:
        stale.append(f"{name}: no mutant in the sample")
    survived, killed, cpu = [], 0, 0.0
    for one in entries:
        if one.mark not in made:
            continue
        unit = session.unit(name, one.case, deep=one.deep)
        words = "nothing pins or draws it"
        if unit is not None:
            outcome = session.first_kill(name, made[one.mark], [unit], math.inf)
            cpu += outcome.cpu
            words = outcome.message or "all its checks pass"
        if unit is None or not outcome.status.killed:
            outcome = session.first_kill(name, made[one.mark], session.units(name), SEARCH_SECONDS)
            cpu += outcome.cpu
        if outcome.status.killed:
            killed += 1
        else:
            needs = f"; what kills it has in common: {', '.join(one.needs)}" if one.needs else ""
            survived.append(f"SURVIVED {name}: {one}\n  killed by {one.check} on {one.case}; now {words}{needs}")
    return Tried(name, killed, tuple(survived), tuple(stale), cpu)


def _keep(path: Path, entries: Sequence[Entry], renewed: Iterable[tuple[str, list[Entry]]]) -> None:
    """Put the new entries of each kernel in the place of its old ones as soon as they are there."""
    kept = list(entries)
    for name, found in renewed:
        old = {one.mark for one in kept if one.kernel == name}
        kept = [one for one in kept if one.kernel != name] + found
        sample.write(path, kept)
        new = sum(one.mark not in old for one in found)
        sys.stdout.write(f"{name}: {len(found)} mutants, {new} of them new\n")
        sys.stdout.flush()


def _told(tried: Sequence[Tried], gone: Sequence[Entry]) -> bool:
    """Say what survived and what is out of date; returns whether nothing did and nothing is."""
    survived = [line for one in tried for line in one.survived]
    stale = [line for one in tried for line in one.stale] + [f"{one.kernel}: no such kernel now: {one}" for one in gone]
    killed, cpu = sum(one.killed for one in tried), sum(one.cpu for one in tried)
    sys.stdout.writelines(f"{line}\n" for line in (*survived, *stale))
    if stale:
        sys.stdout.write(f"{SAMPLE} is out of date; {sample.RENEW} keeps what it can and draws the rest anew\n")
    sys.stdout.write(f"{killed} of {killed + len(survived)} mutants of {SAMPLE} killed, {cpu:.0f} s of a processor\n")
    return not (survived or stale)
