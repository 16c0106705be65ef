"""The parent's side of one worker process: what it was told to do, what it has said, and how it ended.

Messages are lines of JSON.  To the worker: first its arguments, then ``{"run": ID, "next": ID or null}``.  From it, by
``kind``: ``ready``, ``phase``, ``report``, ``warning``, ``done`` and ``lost``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import IO, Any, Literal

from harness.isolate import exit_text, kill, tail

#: Seconds a worker has for importing and collecting.
START_SECONDS = 300.0
#: Environment variable: how many workers there are above a process.  A test may start pytest, but not without end.
DEPTH = "HARNESS_GPU_WORKER_DEPTH"
_DEEPEST = 2
#: Environment variable: how many workers share the machine.
WORKERS = "HARNESS_GPU_WORKERS"


@dataclass(frozen=True, kw_only=True)
class Task:
    """One test: its node id, that of the test which follows in the same worker, and seconds it may take."""

    nodeid: str
    following: str | None
    deadline: float


@dataclass(kw_only=True)
class Outcome:
    """What came of a task: pytest's serialised reports and warnings; ``verdict`` if it ended its worker, and why."""

    reports: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    verdict: Literal["", "TIMEOUT", "CRASH", "STICKY_ERROR"] = ""
    reason: str = ""
    output: str = ""
    phase: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Start:
    """How workers are started: pytest's ``arguments``, the folder to run in, whether output is shown."""

    arguments: tuple[str, ...]
    folder: str
    shown: bool = False
    workers: int = 1


class Worker:
    """One process; ``task`` is what it does, ``outcome`` what came of that so far, ``ready`` whether it collected."""

    def __init__(self, start: Start) -> None:
        depth = int(os.environ.get(DEPTH, "0")) + 1
        if depth > _DEEPEST:
            raise RuntimeError(f"a worker inside {depth - 1} others: tests that start tests without end")
        self.telling, writing = os.pipe()
        reading, self._asking = os.pipe()
        os.set_blocking(self.telling, False)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - this object owns it, and close() closes it
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        stdout: IO[bytes] | None = None if start.shown else self._output
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "harness.hardware._worker", str(reading), str(writing)],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=self._output,
            pass_fds=(reading, writing),
            cwd=start.folder,
            env={
                "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // start.workers)),
                **os.environ,
                "PYTHONPATH": path,
                WORKERS: str(start.workers),
                DEPTH: str(depth),
            },
            # a group of its own: what a test starts dies with it
            start_new_session=True,
        )
        os.close(reading)
        os.close(writing)
        self.task: Task | None = None
        self.outcome = Outcome()
        self.gone = False
        self.ready = False
        self._last = ""
        self._pending = b""
        self._began = time.monotonic()
        self._say({"arguments": start.arguments})

    @property
    def due(self) -> float:
        """When, on the monotonic clock, the task has taken too long; what comes first is getting ready."""
        if self.task is None:
            return float("inf")
        return self._began + (self.task.deadline if self.ready else START_SECONDS)

    def give(self, task: Task) -> None:
        """Let it begin ``task`` as soon as it is ready."""
        self.task, self.outcome = task, Outcome()
        if self.ready:
            self._begin(task)

    def read(self) -> Outcome | None:
        """Take what it has said; returns the outcome of its task once there is one."""
        try:
            data = os.read(self.telling, 2**20)
        except BlockingIOError:
            return None
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            if self._take(json.loads(line)):
                return self._finished()
        return None if data else self._died()

    def late(self) -> Outcome:
        """End it in the middle of its task."""
        task = self.task
        allowed = START_SECONDS if task is None or not self.ready else task.deadline
        self.close()
        if not self.ready:
            self.outcome.reason = f"the worker was not ready after {allowed:.0f} s"
        else:
            self.outcome.reason = f"not done after {allowed:g} s"
        self.outcome.verdict = "TIMEOUT"
        return self._finished()

    def close(self) -> None:
        """Make sure that it is gone, with all that it started."""
        if self.gone:
            return
        self.gone = True
        os.close(self._asking)
        idle = self.task is None and self.ready
        try:
            # one that has nothing to do ends by itself, its fixtures first
            self._process.wait(5.0 if idle else 0)
        except subprocess.TimeoutExpired:
            kill(self._process)
            self._process.wait()
        # what its tests started outlives one that crashed or ended by itself
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        os.close(self.telling)
        with self._output:
            self.outcome.output = tail(self._output)

    def _begin(self, task: Task) -> None:
        self._began = time.monotonic()
        self._say({"run": task.nodeid, "next": task.following})

    def _say(self, message: dict[str, Any]) -> None:
        try:
            os.write(self._asking, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            # one that has died meanwhile is found by the end of its pipe
            return

    def _take(self, message: dict[str, Any]) -> bool:
        """Note one message; whether it ends the task."""
        kind = message["kind"]
        if kind == "ready":
            self.ready = True
            if self.task is not None:
                self._begin(self.task)
        elif kind == "phase":
            self.outcome.phase = message["phase"]
        elif kind == "report":
            self.outcome.reports.append(message["report"])
        elif kind == "warning":
            self.outcome.warnings.append(message)
        elif kind == "lost":
            # the report that says so has come already
            self.outcome.verdict = "STICKY_ERROR"
            return True
        return bool(kind == "done")

    def _died(self) -> Outcome:
        status = self._process.wait()
        self.close()
        self.outcome.verdict = "CRASH"
        self.outcome.reason = exit_text(status)
        if self._last and not self.outcome.phase:
            self.outcome.reason += f", before this test began and after {self._last}"
        return self._finished()

    def _finished(self) -> Outcome:
        self.outcome.seconds = time.monotonic() - self._began
        outcome, task = self.outcome, self.task
        self._last, self.task = "" if task is None else task.nodeid, None
        if outcome.verdict:
            self.close()
        return outcome
