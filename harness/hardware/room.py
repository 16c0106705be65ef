"""Memory of a device shared by the workers of one machine: how much a case needs, and waiting until it is there."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import torch

from harness.arguments import tensors, widened
from harness.compiling.shapes import ShapesOnly
from harness.contract import Contract
from harness.hardware.crew import SHARE, TOGETHER, WORKER
from harness.hardware.worker import WORKERS
from harness.lanes import Busy, NoRoom
from harness.poison import Poison

#: Cases up to this many bytes take no notice of each other.
SMALL = 2**28
#: Sets of arguments that a trial holds at once: the first launch's, the one it compares with, and one in between.
SETS = 4
WAIT_SECONDS = 300.0


def needed(contract: Contract[Any], case: Any, *, wide: bool = False) -> int:
    """Return the bytes of the launch arguments of ``case``, with ``wide`` also of their float64 form; none are made."""
    with ShapesOnly():
        inputs = contract.inputs(case, torch.device("cpu"), Poison())
        all_tensors = [*tensors(inputs).values(), *(tensors(widened(inputs)).values() if wide else ())]
        storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in all_tensors}
    return sum(storages.values())


@contextmanager
def room_for(wanted: int, device: torch.device) -> Iterator[None]:
    """Wait until ``wanted`` bytes are left over by the other workers of this machine, and hold them.

    Raises NoRoom for more than ``SHARE`` of the device's memory, and Busy where too little was given back in
    ``WAIT_SECONDS``.
    """
    properties = torch.cuda.get_device_properties(device)
    total = properties.total_memory
    if wanted > SHARE * total:
        raise NoRoom(f"needs {_gib(wanted)} of GPU memory, may have {_gib(SHARE * total)}")
    workers = int(os.environ.get(WORKERS, "1"))
    if wanted <= SMALL or workers == 1:
        yield
        return
    path = Path(tempfile.gettempdir()) / f"harness-gpu-{properties.uuid}-{os.getuid()}.json"
    _reserve(path, wanted, TOGETHER * total - workers * WORKER)
    try:
        yield
    finally:
        torch.cuda.empty_cache()
        _release(path)


def _reserve(path: Path, wanted: int, most: float) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while True:
        with _held(path) as held:
            taken = sum(held.values())
            # one that fits nowhere together with others runs when there are none
            if not held or taken + wanted <= most:
                held[str(os.getpid())] = wanted
                return
        if time.monotonic() > until:
            left = _gib(most - taken)
            raise Busy(f"needs {_gib(wanted)} of GPU memory; {left} are left by other workers after {WAIT_SECONDS:g} s")
        time.sleep(0.1)


def _release(path: Path) -> None:
    with _held(path) as held:
        held.pop(str(os.getpid()), None)


@contextmanager
def _held(path: Path) -> Iterator[dict[str, int]]:
    """What is held now, by process; changes are written.  Processes that are gone hold nothing."""
    with open(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        held = {pid: count for pid, count in _read(file).items() if os.path.exists(f"/proc/{pid}")}
        yield held
        file.seek(0)
        file.truncate()
        json.dump(held, file)


def _read(file: IO[str]) -> dict[str, int]:
    file.seek(0)
    try:
        return dict(json.load(file))
    except ValueError:
        # new, or left half written by a process that was killed
        return {}


def _gib(count: float) -> str:
    return f"{count / 2**30:.1f} GiB"
