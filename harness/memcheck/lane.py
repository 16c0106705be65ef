"""Implementations under tools, one process each: started, given a deadline, read and judged."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from harness.hardware.worker import WORKERS
from harness.memcheck import tools
from harness.memcheck.judge import Judgement, judge
from harness.memcheck.stream import parse
from harness.memcheck.tools import TOOLS, Tool
from harness.report.records import Record

#: Pinned and drawn cases that run: a tool makes a launch ten times as long, and a case may need a kernel of its own.
PINNED, DRAWN = 3, 2
DEADLINE = 120.0
#: Processes at a time, of all that run this lane side by side; each takes a CUDA context and a tool's tables, a
#: gibibyte and more of the device's memory.
MOST_CHILDREN = 16
# Others use the device too: what their memory costs us says nothing about a kernel.
_SHORT_OF_MEMORY = re.compile(r"out[ _]of[ _]memory", re.IGNORECASE)
_ATTEMPTS = 4
_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """One implementation and the cases it is launched on.

    ``modules`` are imported for what they register, with ``folder`` on the path.  ``cases``, as printed, take the place
    of ``pinned`` and ``drawn``.  ``device`` is the index of the GPU; ``emulated`` the target whose configurations run,
    empty for the GPU's own.  ``known`` is the file of known failures beside those of the implementation, if any.
    """

    contract: str
    implementation: str
    modules: tuple[str, ...] = ()
    folder: str = "."
    pinned: int = PINNED
    drawn: int = DRAWN
    seed: int = 0
    cases: tuple[str, ...] = ()
    device: int = 0
    emulated: str = ""
    known: str = ""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one tool says of one job, and what the processes printed."""

    job: Job
    tool: Tool
    judgement: Judgement
    seconds: float
    output: str

    def record(self) -> Record:
        """Return it as every report shows it; the check is called as the tool."""
        return Record(
            contract=self.job.contract,
            implementation=self.job.implementation,
            check=self.tool,
            verdict=self.judgement.verdict,
            examples=self.judgement.cases,
            seconds=round(self.seconds, 3),
            note=self.judgement.note,
            faults=self.judgement.faults,
        )


def run(
    jobs: Sequence[Job],
    *,
    watching: Sequence[Tool] = TOOLS,
    children: int | None = None,
    deadline: float = DEADLINE,
    excused: Callable[[Job, Tool, str], bool] = lambda job, tool, case: False,
    on_done: Callable[[Result], object] = lambda result: None,
) -> list[Result]:
    """Run every job under every tool and return the results, the tools of the first job first.

    ``children`` run at once, by default one a CPU up to MOST_CHILDREN, shared with others where several workers run
    tests side by side.  One that takes more than ``deadline`` seconds is killed; one that gets no memory starts again
    a little later.  ``excused(job, tool, case)``: whether a report is of a failure that is known.  ``on_done`` is
    called in other threads.  Raises Missing if there is no compute-sanitizer.  No process outlives the call.
    """
    program = tools.find()
    tools.version(program)
    running = _Running()

    def one(what: tuple[Job, Tool]) -> Result:
        job, tool = what
        began = time.monotonic()
        for attempt in range(_ATTEMPTS):
            if attempt:
                running.pause(_PAUSE_SECONDS)
            output, ended = running.watch(tools.command(program, tool, _arguments(job)), deadline)
            judgement = judge(tool, parse(output), ended=ended, excused=lambda case: excused(job, tool, case))
            if judgement.verdict.good or judgement.findings or not _SHORT_OF_MEMORY.search(output):
                break
        result = Result(job=job, tool=tool, judgement=judgement, seconds=time.monotonic() - began, output=output)
        on_done(result)
        return result

    pool = ThreadPoolExecutor(children or max(1, min(MOST_CHILDREN, os.cpu_count() or 1) // _neighbours()))
    try:
        # by tool: implementations compile for the first, and the others find their kernels compiled
        by_tool = list(pool.map(one, [(job, tool) for tool in watching for job in jobs]))
    finally:
        running.stop()
        pool.shutdown(cancel_futures=True)
    return [by_tool[number * len(jobs) + place] for place in range(len(jobs)) for number in range(len(watching))]


def _neighbours() -> int:
    """Return how many processes run tests on the GPU side by side, this one counted."""
    return max(1, int(os.environ.get(WORKERS, "1")))


def _arguments(job: Job) -> list[str]:
    return [sys.executable, "-m", "harness.memcheck._child", json.dumps({**asdict(job), "parent": os.getpid()})]


class _Running:
    """The processes that run now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._stopped = threading.Event()

    def watch(self, command: Sequence[str], deadline: float) -> tuple[str, str]:
        """Run ``command``; returns what it printed, and how it ended if not with status 0."""
        path = os.pathsep.join([str(Path(__file__).parents[2]), *(os.path.abspath(entry) for entry in sys.path)])
        environment = {"OMP_NUM_THREADS": "1", **os.environ, **tools.environment(), "PYTHONPATH": path}
        with tempfile.TemporaryFile() as output:
            with self._lock:
                if self._stopped.is_set():
                    return "", "not started"
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    # a group of its own: the tool's child dies with the tool
                    start_new_session=True,
                )
                self._processes.add(process)
            try:
                status = process.wait(deadline)
                ended = "" if status == 0 else _said(status)
            except subprocess.TimeoutExpired:
                ended = f"late: not done after {deadline:.0f} s"
            finally:
                _kill(process)
                with self._lock:
                    self._processes.discard(process)
            return _text(output), ended

    def pause(self, seconds: float) -> None:
        """Wait, but not for what will not be started any more."""
        self._stopped.wait(seconds)

    def stop(self) -> None:
        """Kill what runs and start nothing more."""
        with self._lock:
            self._stopped.set()
            for process in self._processes:
                _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _said(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"


def _text(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read().decode(errors="replace")
