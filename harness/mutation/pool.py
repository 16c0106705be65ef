"""Worker processes, and every mutant through one of them."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from harness.mutation import styles
from harness.mutation.results import NOTHING_TOLD, Red, Result, Status, Told
from harness.mutation.source import Mutant
from harness.mutation.targets import Target


class WorkerError(Exception):
    """A worker did not start, or ended for a reason that is no mutant's."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How mutants are judged.

    ``modules`` are loaded from ``folder``; ``examples`` cases are drawn with ``seed`` beside the pinned ones;
    after ``deadline`` seconds of a processor no other case of a mutant begins, and one case is a hang after ``silence``
    seconds in which it computes or sleeps, or ten times what it takes on the original if that is more.  The first
    ``warm`` units run on the original before the first mutant, the others when a mutant fails there.  ``style`` is who
    judges, one of ``styles.NAMES``.  ``told`` maps marks of mutants to what killed them earlier, which is asked first.
    With ``in_order`` every mutant meets the units in the order of the plan.
    """

    modules: tuple[str, ...]
    folder: Path
    profile: str = "sm_120"
    examples: int = 40
    seed: int = 0
    deadline: float = 60.0
    silence: float = 30.0
    warm: int = 8
    jobs: int = 1
    style: str = styles.CONTRACT
    told: Mapping[str, Told] = field(default_factory=dict, repr=False)
    in_order: bool = False


#: A worker for another target takes seconds to start: one is not worth it for fewer mutants a worker than this.
WORTH_STARTING = 4


def run(
    target: Target,
    mutants: Sequence[Mutant],
    settings: Settings,
    *,
    until: float,
    on_result: Callable[[Result], object],
) -> None:
    """Judge ``mutants`` of one ``target``; all else is as for ``run_all``."""
    run_all([(target, mutants)], settings, until=until, on_result=on_result)


def run_all(
    work: Sequence[tuple[Target, Sequence[Mutant]]],
    settings: Settings,
    *,
    until: float,
    on_result: Callable[[Result], object],
    on_red: Callable[[Red], object] = lambda red: None,
) -> None:
    """Judge the mutants of all targets of ``work``, ``settings.jobs`` at a time; none begins after ``until``.

    ``until`` is on the monotonic clock.  A worker knows one target: where nothing is left of it, one for another target
    takes its place.  ``on_result`` is called in this process as soon as a mutant is through, SKIPPED ones at the end,
    and ``on_red`` with each failure of the originals, of pinned cases before the first mutant.
    Raises WorkerError where a worker does not start, or dies again on a mutant on which one has died, and where no
    check passes on the original.
    """
    queues = [_Queue(target, list(mutants)[::-1]) for target, mutants in work]
    restarted: set[str] = set()
    workers: list[_Worker] = []
    with selectors.DefaultSelector() as selector:

        def start(queue: _Queue) -> None:
            workers.append(_Worker.start(queue, settings))
            queue.workers += 1
            queue.asked = True
            selector.register(workers[-1].pipe, selectors.EVENT_READ, workers[-1])

        def stop(worker: _Worker) -> None:
            selector.unregister(worker.pipe)
            workers.remove(worker)
            worker.queue.workers -= 1

        def fill() -> None:
            while len(workers) < settings.jobs and time.monotonic() < until:
                queue = _neediest(queues)
                if queue is None:
                    return
                start(queue)

        try:
            fill()
            while workers:
                for key, _ in selector.select():
                    worker = key.data
                    for message in worker.read():
                        red = [Red(kernel=worker.queue.target.name, **found) for found in message.pop("red", ())]
                        for one in red:
                            on_red(one)
                        if not message.pop("judges", True):
                            raise WorkerError(_judges_nothing(worker.queue.target, red))
                        if message["kind"] == "result":
                            on_result(_result(worker.queue.target, worker.mutant, message))
                        worker.mutant = None
                        if worker.queue.waiting and time.monotonic() < until:
                            worker.give(worker.queue.waiting.pop())
                        else:
                            stop(worker)
                            worker.end()
                            break
                    if worker in workers and worker.closed:
                        stop(worker)
                        worker.queue.waiting.append(_left_by(worker, restarted))
                fill()
        finally:
            for worker in workers:
                worker.end()
    for queue in queues:
        for mutant in reversed(queue.waiting):
            on_result(_result(queue.target, mutant, {"status": Status.SKIPPED}))


@dataclass(eq=False)
class _Queue:
    """What is left of a target, how many workers it has, and whether one was told to ask about the original."""

    target: Target
    waiting: list[Mutant]
    workers: int = 0
    asked: bool = False


def _neediest(queues: Sequence[_Queue]) -> _Queue | None:
    """Return the queue with the most left for each worker that it would have, None if no other worker is worth it."""
    needy = [queue for queue in queues if queue.waiting]
    best = max(needy, key=lambda queue: len(queue.waiting) / (queue.workers + 1), default=None)
    if best is None or (best.workers and len(best.waiting) < WORTH_STARTING * best.workers):
        return None
    return best


@dataclass(kw_only=True)
class _Worker:
    """One process, and the mutant it works on."""

    queue: _Queue
    process: subprocess.Popen[bytes]
    pipe: int
    output: IO[bytes]
    told: Mapping[str, Told]
    mutant: Mutant | None = None
    closed: bool = False
    pending: bytes = field(default=b"", repr=False)

    @classmethod
    def start(cls, queue: _Queue, settings: Settings) -> _Worker:
        target = queue.target
        reading, writing = os.pipe()
        output = tempfile.TemporaryFile()  # noqa: SIM115 - the worker owns it, and end() closes it
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.mutation._worker", str(writing)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=(writing,),
            # a fork inherits no threads: there must be none
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
            start_new_session=True,
        )
        os.close(writing)
        worker = cls(queue=queue, process=process, pipe=reading, output=output, told=settings.told)
        worker._send(
            {
                "modules": settings.modules,
                "folder": str(settings.folder),
                "profile": settings.profile,
                "examples": settings.examples,
                "seed": settings.seed,
                "deadline": settings.deadline,
                "silence": settings.silence,
                "warm": settings.warm,
                "style": settings.style,
                "in_order": settings.in_order,
                "first": not queue.asked,
                "contracts": list(dict.fromkeys(contract.name for contract, _ in target.pairs)),
                "pairs": [(contract.name, implementation.name) for contract, implementation in target.pairs],
            }
        )
        return worker

    def give(self, mutant: Mutant) -> None:
        """Hand over the next mutant."""
        self.mutant = mutant
        self._send(
            {
                "key": mutant.key,
                "module": mutant.module,
                "function": mutant.function,
                "device": mutant.device,
                "orders": mutant.orders,
                "source": mutant.source,
                "modules": self.queue.target.loaded,
                "told": asdict(self.told.get(mutant.mark, NOTHING_TOLD)),
            }
        )

    def read(self) -> list[dict[str, Any]]:
        """Take what the worker has said; an end of the stream closes it."""
        data = os.read(self.pipe, 2**20)
        self.closed = not data
        *lines, self.pending = (self.pending + data).split(b"\n")
        messages: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return messages

    def end(self) -> None:
        """Make sure that the process is gone."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        os.close(self.pipe)
        self.output.close()

    def last_words(self) -> str:
        """Return the end of what the process printed."""
        self.output.seek(0)
        return "\n".join(self.output.read().decode(errors="replace").splitlines()[-8:])

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


def _left_by(worker: _Worker, restarted: set[str]) -> Mutant:
    """Return the mutant that a worker ended on, for another try.

    A mutant runs in a fork, so no mutant can end a worker: raises WorkerError if it ends before the first or twice on
    the same.
    """
    words, mutant = worker.last_words(), worker.mutant
    worker.end()
    if mutant is None or mutant.key in restarted:
        name = worker.queue.target.name
        raise WorkerError(f"{name}: the worker ended {f'twice on {mutant}' if mutant else 'early'}:\n{words}")
    restarted.add(mutant.key)
    return mutant


def _judges_nothing(target: Target, red: Sequence[Red]) -> str:
    first = "".join(f"; {one.check} on {one.case}: {one.message}" for one in red[:1])
    return f"{target.name}: no check passes on the original, so none can tell a mutant from it{first}"


def _result(target: Target, mutant: Mutant | None, found: dict[str, Any]) -> Result:
    assert mutant is not None
    told = {key: value for key, value in found.items() if key not in ("kind", "key", "unit", "status")}
    return Result(
        key=mutant.key,
        kernel=target.name,
        file=mutant.file,
        line=mutant.line,
        operator=mutant.operator,
        function=mutant.function,
        before=mutant.before,
        after=mutant.after,
        diff=mutant.diff,
        status=Status(found["status"]),
        **told,
    )
