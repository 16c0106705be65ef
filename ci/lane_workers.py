"""The worker processes of ``lane_difference.py``: each judges cases on one lane, one after another.

Run as ``python ci/lane_workers.py LANE PROFILE [IMPL]`` with jobs on standard input, one a line; PROFILE is the virtual
GPU's.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MARK = "lane-difference "
DEADLINE = 100.0
#: Begins the case of an illegal call.
ILLEGAL = "Rejection: "
#: Stands for the check, which nobody knows, whose launch lost the GPU context.
LOST = "context"
NOT_BEGUN = "not begun"
#: Ends of cases that were judged all the same: verdicts that the lane does not vouch for, and a lost context.
UNTRUSTED, CONTEXT_LOST = "untrusted", "context lost"


@dataclass(frozen=True)
class Job:
    """One case, or one illegal call, of one implementation."""

    contract: str
    implementation: str
    case: str


@dataclass
class Outcome:
    """What one lane says of one job: the checks it reached, those that failed and why, and how it ended otherwise."""

    reached: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    ended: str = ""

    def says(self, check: str) -> str:
        """Return FAIL, PASS, or "-" for a check that was not reached."""
        return "FAIL" if check in self.failed else "PASS" if check in self.reached else "-"

    @property
    def judged(self) -> bool:
        """Whether the lane came to a verdict: it began, and no end of its process and no exception stopped it."""
        return not self.ended or self.ended.startswith((UNTRUSTED, CONTEXT_LOST))


def load(impl: str | None) -> None:
    from harness import discover

    named, folder = discover.configured(ROOT)
    discover.load([*named, *discover.adapters(impl)], folder=folder)


def work(lane: str, profile: str, impl: str | None) -> int:
    """Judge the jobs on standard input, one a line, until there are no more or the GPU is lost."""
    from harness.lanes import ContextLost, VirtualLane
    from harness.outcome import described

    load(impl)
    used: Any = VirtualLane(profile)
    if lane == "device":
        import torch

        from harness.hardware.lane import device_lane

        torch.set_num_threads(1)
        used = device_lane()
    say(ready=True)
    for line in sys.stdin:
        job = Job(**json.loads(line))
        try:
            result = judge(job, used)
        except ContextLost as error:
            say(failed={LOST: str(error)}, ended=CONTEXT_LOST)
            return 3
        except Exception as error:
            say(ended=described(error))
        else:
            failed = {violation.check: violation.message for violation in reversed(result.violations)}
            unsure = f"{UNTRUSTED}: {', '.join(sorted(result.untrusted))}" if result.untrusted else ""
            say(reached=sorted(result.checks_run), failed=failed, ended=unsure)
    return 0


def judge(job: Job, lane: Any) -> Any:
    from harness import cases, registry
    from harness.run import check_case, check_rejections

    contract = registry.contract(job.contract)
    implementation = next(i for i in registry.implementations(contract.name) if i.name == job.implementation)
    if job.case.startswith(ILLEGAL):
        one = tuple(each for each in contract.rejects() if f"{ILLEGAL}{each.label}" == job.case)
        return check_rejections(replace(contract, rejects=lambda: one), implementation, lane=lane)
    return check_case(contract, implementation, cases.parse(contract, job.case), lane=lane, every_config=False)


def say(**content: Any) -> None:
    sys.stdout.write(f"{MARK}{json.dumps(content)}\n")
    sys.stdout.flush()


def run(jobs: Sequence[Job], workers: dict[str, int], profile: str, impl: str | None) -> dict[tuple[str, Job], Outcome]:
    """Return what each lane says of each job."""
    found: dict[tuple[str, Job], Outcome] = {}
    threads = []
    for lane, count in workers.items():
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        for _ in range(count):
            threads.append(threading.Thread(target=serve, args=(lane, profile, waiting, found, impl)))
            threads[-1].start()
    for thread in threads:
        thread.join()
    return found


def serve(
    lane: str,
    profile: str,
    waiting: queue.SimpleQueue[Job],
    found: dict[tuple[str, Job], Outcome],
    impl: str | None,
) -> None:
    """Keep one worker busy, a fresh one after each that ends."""
    worker: Worker | None = None
    while True:
        try:
            job = waiting.get_nowait()
        except queue.Empty:
            break
        if worker is None:
            worker = Worker(lane, profile, impl)
        found[lane, job] = outcome = worker.judge(job)
        # the next worker would not begin either, and each takes seconds to find out: this one answers for them
        if outcome.ended.startswith((CONTEXT_LOST, "died", "late")):
            worker.close()
            worker = None
    if worker is not None:
        worker.close()


class Worker:
    """One process that judges."""

    def __init__(self, lane: str, profile: str, impl: str | None) -> None:
        arguments = [sys.executable, str(Path(__file__).resolve()), lane, profile]
        self.process = subprocess.Popen(
            [*arguments, *([impl] if impl else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"OMP_NUM_THREADS": "1", **os.environ},
        )
        self.pending = b""
        self.last = ""
        self.first = self.answer()

    def judge(self, job: Job) -> Outcome:
        if "ready" not in self.first:
            return Outcome(ended=f"{NOT_BEGUN}: {self.first['ended']}")
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(vars(job)).encode() + b"\n")
            self.process.stdin.flush()
        said = self.answer()
        return Outcome(set(said.get("reached", ())), said.get("failed", {}), said["ended"])

    def answer(self) -> dict[str, Any]:
        """Return the next message; the process's end and its silence are one too."""
        assert self.process.stdout is not None
        until = time.monotonic() + DEADLINE
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                while b"\n" in self.pending:
                    line, _, self.pending = self.pending.partition(b"\n")
                    if line.startswith(MARK.encode()):
                        message: dict[str, Any] = json.loads(line[len(MARK) :])
                        return message
                    self.last = line.decode(errors="replace").strip() or self.last
                if not selector.select(max(0.0, until - time.monotonic())):
                    return {"ended": f"late: nothing for {DEADLINE:.0f} s"}
                data = os.read(self.process.stdout.fileno(), 2**16)
                if not data:
                    return {"ended": f"died with exit status {self.process.wait()}: {self.last}"}
                self.pending += data

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(work(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None))
