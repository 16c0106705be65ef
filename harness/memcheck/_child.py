"""The process that a tool watches: launches one implementation on a few small cases, and says so on standard output.

Its messages are lines that begin with ``stream.MARK``; the tool's reports come between them.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from harness.memcheck.stream import MARK

#: Seconds between looks whether somebody still waits for this process.
_LOOK_SECONDS = 2.0


def main(job: dict[str, Any]) -> None:
    """Run a job, the fields of ``lane.Job``."""
    import torch

    from harness import discover, known_file, registry
    from harness.copies import storage_bytes
    from harness.hardware.emulation import CannotEmulate, emulating
    from harness.hardware.launches import watching
    from harness.memcheck import choice, inputs
    from harness.outcome import described
    from harness.poison import Poison

    discover.load(job["modules"], folder=Path(job["folder"]))
    contract = registry.contract(job["contract"])
    named = [i for i in registry.implementations(contract.name) if i.name == job["implementation"]]
    if not named:
        raise LookupError(f"no implementation {job['implementation']!r} of {contract.name} is registered")
    known = known_file.read(Path(job["known"])) if job["known"] else ()
    implementation = known_file.excused(named[0], contract, known)
    device = torch.device("cuda", job["device"])
    torch.cuda.set_device(device)
    waiting, spare = choice.of_job(contract, implementation, job), choice.instead(contract, implementation, job)
    # what comes in place of a case is judged by its size too
    for number, case in enumerate(waiting):
        given = contract.inputs(case, torch.device("cpu"), Poison())
        if (size := storage_bytes(given)) > inputs.MOST_BYTES:
            say("left out", case=repr(case), reason=inputs.too_large(size))
            waiting += itertools.islice(spare, 1)
            continue
        given = inputs.moved(given, device)
        torch.cuda.synchronize()
        say("case", case=repr(case))
        try:
            # autotuned kernels take another configuration each time, and are not timed
            with emulating(job["emulated"]) if job["emulated"] else nullcontext(), watching(config=number):
                implementation.launch(**given)
            torch.cuda.synchronize()
        except CannotEmulate as error:
            say("left out", case=repr(case), reason=str(error))
        except Exception as error:
            say("raised", message=described(error))
        else:
            say("end")
    say("done")


def end_with(parent: int) -> None:
    """Let this process end soon after process ``parent``, which may be killed without ending the tool between them."""

    def look() -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            try:
                os.kill(parent, 0)
            except ProcessLookupError:
                os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def say(kind: str, **content: Any) -> None:
    """Write one message, at once: what follows may be the tool's, or nothing."""
    sys.stdout.write(f"{MARK}{json.dumps({'kind': kind, **content})}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    end_with(asked["parent"])
    main(asked)
