"""Tasks in forked worker processes: a crash or a hang costs one task, and a fresh worker goes on with the rest."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import selectors
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Literal, NoReturn

Task = Callable[[], dict[str, Any]]

#: How much of what a task printed is kept.
TAIL_BYTES = 2**20
#: Tasks after which a worker is replaced, so that what compilers leak stays bounded.
TASKS_A_WORKER = 100
_FAILED = 70


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a task ended.

    ``value`` is what it returned, if ``how`` is ``"returned"``; ``error`` its exception as (type, text), if
    ``"raised"``; ``signal`` the name of what killed its worker, or its exit status, if ``"crashed"``.  ``output`` is
    what it printed last, ``seconds`` wall time, ``cpu_seconds`` its own and its children's (0 unless it ended itself).
    """

    how: Literal["returned", "raised", "crashed", "late"]
    value: dict[str, Any] = field(default_factory=dict)
    error: tuple[str, str] = ("", "")
    signal: str = ""
    output: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def run(
    tasks: Sequence[Task],
    *,
    jobs: int,
    deadline: float,
    on_start: Callable[[int], object] = lambda index: None,
    on_end: Callable[[int, Ended], object] = lambda index, ended: None,
) -> list[Ended]:
    """Run every task in one of ``jobs`` forked workers, and return how each ended, in order.

    A task that takes more than ``deadline`` seconds is killed with all that it started.  It returns what JSON can
    carry.  The calling process must not hold threads that a task needs.  No worker outlives the call.
    """
    waiting = list(range(len(tasks)))[::-1]
    workers: list[_Worker] = []
    ended: dict[int, Ended] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or workers:
                while waiting and len(workers) < jobs:
                    workers.append(_Worker(tasks))
                    selector.register(workers[-1].telling, selectors.EVENT_READ)
                for worker in workers:
                    if worker.task is None and waiting:
                        on_start(waiting[-1])
                        worker.give(waiting.pop(), deadline)
                pause = min((worker.due for worker in workers), default=0.0) - time.monotonic()
                ready = {key.fd for key, _ in selector.select(max(0.0, pause))}
                for worker in list(workers):
                    index = worker.task
                    end = worker.take() if worker.telling in ready else None
                    if end is None and time.monotonic() >= worker.due:
                        end = worker.late()
                    if end is not None and index is not None:
                        ended[index] = end
                        on_end(index, end)
                    if worker.gone or (worker.task is None and (not waiting or worker.done >= TASKS_A_WORKER)):
                        selector.unregister(worker.telling)
                        worker.close()
                        workers.remove(worker)
        finally:
            for worker in workers:
                worker.close()
    return [ended[index] for index in range(len(tasks))]


class _Worker:
    """A process that does one task after another, and what it is doing now."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.telling, writing = os.pipe()
        reading, self._asking = os.pipe()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - this object owns it, and close() closes it
        self.task: int | None = None
        self.gone = False
        self.done = 0
        self.due = float("inf")
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Python warns where libraries keep threads; a task touches none of what they guard
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                self._pid = os.fork()
            except OSError:
                # a process with too much memory of its own is refused one
                for end in (self.telling, writing, reading, self._asking):
                    os.close(end)
                self._output.close()
                raise
        if not self._pid:
            os.close(self.telling)
            os.close(self._asking)
            _work(tasks, reading, writing, self._output)
        os.close(reading)
        os.close(writing)

    def give(self, task: int, deadline: float) -> None:
        """Let it begin ``task``."""
        self.task, self._said, self._began = task, b"", time.monotonic()
        self.due = self._began + deadline
        # one that has died meanwhile is found by the end of its pipe
        with contextlib.suppress(BrokenPipeError):
            os.write(self._asking, b"%d\n" % task)

    def take(self) -> Ended | None:
        """Read what it has sent; how its task ended, if it has."""
        data = os.read(self.telling, 2**16)
        self._said += data
        if data and not self._said.endswith(b"\n"):
            return None
        seconds = time.monotonic() - self._began
        if not data:
            self.gone = True
            _, status = os.waitpid(self._pid, 0)
            code = os.waitstatus_to_exitcode(status)
            name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            return Ended(how="crashed", signal=name, output=self._printed(), seconds=seconds)
        self.task, self.due = None, float("inf")
        self.done += 1
        said = json.loads(self._said)
        times: dict[str, Any] = {"seconds": seconds, "cpu_seconds": said["cpu_seconds"]}
        if "error" in said:
            return Ended(how="raised", error=tuple(said["error"]), output=self._printed(), **times)
        return Ended(how="returned", value=said["value"], **times)

    def late(self) -> Ended:
        """End it in the middle of its task."""
        self._kill()
        return Ended(how="late", output=self._printed(), seconds=time.monotonic() - self._began)

    def close(self) -> None:
        """Make sure that it is gone, with all that it started."""
        if not self.gone:
            self._kill()
        os.close(self._asking)
        os.close(self.telling)
        self._output.close()

    def _kill(self) -> None:
        self.gone = True
        # a group of its own: an assembler that it started dies with it
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError):
                kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def _printed(self) -> str:
        self._output.seek(max(0, self._output.seek(0, os.SEEK_END) - TAIL_BYTES))
        return self._output.read().decode(errors="replace")


def _work(tasks: Sequence[Task], asked: int, telling: int, output: IO[bytes]) -> NoReturn:
    """Do what is asked for until nobody asks, and leave without any of the parent's clean-up."""
    try:
        os.setsid()
        # it would print our stack after the compiler's last words, and where the parent's error output is
        faulthandler.disable()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
        # what a crash interrupts must have been written
        sys.stdout = sys.stderr = open(1, "w", closefd=False, buffering=1)  # noqa: SIM115 - it lasts as long as we do
        with open(asked, "rb") as questions:
            for line in iter(questions.readline, b""):
                os.ftruncate(1, 0)
                os.lseek(1, 0, os.SEEK_SET)
                answer = json.dumps(_answer(tasks[int(line)])).encode() + b"\n"
                while answer:
                    answer = answer[os.write(telling, answer) :]
        os._exit(0)
    finally:
        os._exit(_FAILED)


def _answer(task: Task) -> dict[str, Any]:
    before = _cpu_seconds()
    try:
        said: dict[str, Any] = {"value": task()}
    except Exception as error:
        said = {"error": (type(error).__name__, str(error))}
    sys.stdout.flush()
    return {**said, "cpu_seconds": _cpu_seconds() - before}


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
