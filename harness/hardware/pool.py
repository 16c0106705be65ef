"""Tests handed to worker processes: in chunks of neighbours, a worker replaced where a test ended it."""

from __future__ import annotations

import selectors
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.hardware.worker import Outcome, Start, Task, Worker

#: Tests that go to one worker in a row: they share fixtures of their module, and another worker takes the next ones.
CHUNK = 6
#: Seconds: a test that may take longer goes to a worker by itself, before the others.
LONG = 140.0
#: Workers in a row that do not become ready before no more are started.
FAILED_STARTS = 2


@dataclass(frozen=True, kw_only=True)
class Test:
    """One test of a session: ``module`` is its file; ``alone`` if nothing else may run on the machine meanwhile."""

    # not a test class, whatever its name
    __test__ = False

    nodeid: str
    module: str
    deadline: float
    alone: bool = False


def chunks(tests: Iterable[Test], size: int = CHUNK) -> list[list[Test]]:
    """Return ``tests`` as runs of at most ``size`` neighbours of one module.

    Single are long ones, which come first, and those that must be alone, which come last.  The order within a chunk
    and among chunks of one kind is that of ``tests``.
    """
    long: list[list[Test]] = []
    together: list[list[Test]] = []
    alone: list[list[Test]] = []
    for test in tests:
        if test.alone:
            alone.append([test])
        elif test.deadline > LONG:
            long.append([test])
        elif together and together[-1][-1].module == test.module and len(together[-1]) < size:
            together[-1].append(test)
        else:
            together.append([test])
    return long + together + alone


class Pool:
    """Up to ``start.workers`` processes and what is left for them; nothing starts before ``wait_for`` is called.

    ``on_outcome`` is told what came of each test, in the order in which they end.  A worker that does not become ready
    costs no test: another one takes its tests.  After ``FAILED_STARTS`` of them in a row those that are there go on
    alone, and what nobody is left to run comes out like the last start.
    """

    def __init__(self, start: Start, tests: Iterable[Test], on_outcome: Callable[[str, Outcome], object]) -> None:
        self._start = start
        self._on_outcome = on_outcome
        size = CHUNK if start.workers > 1 else 10**6
        self._waiting = deque(deque(chunk) for chunk in chunks(tests, size))
        self._left: dict[Worker, deque[Test]] = {}
        self._given: dict[Worker, Test] = {}
        self._over: set[str] = set()
        self._failed_starts: list[Outcome] = []
        self.replaced = 0

    def wait_for(self, nodeid: str) -> None:
        """Go on with all tests until the one called ``nodeid`` is over."""
        while nodeid not in self._over:
            self._hand_out()
            if any(worker.task is not None for worker in self._left):
                self._listen()
            else:
                self._tell(nodeid, self._failed_starts[-1])

    def close(self) -> None:
        """End every worker; what they were doing is lost."""
        for worker in self._left:
            worker.close()
        self._left.clear()

    def _tell(self, nodeid: str, outcome: Outcome) -> None:
        self._over.add(nodeid)
        self._on_outcome(nodeid, outcome)

    def _hand_out(self) -> None:
        """Give every worker that is free something to do, and start workers while there is more."""
        for worker, chunk in list(self._left.items()):
            if worker.task is None and chunk:
                self._give(worker)
        while self._waiting:
            free = next((worker for worker in self._left if worker.task is None), None)
            busy = any(worker.task is not None for worker in self._left)
            if busy and self._waiting[0][0].alone:
                # those that are alone come last: nothing is left that could start beside one
                return
            if free is None:
                if len(self._left) >= self._start.workers or len(self._failed_starts) >= FAILED_STARTS:
                    return
                free = Worker(self._start)
            self._left[free] = self._waiting.popleft()
            self._give(free)

    def _give(self, worker: Worker) -> None:
        chunk = self._left[worker]
        test = chunk.popleft()
        self._given[worker] = test
        following = chunk[0].nodeid if chunk else None
        worker.give(Task(nodeid=test.nodeid, following=following, deadline=test.deadline))

    def _listen(self) -> None:
        """Wait until some worker says something or is late."""
        working = [worker for worker in self._left if worker.task is not None]
        with selectors.DefaultSelector() as selector:
            for worker in working:
                selector.register(worker.telling, selectors.EVENT_READ, worker)
            due = min(worker.due for worker in working)
            ready = {key.data for key, _ in selector.select(max(0.0, due - time.monotonic()))}
        for worker in working:
            was_ready = worker.ready
            outcome = worker.read() if worker in ready else None
            if outcome is None and time.monotonic() >= worker.due:
                outcome = worker.late()
            if worker.ready and not was_ready:
                self._failed_starts.clear()
            if outcome is not None and worker.ready:
                self._tell(self._given[worker].nodeid, outcome)
            elif outcome is not None:
                self._failed_starts.append(outcome)
                self._left[worker].appendleft(self._given[worker])
            if worker.gone:
                self._replace(worker)

    def _replace(self, worker: Worker) -> None:
        """What a worker that is gone would have done next is the first thing that another one does."""
        chunk = self._left.pop(worker)
        del self._given[worker]
        if chunk:
            self._waiting.appendleft(chunk)
        self.replaced += 1
