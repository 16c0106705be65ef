"""One child process per contract and implementation: a crash, a hang or a full memory costs that one only."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import IO, Any, Literal

from harness.report.records import FaultRecord, Record, Verdict

#: Share of a job's time after which its search starts no new case, so that what it found is reported.
SOFT_SHARE = 0.85
#: How much of a dead child's output is looked at, and how many lines of it are shown.
TAIL_BYTES = 2**16
TAIL_LINES = 12
#: Seconds a child has to write where it was before it is killed.
GRACE_SECONDS = 3.0
#: Seconds that a child may take at least to import what it needs, during which it says nothing.
LOAD_SECONDS = 120.0
#: The check id of records about the child process itself.
PROCESS = "process"
#: The check id of records about a contract that is wrong.
CONTRACT = "contract"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One search in a child.

    ``modules`` are imported for what they register, with ``folder`` on the path; ``known`` is the path of a file of
    known failures.  ``lane``: the virtual GPU, as the architecture ``target`` where one is named, or the device that is
    here, standing in for target ``emulate``.
    The rest is passed to ``harness.search.search``.
    """

    contract: str
    implementation: str
    modules: tuple[str, ...] = ()
    folder: str = "."
    examples: int = 50
    seed: int = 0
    pinned: bool = True
    target: str | None = None
    lane: Literal["virtual", "device"] = "virtual"
    emulate: str | None = None
    known: str | None = None


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a child is about to do: ``phase`` (``"load"``, or one of the search's), the case, and cases done."""

    job: Job
    phase: str
    case: str
    done: int


def run(
    jobs: Iterable[Job],
    *,
    children: int | None = None,
    deadline: float = 600.0,
    silence: float = 120.0,
    on_progress: Callable[[Progress], object] = lambda progress: None,
    on_done: Callable[[Job, list[Record]], object] = lambda job, records: None,
) -> list[Record]:
    """Run every job, ``children`` at once (default: one a CPU), and return all records in the order of ``jobs``.

    A child that runs for more than ``deadline`` seconds, or says nothing for ``silence`` seconds, is killed: its last
    announced case is a TIMEOUT.  While it imports it has ``LOAD_SECONDS`` at least.  One that ends without records is a
    CRASH on that case, or OOM or STICKY_ERROR where it could say so, or CONTRACT where the contract is wrong and
    nothing is known about the implementation.  Callbacks run in the calling process, ``on_done`` once a job has ended.
    No child outlives the call, whatever ends it.
    """
    waiting = list(enumerate(jobs))[::-1]
    limit = children or os.cpu_count() or 1
    finished: dict[int, list[Record]] = {}
    running: dict[int, _Child] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < limit:
                    index, job = waiting.pop()
                    running[index] = _Child.start(job, deadline, silence, max(1, (os.cpu_count() or 1) // limit))
                    selector.register(running[index].pipe, selectors.EVENT_READ, index)
                pause = max(0.0, min(child.due() for child in running.values()) - time.monotonic())
                ready = {key.data for key, _ in selector.select(pause)}
                for index, child in list(running.items()):
                    if index in ready:
                        for progress in child.read():
                            on_progress(progress)
                    if child.is_over():
                        selector.unregister(child.pipe)
                        finished[index] = child.end()
                        del running[index]
                        on_done(child.job, finished[index])
        finally:
            for child in running.values():
                child.end()
    return [record for index in sorted(finished) for record in finished[index]]


@dataclass(kw_only=True)
class _Child:
    """One running process and what it has said so far."""

    job: Job
    process: subprocess.Popen[bytes]
    pipe: int
    output: IO[bytes]
    deadline: float
    silence: float
    started: float
    heard: float
    closed: bool = False
    last: Progress
    pending: bytes = b""
    records: list[Record] | None = None
    failure: str = ""
    fate: Verdict = Verdict.CRASH
    failed_on: str = ""
    faults: list[FaultRecord] = field(default_factory=list)

    @classmethod
    def start(cls, job: Job, deadline: float, silence: float, threads: int) -> _Child:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        output = tempfile.TemporaryFile()  # noqa: SIM115 - the child object owns it, and end() closes it
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        environment = {"OMP_NUM_THREADS": str(threads), **os.environ, "PYTHONPATH": path}
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "harness._child", str(writing)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=(writing,),
            env=environment,
            # a group of its own: what the child starts dies with it
            start_new_session=True,
        )
        os.close(writing)
        assert process.stdin is not None
        with process.stdin as stdin:
            stdin.write(json.dumps({**asdict(job), "deadline": deadline * SOFT_SHARE}).encode())
        now = time.monotonic()
        last = Progress(job=job, phase="load", case="", done=0)
        return cls(
            job=job,
            process=process,
            pipe=reading,
            output=output,
            deadline=deadline,
            silence=silence,
            started=now,
            heard=now,
            last=last,
        )

    def due(self) -> float:
        """When, on the monotonic clock, this child has been given too much time."""
        return min(self.started + self.deadline, self.heard + self._patience)

    @property
    def _patience(self) -> float:
        """Seconds that it may say nothing for now."""
        return max(self.silence, LOAD_SECONDS) if self.last.phase == "load" else self.silence

    def is_over(self) -> bool:
        return self.closed or time.monotonic() >= self.due()

    def read(self) -> Iterator[Progress]:
        """Take what the child has said; yields its progress."""
        try:
            data = os.read(self.pipe, 2**20)
        except BlockingIOError:
            return
        self.heard = time.monotonic()
        self.closed = not data
        *lines, self.pending = (self.pending + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message["kind"] == "progress":
                self.last = Progress(job=self.job, **{key: message[key] for key in ("phase", "case", "done")})
                yield self.last
            elif message["kind"] == "records":
                self.records = [Record.from_dict(record) for record in message["records"]]
            elif message["kind"] == "fault":
                self.faults.append(FaultRecord.from_dict(message["fault"]))
            else:
                self.failure, self.fate = message["message"], Verdict(message["verdict"])
                self.failed_on = message["case"]

    def end(self) -> list[Record]:
        """Make sure that the process is gone and return its records, or those about its end."""
        now = time.monotonic()
        if not self.closed:
            kill(self.process)
        status = self.process.wait()
        os.close(self.pipe)
        with self.output:
            last = tail(self.output)
        if self.records is not None:
            return self.records
        if self.closed:
            return self._ended_early(self.fate, f"{self.failure or exit_text(status)}", now, last)
        late = now >= self.started + self.deadline
        reason = f"not done after {self.deadline:.0f} s" if late else f"no progress for {self._patience:.0f} s"
        return self._ended_early(Verdict.TIMEOUT, reason, now, last)

    def _ended_early(self, verdict: Verdict, reason: str, now: float, output: str) -> list[Record]:
        """One record for the process, and one for each check of which a fault was found before."""
        done, seconds = self.last.done, round(now - self.started, 3)

        def record(check: str, verdict: Verdict, faults: Sequence[FaultRecord], note: str = "") -> Record:
            return Record(
                contract=self.job.contract,
                implementation=self.job.implementation,
                check=check,
                verdict=verdict,
                examples=done,
                seconds=seconds,
                note=note,
                faults=tuple(faults),
            )

        if verdict is Verdict.CONTRACT:
            check, note, case = CONTRACT, reason, self.failed_on
            message = reason
        else:
            check, note, case = PROCESS, f"{reason}; last phase {self.last.phase!r}", self.last.case
            message = f"{note}\n{output}".rstrip()
        last = [FaultRecord(check=check, case=case, message=message)] if case else []
        found = sorted({fault.check for fault in self.faults})
        return [
            *(record(name, Verdict.FAIL, [fault for fault in self.faults if fault.check == name]) for name in found),
            record(check, verdict, last, note if last else message),
        ]


def kill(process: subprocess.Popen[Any]) -> None:
    """End a process and its group; SIGABRT first, on which faulthandler writes where it was."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)


def exit_text(status: int) -> str:
    """Describe the end of a process that said nothing about it."""
    if status >= 0:
        return f"exited with status {status} before it was done"
    name = signal.Signals(-status).name
    hint = ", as the system does when memory runs out" if -status == signal.SIGKILL else ""
    return f"killed by {name}{hint}"


def tail(output: IO[bytes]) -> str:
    """Return the innermost frames where the interpreter died, or else the last lines of the output."""
    output.seek(max(0, output.seek(0, os.SEEK_END) - TAIL_BYTES))
    text = output.read().decode(errors="replace")
    lines = text.splitlines()
    died = text.rfind("Fatal Python error")
    if died < 0:
        return "\n".join(lines[-TAIL_LINES:])
    return "\n".join(text[died:].splitlines()[:TAIL_LINES])
