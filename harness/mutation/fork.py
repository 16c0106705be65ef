"""A process of its own for one piece of work, which may crash, hang or fill the memory."""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

from harness.mutation.results import LANES, Status

#: Bytes that a fork may hold on top of what its parent holds.
MEMORY = 4 * 2**30
#: Seconds between two looks at how much a fork holds and does.
LOOK_SECONDS = 1.0
#: What ended a process is no check of a contract.
CHECK = "process"
#: States of a process that waits for a processor or a disk: how long says more about the machine than about it.
_BUSY = "RD"


class Fork:
    """A child process that runs ``work(send)`` and nothing else."""

    def __init__(self, work: Callable[[Callable[..., None]], None]) -> None:
        self._pipe, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._pipe)
            _run(work, writing)
        os.close(writing)
        self._unit: int | None = None
        #: Units that began; -1 before anything did.
        self._begun = -1
        self._result: dict[str, Any] | None = None
        #: What ``work`` raised, as text.
        self.failure = ""
        #: Number of a unit -> the kernels that it launched.
        self.kernels: dict[int, list[str]] = {}
        #: Seconds of processor time that it used, known after ``watch``.
        self.cpu = 0.0

    def watch(self, allowed: Callable[[int | None], float]) -> dict[str, Any]:
        """Wait for the result; the process is gone then.

        It hangs if for more than ``allowed(unit)`` seconds it says nothing while it computes or sleeps: those in which
        it waits for a processor are not its own.
        """
        silence, most = _Silence(self._pid), _held(os.getpid()) + MEMORY
        pending, fate = b"", (Status.CRASH, "")
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            while True:
                if selector.select(LOOK_SECONDS):
                    silence.end()
                    if not (data := os.read(self._pipe, 2**20)):
                        break
                    *lines, pending = (pending + data).split(b"\n")
                    for line in lines:
                        self._hear(json.loads(line))
                elif silence.seconds() > allowed(self._unit):
                    fate = Status.TIMEOUT, f"silent for {allowed(self._unit):.0f} s"
                    break
                elif _held(self._pid) > most:
                    fate = Status.CRASH, f"held {MEMORY / 2**30:.0f} GiB more than the original"
                    break
        os.kill(self._pid, signal.SIGKILL)
        _, ended, used = os.wait4(self._pid, 0)
        self.cpu = used.ru_utime + used.ru_stime
        os.close(self._pipe)
        if self._result is not None:
            return self._result
        status, reason = fate
        how = reason or self.failure or f"ended with status {os.waitstatus_to_exitcode(ended)}"
        if self._begun < 0:
            return {"status": Status.INVALID, "reason": f"{how}, on import", "units": 0}
        if self._unit is None:
            # whoever compares a survivor with the original says nothing about it by failing
            return {"status": Status.SURVIVED, "message": f"comparison failed: {how}", "units": self._begun}
        return {"status": status, "lane": LANES[0], "check": CHECK, "message": how, "unit": self._unit}

    def _hear(self, message: dict[str, Any]) -> None:
        if "unit" in message:
            self._unit = message["unit"]
            self._begun = max(self._begun, 0) + (self._unit is not None)
        if "ran" in message:
            self.kernels[message["ran"]] = message["kernels"]
        self._result = message.get("result", self._result)
        self.failure = message.get("failure", self.failure)


class _Silence:
    """How long a process has said nothing, in seconds that it computed or slept."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.end()

    def end(self) -> None:
        """It has said something."""
        self._slept, self._looked = 0.0, time.monotonic()
        self._cpu = self._last = _computed(self._pid)[0]

    def seconds(self) -> float:
        """Return how long it has been silent, as far as somebody looked."""
        now, (cpu, state) = time.monotonic(), _computed(self._pid)
        if state not in _BUSY:
            self._slept += max(0.0, now - self._looked - (cpu - self._last))
        self._looked, self._last = now, cpu
        return cpu - self._cpu + self._slept


def _run(work: Callable[[Callable[..., None]], None], pipe: int) -> NoReturn:
    """Be the child: never return into the loop of the parent."""

    def send(**message: Any) -> None:
        os.write(pipe, json.dumps(message).encode() + b"\n")

    try:
        work(send)
    except BaseException as error:
        send(failure=f"{type(error).__name__}: {error}")
    finally:
        os._exit(0)


def _held(pid: int) -> int:
    """Bytes of memory that a process holds; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _computed(pid: int) -> tuple[float, str]:
    """Seconds of processor time that a process has used, and the letter of its state; of none if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            # the name of the program, in parentheses, may hold anything
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0, "X"
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), fields[0]
