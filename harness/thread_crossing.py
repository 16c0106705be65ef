"""Two threads that enter and leave the same kind of context manager, in every order that there is."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

from harness.state import diff, restore, snapshot

_Action = Literal["enter", "exit"]
_Order = tuple[tuple[int, _Action], ...]
_NAMES = "AB"
#: How long the end of everything may take once no step is left, in seconds.
_END_S = 10.0


@dataclass(frozen=True)
class Crossing:
    """What was tried: orders such as ``"enter A, enter B, exit A, exit B"``.

    ``refused`` maps an order to the exception with which a thread was turned away on entering, ``waited`` names orders
    in which a thread had to wait for the other; both are safe. ``problems`` are not.
    """

    orders: tuple[str, ...]
    refused: dict[str, str]
    waited: tuple[str, ...]
    problems: tuple[str, ...]

    def __str__(self) -> str:
        heading = (
            f"{len(self.problems)} problems in {len(self.orders)} orders "
            f"({len(self.refused)} refused, {len(self.waited)} waited)"
        )
        return "\n  ".join([heading, *self.problems])


def cross_threads(
    manager_factory: Callable[[], AbstractContextManager[Any]],
    read: Callable[[], object] = lambda: None,
    *,
    patience_s: float = 0.2,
) -> Crossing:
    """Let two threads enter and leave ``manager_factory()`` in each of the six orders, in lockstep.

    ``read`` returns what the manager sets, as the calling thread sees it. Between its own steps a thread must read the
    same value, whatever the other does, and after leaving what it read before entering; at the end of an order
    process-global state must be what it was. Anything else is a problem, as is an exception on leaving or reading. Each
    thread starts with a copy of the caller's context variables. A step that
    does not end in ``patience_s`` seconds is waiting for the other thread: the order goes on with that one. State that
    changed is put back before the next order.
    """
    tried, refused, waited, problems = [], {}, [], []
    for order in _orders():
        title = ", ".join(f"{action} {_NAMES[thread]}" for thread, action in order)
        tried.append(title)
        before = snapshot()
        threads = [_Thread(name, manager_factory, read) for name in _NAMES]
        if _drive(order, threads, patience_s):
            waited.append(title)
        for thread in threads:
            if thread.refusal:
                refused[title] = thread.refusal
            problems += [f"{title}: {problem}" for problem in thread.problems]
            if thread.unfinished:
                problems.append(f"{title}: {thread.name} still waits after {_END_S:g} s")
        changed = diff(before, snapshot())
        problems += [f"{title}: {difference}" for difference in changed]
        restore(before)
    return Crossing(tuple(tried), refused, tuple(waited), tuple(problems))


def _orders(done: tuple[int, int] = (0, 0)) -> Iterator[_Order]:
    if done == (2, 2):
        yield ()
    for thread in (0, 1):
        if done[thread] < 2:
            action: _Action = "enter" if done[thread] == 0 else "exit"
            after = (done[0] + (thread == 0), done[1] + (thread == 1))
            yield from (((thread, action), *rest) for rest in _orders(after))


def _drive(order: _Order, threads: list[_Thread], patience_s: float) -> bool:
    """Have ``threads`` take their steps; return whether one had to wait for the other."""
    waited = False
    for number, action in order:
        # a thread that waits takes its next step by itself as soon as it may
        threads[number].todo.put(action)
        if not threads[number].idle():
            continue
        waited |= not threads[number].rest(patience_s)
    for thread in threads:
        thread.todo.put(None)
    for thread in threads:
        thread.end()
    return waited


class _Thread:
    """One of the two, taking a step when told."""

    def __init__(
        self, name: str, manager_factory: Callable[[], AbstractContextManager[Any]], read: Callable[[], object]
    ) -> None:
        self.name = name
        self.todo: queue.SimpleQueue[_Action | None] = queue.SimpleQueue()
        self.problems: list[str] = []
        self.refusal = ""
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._asked = 0
        self._factory = manager_factory
        self._read = read
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work,), name=f"crossing {name}", daemon=True)
        self._thread.start()

    @property
    def unfinished(self) -> bool:
        return self._thread.is_alive()

    def idle(self) -> bool:
        """Whether every step asked for before the newest one has ended."""
        while self._asked and not self._done.empty():
            self._done.get()
            self._asked -= 1
        self._asked += 1
        return self._asked == 1

    def rest(self, patience_s: float) -> bool:
        """Wait for the newest step; return whether it ended in time."""
        try:
            self._done.get(timeout=patience_s)
        except queue.Empty:
            return False
        self._asked -= 1
        return True

    def end(self) -> None:
        self._thread.join(_END_S)

    def _work(self) -> None:
        manager: AbstractContextManager[Any] | None = None
        outside: object = None
        inside: object = None
        while (action := self.todo.get()) is not None:
            try:
                if action == "enter":
                    outside = self._read()
                    manager = self._factory()
                    try:
                        manager.__enter__()
                    except Exception as error:
                        manager, self.refusal = None, f"{type(error).__name__}: {error}"
                    else:
                        inside = self._read()
                elif manager is not None:
                    self._compare("inside", inside)
                    manager.__exit__(None, None, None)
                    self._compare("after leaving", outside)
            except Exception as error:
                self.problems.append(f"{self.name}: {action} raised {type(error).__name__}: {error}")
            self._done.put(None)

    def _compare(self, where: str, expected: object) -> None:
        value = self._read()
        if value != expected:
            self.problems.append(f"{self.name} reads {value!r} {where}, expected {expected!r}")
