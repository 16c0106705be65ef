"""The child process of ``harness.isolate``: reads one job, searches, and writes lines of JSON to a pipe."""

from __future__ import annotations

import gc
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.report.records import Record, Verdict

#: New objects between two looks for cycles.
YOUNG_OBJECTS = 10_000


def main(pipe: int) -> None:
    """Run the job on standard input; messages are objects with a ``kind``: progress, fault, records or failure."""
    job = json.load(sys.stdin)

    def send(kind: str, **content: Any) -> None:
        os.write(pipe, json.dumps({"kind": kind, **content}).encode() + b"\n")

    try:
        send("progress", phase="load", case="", done=0)
        records = _search(job, send)
    # a launch's own is caught by its lane; this one would be silent
    except (Exception, SystemExit) as error:
        message, verdict = _end(error)
        if verdict is Verdict.CONTRACT and not getattr(error, "contract", ""):
            message = f"contract {job['contract']}: {message}"
        send("failure", message=message, verdict=verdict, case=getattr(error, "case", ""))
    else:
        send("records", records=[record.to_dict() for record in records])


def _end(error: Exception | SystemExit) -> tuple[str, Verdict]:
    """Return what is to be said of the exception that ended the search, and its verdict."""
    # first, as nothing can be imported where the host's memory is full
    if isinstance(error, MemoryError):
        return f"out of memory: {error}" if str(error) else "out of memory", Verdict.OOM
    from harness.hardware import probe
    from harness.lanes import ContextLost
    from harness.outcome import ContractError, described

    if isinstance(error, ContextLost):
        return described(error), Verdict.STICKY_ERROR
    # the device's, outside of a launch: for arguments or an oracle
    if isinstance(error, Exception) and probe.is_out_of_memory(error):
        return described(error), Verdict.OOM
    return (str(error), Verdict.CONTRACT) if isinstance(error, ContractError) else (described(error), Verdict.CRASH)


def _search(job: dict[str, Any], send: Any) -> list[Record]:
    from harness import discover, known_file, registry
    from harness.fault import Fault
    from harness.search import plain, search

    discover.load(job["modules"], folder=Path(job["folder"]))
    # a kernel's values come and go by the thousand, and none of them in a cycle
    gc.set_threshold(YOUNG_OBJECTS)
    contract = registry.contract(job["contract"])
    named = [i for i in registry.implementations(contract.name) if i.name == job["implementation"]]
    if not named:
        raise LookupError(f"no implementation {job['implementation']!r} of {contract.name} is registered")
    excused = known_file.excused(named[0], contract, known_file.read(Path(job["known"])) if job["known"] else ())

    def progress(phase: str, case: str, done: int) -> None:
        send("progress", phase=phase, case=case, done=done)

    def found(fault: Fault) -> None:
        send("fault", fault=asdict(plain(fault)))

    report = search(
        contract,
        excused,
        lane=_lane(job),
        examples=job["examples"],
        seed=job["seed"],
        pinned=job["pinned"],
        deadline=job["deadline"],
        progress=progress,
        on_fault=found,
    )
    return report.records()


def _lane(job: dict[str, Any]) -> Any:
    if job["lane"] == "virtual":
        from dataclasses import replace

        from harness.elsewhere import virtual_lane
        from harness.traffic import record

        return replace(virtual_lane(job["target"]), record=record.read(Path(job["folder"])))
    from harness.hardware import selection
    from harness.hardware.lane import device_lane

    # the one that the command named, which need not be device 0
    return device_lane(selection.lane_target(job["emulate"]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
