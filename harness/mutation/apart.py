"""A call in a process of its own: what it breaks, and what it hangs on, is that process."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from harness.outcome import described


@dataclass(frozen=True)
class Outcome:
    """What a call returned, or how it ended: the words of an exception, a signal, or for how long it was silent."""

    value: Any = None
    problem: str = ""
    #: Whether the problem is that there was no answer in time.
    late: bool = False


def apart(call: Callable[[], Any], *, seconds: float) -> Outcome:
    """Return what ``call()`` gives in a fork of this process, which is gone afterwards.

    The value is pickled on its way.  An exception, SystemExit included, the death of the fork, and no answer after
    ``seconds`` are a ``problem``.  The process must have no other threads.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _answer(call, writing)
    os.close(writing)
    data, until = b"", time.monotonic() + seconds
    with open(reading, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            part = pipe.read(2**20) if ready else None
            if not part:
                break
            data += part
    late = part is None
    if late:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if late:
        return Outcome(problem=f"no answer after {seconds:.0f} s", late=True)
    if not data:
        return Outcome(problem=f"the process ended with status {os.waitstatus_to_exitcode(status)}")
    found: Outcome = pickle.loads(data)
    return found


def _answer(call: Callable[[], Any], writing: int) -> NoReturn:
    """Be the fork: write the outcome and end."""
    try:
        # reports of tools are long, and nobody reads them
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            try:
                found = Outcome(value=call())
            except BaseException as error:
                found = Outcome(problem=described(error))
        with open(writing, "wb") as pipe:
            pipe.write(pickle.dumps(found))
    finally:
        os._exit(0)
