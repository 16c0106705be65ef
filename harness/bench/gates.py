"""Results checked by several child processes at once, before anything is timed: checks need CPUs, times need quiet."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from harness.bench import children, store
from harness.bench.drawing import drawn
from harness.bench.gate import Gate
from harness.contract import Contract, Implementation
from harness.lanes import Busy, ContextLost, Lane, NoRoom
from harness.outcome import ContractError, described

Workload = tuple[Contract[Any], Sequence[Implementation], Any, str]
#: Copies of a case's arguments, with their float64 form, that a check may hold at once beside their first.
_SLACK = 1.25
#: Processes that the checks of one share may end.
_LOSSES = 8


@dataclass(frozen=True, kw_only=True)
class Checked:
    """``found`` says, by ``store.title``, why something must not be timed, None where it is right.

    ``again`` are titles for which there was no memory beside the others; ``otherwise`` is the reason for what no child
    said anything of.  ``at`` is what was being checked when this was written, and ``done`` false where more is left.
    """

    found: Mapping[str, str | None]
    again: frozenset[str] = frozenset()
    otherwise: str = "its check said nothing"
    at: str = ""
    done: bool = True

    def refusal(self, title: str) -> str | None:
        """Return why the benchmarks of ``title`` must not be made, or None."""
        return self.found.get(title, self.otherwise)


def share(
    workloads: Iterable[Workload],
    lane: Lane,
    number: int,
    count: int,
    *,
    before: Checked | None = None,
    keep: Callable[[Checked], None] = lambda checked: None,
) -> Checked:
    """Check every ``count``-th of ``workloads`` from ``number`` on, here, but for what ``before`` says already.

    ``keep`` is told what is known before each check.  After a fault that ends the device's context what is left is for
    another process: the result is not ``done``.
    """
    found = {} if before is None else dict(before.found)
    again = set() if before is None else set(before.again)
    for contract, implementations, case, label in itertools.islice(workloads, number, None, count):
        titles = {store.title(contract.name, one.name, label): one for one in implementations}
        left = [title for title in titles if title not in found and title not in again]
        at = left[0] if left else ""
        try:
            if not left:
                continue
            keep(Checked(found=found, again=frozenset(again), at=at, done=False))
            with _room(contract, case, lane):
                inputs, _ = drawn(contract, case, lane.device)
                gate = Gate(contract, case, lane, inputs)
                for at in left:
                    keep(Checked(found=found, again=frozenset(again), at=at, done=False))
                    reason = gate.refusal(titles[at])
                    if gate.out_of_memory:
                        again.update(title for title in left if title not in found)
                        break
                    found[at] = reason
                del gate, inputs
        except ContextLost as error:
            return Checked(found={**found, at: str(error)}, again=frozenset(again), done=False)
        except (NoRoom, Busy, MemoryError, torch.OutOfMemoryError):
            again.update(title for title in left if title not in found)
        except (ContractError, RuntimeError) as error:
            reason = f"it could not be checked: {described(error).splitlines()[0]}"
            found |= {title: reason for title in left if title not in found}
    return Checked(found=found, again=frozenset(again))


def write(path: Path, checked: Checked) -> None:
    """Write ``checked`` for ``read``, all at once: who writes may be ended at any time."""
    content = {"found": dict(checked.found), "again": sorted(checked.again), "at": checked.at, "done": checked.done}
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(content))
    beside.replace(path)


def read(path: Path) -> Checked:
    """Read what ``write`` wrote; nothing is known where there is no file."""
    if not path.is_file():
        return Checked(found={}, done=False)
    content = json.loads(path.read_text())
    return Checked(**{**content, "again": frozenset(content["again"])})


@contextlib.contextmanager
def _room(contract: Contract[Any], case: Any, lane: Lane) -> Iterator[None]:
    """Wait until the device has memory for a case and its oracle."""
    if lane.device.type == "cpu":
        yield
        return
    # what counts a case's bytes loads the compile lane, which no block needs
    from harness.hardware.room import needed, room_for

    try:
        with room_for(round(_SLACK * needed(contract, case, wide=True)), lane.device):
            yield
    finally:
        torch.cuda.empty_cache()


def shared(flags: Sequence[str], folder: Path, *, jobs: int, deadline: float) -> Checked:
    """Check in ``jobs`` child processes what ``bench run`` with ``flags`` would time in ``folder``.

    A child that a check ends, or the device's context with it, is followed by another one, which goes on after that
    check.  What was not checked after ``deadline`` seconds is left out.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary, ThreadPoolExecutor(jobs) as pool:
        files = [Path(temporary) / f"{number}.json" for number in range(jobs)]
        said = list(
            pool.map(lambda number: _children(flags, folder, files[number], number, jobs, deadline), range(jobs))
        )
        parts = [read(file) for file in files]
    return Checked(
        found={title: reason for part in parts for title, reason in part.found.items()},
        again=frozenset(title for part in parts for title in part.again),
        otherwise=next((words for words in said if words), Checked.otherwise),
    )


def _children(flags: Sequence[str], folder: Path, out: Path, number: int, jobs: int, deadline: float) -> str:
    """Run children, one after another, until all of a share is checked; returns why it is not, empty where it is."""
    until = time.monotonic() + deadline
    for _ in range(_LOSSES):
        try:
            status, said = _child(flags, folder, out, number, jobs, until - time.monotonic())
        except subprocess.TimeoutExpired:
            return f"its check took longer than {deadline:g} s"
        checked, last = read(out), (said.strip().splitlines() or [f"exit status {status}"])[-1]
        if checked.done:
            return ""
        if not checked.at and not checked.found:
            return f"its check failed: {last}"
        if checked.at:
            write(out, replace(checked, found={**checked.found, checked.at: f"its check failed: {last}"}, at=""))
    return f"the checks before its own ended {_LOSSES} processes"


def _child(flags: Sequence[str], folder: Path, out: Path, number: int, jobs: int, deadline: float) -> tuple[int, str]:
    """Run one child and return its exit status and what it wrote on stderr."""
    safe = ["-P"] if sys.flags.safe_path else []
    command = [sys.executable, *safe, "-m", "harness", "bench", "run", *flags]
    from harness.hardware.worker import WORKERS

    threads = str(max(1, (os.cpu_count() or 1) // jobs))
    environment = {"OMP_NUM_THREADS": threads, **os.environ, WORKERS: str(jobs)}
    return children.ended(
        [*command, "--share", f"{number}/{jobs}", "--out", str(out)], folder, environment, max(deadline, 0.0)
    )
