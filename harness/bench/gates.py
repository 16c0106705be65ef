"""Results checked by several child processes at once, before anything is timed: checks need CPUs, times need quiet."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True)
class Checked:
    """``found`` says, by ``store.title``, why something must not be timed, None where it is right.

    ``again`` are titles for which there was no memory beside the others; ``otherwise`` is the reason for what no child
    said anything of.
    """

    found: Mapping[str, str | None]
    again: frozenset[str] = frozenset()
    otherwise: str = "its check said nothing"

    def refusal(self, title: str) -> str | None:
        """Return why the benchmarks of ``title`` must not be made, or None."""
        return self.found.get(title, self.otherwise)


def share(workloads: Iterable[Workload], lane: Lane, number: int, count: int) -> Checked:
    """Check every ``count``-th of ``workloads`` from ``number`` on, here.

    After a fault that ends the device's context the rest is left out.
    """
    found: dict[str, str | None] = {}
    again: set[str] = set()
    for contract, implementations, case, label in itertools.islice(workloads, number, None, count):
        titles = [store.title(contract.name, one.name, label) for one in implementations]
        try:
            with _room(contract, case, lane):
                inputs, _ = drawn(contract, case, lane.device)
                gate = Gate(contract, case, lane, inputs)
                for title, one in zip(titles, implementations, strict=True):
                    reason = gate.refusal(one)
                    if gate.out_of_memory:
                        again.update(title for title in titles if title not in found)
                        break
                    found[title] = reason
                del gate, inputs
        except ContextLost as error:
            found |= {title: str(error) for title in titles if title not in found}
            break
        except (NoRoom, Busy, MemoryError, torch.OutOfMemoryError):
            again.update(title for title in titles if title not in found)
        except (ContractError, RuntimeError) as error:
            reason = f"it could not be checked: {described(error).splitlines()[0]}"
            found |= {title: reason for title in titles if title not in found}
    return Checked(found=found, again=frozenset(again))


def write(path: Path, checked: Checked) -> None:
    """Write ``checked`` for ``shared``."""
    path.write_text(json.dumps({"found": dict(checked.found), "again": sorted(checked.again)}))


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

    A child that fails or takes longer than ``deadline`` seconds leaves out what it had not said.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary, ThreadPoolExecutor(jobs) as pool:
        files = [Path(temporary) / f"{number}.json" for number in range(jobs)]
        said = list(pool.map(lambda number: _child(flags, folder, files[number], number, jobs, deadline), range(jobs)))
        parts = [json.loads(file.read_text()) for file in files if file.is_file()]
    return Checked(
        found={title: reason for part in parts for title, reason in part["found"].items()},
        again=frozenset(title for part in parts for title in part["again"]),
        otherwise=next((words for words in said if words), Checked.otherwise),
    )


def _child(flags: Sequence[str], folder: Path, out: Path, number: int, jobs: int, deadline: float) -> str:
    """Run one child; returns what became of it, empty where it ended well."""
    safe = ["-P"] if sys.flags.safe_path else []
    command = [sys.executable, *safe, "-m", "harness", "bench", "run", *flags]
    from harness.hardware.worker import WORKERS

    threads = str(max(1, (os.cpu_count() or 1) // jobs))
    environment = {"OMP_NUM_THREADS": threads, **os.environ, WORKERS: str(jobs)}
    try:
        status, said = children.ended(
            [*command, "--share", f"{number}/{jobs}", "--out", str(out)], folder, environment, deadline
        )
    except subprocess.TimeoutExpired:
        return f"its check took longer than {deadline:g} s"
    if out.is_file():
        return ""
    return f"its check failed: {(said.strip().splitlines() or [f'exit status {status}'])[-1]}"
