"""The host's side of a launch with a grid barrier on a device, which is played by a stand-in for ``torch``.

What is played is what ``barrier_launch`` asks of torch: streams, events, captures, the current device.  Every step is
written down.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from harness.launch import grid_barrier as barrier
from harness.launch import physical
from harness.launch.lease import lease_holders
from harness.launch.physical import Described, physical_from
from harness.launch.sm_budget import current_budget
from harness.policies.saying import accepts, differs, standing_in

#: Units of each device, those that are left of them beside the reserve, and a launch that nobody would wait for.
_UNITS, _LEFT, _TIMEOUT = 12, 10, 0.05
#: A played device.
_FIRST = 0


class _Stream:
    def __init__(self, number: int, played: _Played) -> None:
        self.cuda_stream = number
        self._played = played

    def synchronize(self) -> None:
        self._played.steps.append(("stream waited for", self.cuda_stream))


class _Event:
    def __init__(self, played: _Played) -> None:
        self._played = played

    def record(self, stream: _Stream) -> None:
        self._played.steps.append(("recorded", stream.cuda_stream, self._played.current))

    def wait(self, stream: _Stream) -> None:
        self._played.steps.append(("waited for by", stream.cuda_stream))


class _Played(Described):
    """Two devices, and what was done with them in ``steps``; ``stream`` is the current one, ``capturing`` or not."""

    def __init__(self) -> None:
        super().__init__(_UNITS)
        self.steps: list[tuple[Any, ...]] = []
        self.stream, self.capturing, self.current = 5, False, 0
        #: What the device writes into words before the host has waited for it.
        self.late: tuple[torch.Tensor, list[int]] | None = None

    def count(self, device: int) -> int:
        return _UNITS

    @contextlib.contextmanager
    def device(self, index: int) -> Iterator[None]:
        before, self.current = self.current, index
        try:
            yield
        finally:
            self.current = before

    def current_stream(self, index: int) -> _Stream:
        return _Stream(100 * index + self.stream, self)

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def synchronize(self, index: int) -> None:
        self.steps.append(("device waited for", index))
        if self.late is not None:
            words, report = self.late
            words[2:7] = torch.tensor(report, dtype=torch.int32)

    def zeros(self, count: int, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        self.steps.append(("allocated", str(device), barrier._lock.locked()))
        return torch.zeros(count, dtype=dtype)

    def ones(self, count: int, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.ones(count, dtype=dtype)

    @property
    def standing_for_torch(self) -> Any:
        """What stands in the place of torch."""
        cuda = SimpleNamespace(
            device=self.device,
            current_stream=self.current_stream,
            is_current_stream_capturing=self.is_current_stream_capturing,
            Event=lambda: _Event(self),
            synchronize=self.synchronize,
        )
        return SimpleNamespace(
            cuda=cuda, zeros=self.zeros, ones=self.ones, int32=torch.int32, inference_mode=torch.inference_mode
        )

    def launch(self, index: int = 0, *, raises: type[BaseException] | None = None) -> torch.Tensor:
        """Launch once, note what is in force meanwhile, and return the words."""
        with barrier.barrier_launch(torch.device("cuda", index), kernel="k", timeout_s=_TIMEOUT) as launch:
            held = list(lease_holders())
            self.steps.append(("launched", self.current, launch.num_sms, current_budget(index), held))
            if raises is not None:
                raise raises
        return launch.words


@contextlib.contextmanager
def _playing() -> Iterator[_Played]:
    played = _Played()
    own = physical.source

    def source() -> Any:
        played.steps.append(("looked up", barrier._lock.locked()))
        return own()

    with standing_in(barrier, torch=played.standing_for_torch, source=source), physical_from(played):
        yield played


def _done(played: _Played, *kinds: str) -> list[tuple[Any, ...]]:
    return [step for step in played.steps if step[0] in kinds]


def a_launch_has_its_device_its_budget_and_the_lease() -> Iterator[str]:
    """The first launch of a stream waits until its words are cleared; whoever comes next waits for its end."""
    with _playing() as played:
        words = played.launch(1)
        allocated = ("allocated", "cuda:1", True)
        wanted: list[tuple[Any, ...]] = [
            allocated, allocated, ("stream waited for", 105), ("launched", 1, _LEFT, _LEFT, [1]), ("recorded", 105, 1)
        ]  # fmt: skip
        kinds = ("allocated", "stream waited for", "launched", "recorded", "waited for by")
        yield from differs("the first launch", _done(played, *kinds), wanted)
        yield from differs("its words", (words.numel() >= 7, words.any().item()), (True, False))
        left = (played.current, current_budget(1), list(lease_holders()))
        yield from differs("afterwards device, budget, lease", left, (0, None, []))
        played.steps.clear()
        played.stream = 6
        yield from differs("words of another stream", played.launch(1) is words, False)
        wanted = [("waited for by", 106), ("launched", 1, _LEFT, _LEFT, [1]), ("recorded", 106, 1)]
        yield from differs("the next launch", _done(played, "waited for by", "launched", "recorded"), wanted)
        played.stream = 5
        yield from differs("words of the first stream", played.launch(1) is words, True)
        yield from differs("words of another device", played.launch(0) is words, False)
        locked = {step[1] for step in _done(played, "looked up")}
        yield from differs("words are looked up under the lock", locked, {True})


def a_captured_launch_has_words_of_its_own() -> Iterator[str]:
    """One set for all captures, cleared before; no lease, because nothing runs; never the first launch."""
    with _playing() as played:
        played.capturing = True
        words = "the first launch is being captured"
        yield from accepts("a first launch in a capture", RuntimeError, words, played.launch)
        left = (played.current, current_budget(0), list(lease_holders()), _done(played, "allocated"))
        yield from differs("afterwards device, budget, lease, words", left, (0, None, [], []))
        played.capturing = False
        eager = played.launch()
        played.capturing = True
        played.steps.clear()
        first, second = played.launch(), played.launch()
        wanted: list[tuple[Any, ...]] = [("launched", 0, _LEFT, _LEFT, [])] * 2
        yield from differs("captures", _done(played, "launched", "allocated", "recorded", "waited for by"), wanted)
        yield from differs("their words", (first is second, first is eager), (True, False))
        yield from differs("they are cleared", (first.dtype, first.any().item()), (torch.int32, False))


def a_host_has_one_set_of_words() -> Iterator[str]:
    """Nothing is captured there, no stream is waited for, and no device is made current."""
    with _playing() as played:
        for _ in range(2):
            with barrier.barrier_launch(torch.device("cpu", 0), kernel="k", timeout_s=_TIMEOUT):
                pass
        wanted = [("allocated", "cpu:0", True)]
        yield from differs("steps", _done(played, "allocated", "stream waited for", "recorded"), wanted)


def what_was_interrupted_is_forgotten() -> Iterator[str]:
    """Some blocks may have been counted in and not out: the next launch has other words, and waits for the end."""
    for error in (ArithmeticError, KeyboardInterrupt):
        with _playing() as played:
            words = played.launch()
            played.steps.clear()
            with contextlib.suppress(error):
                played.launch(raises=error)
            yield from differs("the end is recorded", _done(played, "recorded"), [("recorded", 5, 0)])
            left = (played.current, current_budget(0), list(lease_holders()))
            yield from differs("device, budget, lease", left, (0, None, []))
            yield from differs("words", played.launch() is words, False)
            yield from differs("under the lock", {step[1] for step in _done(played, "looked up")}, {True})


def words_can_be_cleared_wherever_they_were_made() -> Iterator[str]:
    """What is made in inference mode could not be written outside of it."""
    with _playing() as played:
        with torch.inference_mode():
            words = played.launch()
        yield from differs("made in inference mode", words.is_inference(), False)


def a_timeout_on_a_device_is_silent_until_it_is_asked_for() -> Iterator[str]:
    """The host waits for the device, then raises what its words say, and clears it; other devices have none."""
    report, said = [1, 3, 2, 5, 8], "block 3, phase 2, arrived 5 of 8"
    with _playing() as played:
        words, others = played.launch(0), played.launch(1)
        played.late = words, report
        played.steps.clear()
        device = torch.device("cuda", _FIRST)
        timeout = barrier.GridBarrierTimeout
        yield from accepts("the check", timeout, said, lambda: barrier.check_grid_barriers(device))
        wanted = [("device waited for", 0)]
        yield from differs("the device", _done(played, "device waited for", "stream waited for"), wanted)
        played.late = None
        barrier.check_grid_barriers(device)
        others[2:7] = torch.tensor(report, dtype=torch.int32)
        barrier.check_grid_barriers(device)
        words[2:7] = torch.tensor(report, dtype=torch.int32)
        yield from differs("a launch after one", played.launch(0) is words, True)
        barrier.check_grid_barriers(torch.device("cpu", 2))
        yield from accepts("a host", timeout, said, lambda: barrier.check_grid_barriers(torch.device("cpu", 0)))
        yield from differs("a host is not waited for", _done(played, "device waited for"), wanted * 3)
        yield from differs("under the lock", {step[1] for step in _done(played, "looked up")}, {True})


RIGHT = (
    a_launch_has_its_device_its_budget_and_the_lease,
    a_captured_launch_has_words_of_its_own,
    a_host_has_one_set_of_words,
    what_was_interrupted_is_forgotten,
    words_can_be_cleared_wherever_they_were_made,
    a_timeout_on_a_device_is_silent_until_it_is_asked_for,
)
