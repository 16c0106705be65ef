"""The CUDA-graph contract on a GPU: a captured launch, replayed, is the launch, whatever happens in between.

Checks, by id: ``graph:first`` (a first call, in inference mode, and one after it, return) · ``graph:capture`` (nothing
that a capture forbids, no kernel compiled or tuned) · ``graph:memory`` (all memory is of the graph's pool, none of it
is kept, and nothing is written that others may have by now) · ``graph:replay`` (the outputs, filled with junk before,
are those of a launch, each time) · ``graph:inputs`` (so they are after the inputs changed in place, junk in what may
hold anything) · ``graph:outputs`` (no later launch writes them) · ``graph:pool`` (nor does a second graph in the same
pool, captured in inference mode and for other inputs).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from harness.compare import first_bit_error
from harness.contract import Contract, Implementation, Inputs
from harness.graphs.capture import Captured, CaptureFault, capture
from harness.graphs.cases import graph_cases, other_size, put, replays
from harness.graphs.memory import Canaries, spoil, tracing
from harness.hardware.emulation import CannotEmulate
from harness.known import Ledger
from harness.outcome import Violation, described
from harness.poison import HUGE, NAN, Pattern, Poison
from harness.trial import normalised

#: Other inputs that a graph is replayed with, at most.
MOST_REPLAYS = 6
#: Replays of the same inputs, one after the other: what adds up from one to the next shows.
REPEATS = 2

Tensors = dict[str, torch.Tensor]


def check_graphs(
    contract: Contract[Any], implementation: Implementation, device: torch.device | None = None
) -> list[Violation]:
    """Return what breaks the CUDA-graph contract on the cases that ``implementation`` declares; ``site`` is the case.

    Nothing but the graph's own cases is launched, and bits are compared with launches outside of a graph, so the
    implementation is taken to be right there.  Failures that it knows of are left out, and cases that it keeps in
    quarantine.  ``device`` is the current GPU by default.  Raises ContractError where
    the contract fails, CannotEmulate inside ``emulating``, and whatever CUDA raises for a replay: the device may be
    lost then.
    """
    where = torch.device("cuda", torch.cuda.current_device()) if device is None else device
    found: list[Violation] = []
    known = Ledger(implementation.known)
    cases = tuple(case for case in graph_cases(contract, implementation) if not known.quarantines(case))
    # streams, pools and what a launch makes without naming a device are the current one's
    with torch.cuda.device(where):
        for case in cases:
            check = _Check(contract, implementation.launch, case, where)
            check.run(other_size(cases, case))
            found += [wrong for wrong in check.found if not known.tolerates(wrong.check, case)]
    return found


class _Check:
    """One case on one device."""

    def __init__(self, contract: Contract[Any], launch: Callable[..., Any], case: Any, device: torch.device) -> None:
        self.found: list[Violation] = []
        self._contract = contract
        self._launch = launch
        self._case = case
        self._device = device
        # replays alternate between streams, neither of which is the one that was captured
        stream: Any = torch.cuda.Stream
        self._streams = itertools.cycle([torch.cuda.default_stream(device), stream(device)])
        self._captured_on = stream(device)

    def run(self, others: tuple[Any, ...]) -> None:
        """Do everything; ``others`` are cases of other sizes, launched in between."""
        # what other tests left free would be taken for canaries
        torch.cuda.empty_cache()
        given = self._inputs(self._case)
        expected = self._first(given)
        first = None if expected is None else self._capture("graph:capture", given)
        if expected is None or first is None:
            return
        try:
            self._replay_all(first, given, expected, others)
        finally:
            torch.cuda.synchronize(self._device)
            first.graph.reset()

    def _replay_all(self, first: Captured, given: Inputs, expected: Tensors, others: tuple[Any, ...]) -> None:
        outputs = self._outputs(first.result)
        self._replay("graph:replay", first, outputs, expected)
        before = _copied(outputs)
        for other in others:
            self._launch(**self._inputs(other))
        self._compare("graph:outputs", outputs, before, "what the graph returned, after a later launch")
        canaries = Canaries(self._device)
        self._replay("graph:replay", first, outputs, expected, " after a launch of another size")
        for again in itertools.islice(replays(self._contract, self._case, self._device), MOST_REPLAYS):
            wanted = _copied(self._outputs(self._launch(**again.quiet)))
            # what a launch remembers of its last call, or has let go of, is not what the graph reads next; twice, for
            # those that remember in two buffers by turns
            for _ in range(2):
                self._launch(**given)
            put(given, again.junk)
            spoil(self._device)
            self._replay("graph:inputs", first, outputs, wanted, f" with {again.label}, put there in place")
        if wrong := canaries.changed():
            self._add("graph:memory", f"a replay {wrong}")
        put(given, self._inputs(self._case))
        self._second(first, outputs, expected)

    def _first(self, given: Inputs) -> Tensors | None:
        """Call the launch outside of any capture, and return what it gives."""
        try:
            with torch.inference_mode():
                self._launch(**given)
            return _copied(self._outputs(self._launch(**given)))
        except CannotEmulate:
            raise
        except Exception as error:
            self._add("graph:first", f"a call after a first one in inference mode: {described(error)}")
            return None

    def _capture(self, check: str, given: Inputs, pool: tuple[int, int] | None = None) -> Captured | None:
        torch.cuda.synchronize(self._device)
        try:
            with tracing(self._device) as trace:
                captured = capture(self._launch, given, stream=self._captured_on, pool=pool)
        except CaptureFault as fault:
            self._add(check, str(fault))
            return None
        outputs = list(self._outputs(captured.result).values())
        for wrong in dict.fromkeys((*trace.outside(captured.pool), *trace.kept(captured.pool, outputs))):
            self._add("graph:memory", wrong)
        return captured

    def _second(self, first: Captured, outputs: Tensors, expected: Tensors) -> None:
        """Capture again, for other inputs, in inference mode, into the first graph's pool, and replay both in turns."""
        others = next((again.quiet for again in replays(self._contract, self._case, self._device)), None)
        fresh = self._inputs(self._case) if others is None else others
        wanted = _copied(self._outputs(self._launch(**fresh)))
        with torch.inference_mode():
            second = self._capture("graph:pool", fresh, first.pool)
        if second is None:
            return
        theirs = self._outputs(second.result)
        self._replay("graph:pool", first, outputs, expected, ", the first of two graphs in a pool")
        before = _copied(outputs)
        self._replay("graph:pool", second, theirs, wanted, ", the second of two graphs in a pool")
        self._compare("graph:pool", outputs, before, "what one graph returned, after a replay of the other")
        self._replay("graph:pool", first, outputs, expected, ", after the second graph of its pool")
        second.graph.reset()

    def _replay(self, check: str, captured: Captured, outputs: Tensors, expected: Tensors, when: str = "") -> None:
        """Fill the outputs with junk, replay and compare, more than once."""
        for pattern in itertools.islice(itertools.cycle((NAN, HUGE)), REPEATS):
            _fill(outputs, pattern)
            torch.cuda.synchronize(self._device)
            with torch.cuda.stream(next(self._streams)):
                captured.graph.replay()
            torch.cuda.synchronize(self._device)
            if not self._compare(check, outputs, expected, f"a replay{when} is a launch"):
                return

    def _compare(self, check: str, outputs: Tensors, expected: Mapping[str, torch.Tensor], rule: str) -> bool:
        with torch.inference_mode():
            error = first_bit_error(outputs, expected, rule)
        if error:
            self._add(check, error)
        return error is None

    def _inputs(self, case: Any) -> Inputs:
        return self._contract.inputs(case, self._device, Poison())

    def _outputs(self, result: Any) -> Tensors:
        outputs, wrong = normalised(self._contract, result)
        if wrong:
            raise ValueError(f"{self._contract.name}: {wrong[0]}")
        return outputs

    def _add(self, check: str, message: str) -> None:
        self.found.append(Violation(check, message, case=repr(self._case)))


def _copied(outputs: Mapping[str, torch.Tensor]) -> Tensors:
    return {name: tensor.detach().clone() for name, tensor in outputs.items()}


def _fill(outputs: Mapping[str, torch.Tensor], pattern: Pattern) -> None:
    # what a capture in inference mode returned can be written in inference mode alone
    with torch.inference_mode():
        for tensor in outputs.values():
            Poison(pattern).fill_(tensor, "outputs")
