"""The child process of ``harness.isolate``: reads one job, searches, and writes lines of JSON to a pipe."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.report.records import Record


def main(pipe: int) -> None:
    """Run the job on standard input; messages are objects with a ``kind``: progress, fault, records or failure."""
    job = json.load(sys.stdin)

    def send(kind: str, **content: Any) -> None:
        os.write(pipe, json.dumps({"kind": kind, **content}).encode() + b"\n")

    try:
        send("progress", phase="load", case="", done=0)
        records = _search(job, send)
    except MemoryError:
        send("failure", message="out of memory")
    except Exception as error:
        from harness.outcome import described

        send("failure", message=described(error))
    else:
        send("records", records=[record.to_dict() for record in records])


def _search(job: dict[str, Any], send: Any) -> list[Record]:
    from harness import discover, known_file, registry
    from harness.hunt import Fault
    from harness.search import plain, search

    discover.load(job["modules"], folder=Path(job["folder"]))
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
        examples=job["examples"],
        seed=job["seed"],
        pinned=job["pinned"],
        profile=job["profile"],
        deadline=job["deadline"],
        progress=progress,
        on_fault=found,
    )
    return report.records()


if __name__ == "__main__":
    main(int(sys.argv[1]))
