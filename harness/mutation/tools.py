"""Other tools as judges of the same mutants: gpucheck, triton-viz and ttsem, each as its documentation says.

Cases are those of ``harness.mutation.fixed``, and outputs are compared with the oracle by the same fixed tolerances,
all of them, not the first alone.  What a tool reports is a kill as well.  None of the tools is needed for anything
else: they are imported when a mutant is judged.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

from harness import cases
from harness.contract import Contract, Implementation
from harness.device.targets import Target
from harness.launch.current import pretending
from harness.launch.physical import Described, physical_from
from harness.mutation.apart import apart
from harness.mutation.behind import files
from harness.mutation.fixed import CHECK, FixedJudging, complaint, difference
from harness.mutation.plan import Unit
from harness.mutation.targets import Pair
from harness.outcome import CaseResult, Violation
from harness.poison import Poison
from harness.trial import normalised

#: Seconds that a tool may take over one case before it is taken to hang.
SECONDS = 60.0
#: The target whose form of the kernels is launched in tools that do not model PTX: theirs has none.
PORTABLE = "gfx942"
#: What ttsem raises where it models something not, by which it says nothing about the kernel.
UNJUDGED = "Unjudged:"
#: SMs that such a launch is told of.
UNITS = 4


def _tokens(n: int, more: str) -> str:
    routing = f"Routing(num_tokens={n}, num_experts=4, rows=((0, 1), (2, 3), (1, 2), (3, 0)))"
    return f"Case(routing={routing}, hidden_size=128, {more})"


def _dispatched(n: int) -> str:
    routing = f"Routing(num_tokens={2 * n}, num_experts=4, rows=((0, 2), (1, 3), (3, 0), (2, 1)))"
    return (
        f"Case(routing={routing}, live=({n}, {n}), max_tokens={n}, experts_per_rank=2, hidden_size=128, out_size=128)"
    )


#: Contract -> a case of so many rows, in which gpucheck's shapes decide how many there are.
ROWS: dict[str, Callable[[int], str]] = {
    "sparse_mla_decode": lambda n: (
        "Case(num_heads=16, main=Part(cache=PagedCache(page_size=64, num_tokens=128, page_order=(0, 1), "
        f"dtype=torch.float8_e4m3fn), lists=IndexLists(num_rows={n}, topk=64)))"
    ),
    "paged_mqa_logits": lambda n: (
        f"Case(num_heads=64, table=BlockTable(seq_lens=({n}, 64), page_size=64, page_order=(0, 1, 2)), max_seq_len=128)"
    ),
    "merge_attn_states": lambda n: f"Case(num_parts=2, empty={((),) * n}, head_dim=128)",
    "mxfp4_moe": lambda n: _tokens(n, "intermediate_size=128"),
    "mega_moe": lambda n: _tokens(n, "intermediate_size=128"),
    "moe_scatter": lambda n: _tokens(n, "output_size=64, weights='bf16'"),
    "ep_dispatch_combine": _dispatched,
}


def fuzzed(pairs: Sequence[Pair], first: int) -> list[Unit]:
    """Return units, numbered from ``first``, whose numbers of rows are those of ``gpucheck.fuzzing.fuzz_shapes``."""
    shapes = importlib.import_module("gpucheck.fuzzing.shapes").fuzz_shapes(ndim=1, max_size=70, n=5, seed=0)
    rows = [size for (size,) in shapes if size]
    found: list[Unit] = []
    for contract, implementation in pairs:
        for n in rows if contract.name in ROWS else ():
            case = cases.parse(contract, ROWS[contract.name](n))
            found.append(Unit(contract, implementation, case, False, first + len(found)))
    return found


class Gpucheck(FixedJudging):
    """gpucheck's ``assert_close`` with tolerances of its choice, doubled, and with those of the fixed tests.

    Kernels run on the virtual GPU.

    It has no checks of memory without a GPU; the virtual GPU has.
    """

    def differences(
        self, contract: Contract[Any], outputs: Mapping[str, Any], expected: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Yield three checks for every output: those that are too strict for the original say nothing."""
        close = importlib.import_module("gpucheck").assert_close
        for name in contract.outputs:
            got, wanted = outputs[name], expected[name]
            for check, twice in (("gpucheck", False), ("gpucheck-2x", True)):
                yield f"{check}:{name}", complaint(partial(close, got, wanted, nan_equal=True, baseline_2x=twice))
            yield f"{CHECK}:{name}", difference(contract, got, wanted)


class _Elsewhere(FixedJudging):
    """Judges by what executes kernels otherwise than the virtual GPU, each case in a process of its own."""

    #: What the tool does with a launch: a check, how it executes, and whether there are results then.
    steps: ClassVar[Sequence[tuple[str, _Execute, bool]]]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        #: The kernels that were launched, as ``module.name``.
        self.kernels: set[str] = set()

    def result(
        self, contract: Contract[Any], implementation: Implementation, case: Any, target: Target | None = None
    ) -> CaseResult:
        """Run every step of the tool; the outputs of those that compute any are compared with the oracle."""
        found = CaseResult()
        launch = self._find(implementation).launch
        for check, execute, computes in self.steps:
            inputs = contract.inputs(case, self._lane.device, Poison())

            def call(execute: _Execute = execute, inputs: Any = inputs) -> tuple[Any, set[str]]:
                with pretending(PORTABLE), physical_from(Described(UNITS)):
                    return execute(implementation, lambda: launch(**inputs))

            outcome = apart(call, seconds=SECONDS)
            if outcome.problem.startswith(UNJUDGED):
                # never passes on the original, so it kills nothing
                found.violations.append(Violation(f"{check}: no verdict", outcome.problem))
                continue
            found.checks_run.add(check)
            if outcome.problem:
                found.violations.append(Violation(check, outcome.problem))
                continue
            result, kernels = outcome.value
            self.kernels |= kernels
            if computes:
                outputs, wrong = normalised(contract, result)
                if wrong:
                    found.violations.append(Violation(check, wrong[0]))
                else:
                    self._compare(contract, case, outputs, found)
        return found

    def differences(
        self, contract: Contract[Any], outputs: Mapping[str, Any], expected: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Yield a check for every output."""
        for name in contract.outputs:
            yield f"{CHECK}:{name}", difference(contract, outputs[name], expected[name])


#: (implementation, its launch) -> (result, the kernels that were launched)
_Execute = Callable[[Implementation, Callable[[], Any]], tuple[Any, set[str]]]


def _in_ttsem(implementation: Implementation, launch: Callable[[], Any]) -> tuple[Any, set[str]]:
    sanitize = importlib.import_module("ttsem.sanitize")
    with sanitize.session(races="raise"), _noted() as kernels:
        return launch(), kernels


@contextmanager
def _noted() -> Iterator[set[str]]:
    """Note which kernels are launched through Triton's own class."""
    jitted = importlib.import_module("triton.runtime.jit").JITFunction
    before, kernels = jitted.run, set[str]()

    def run(kernel: Any, *arguments: Any, **options: Any) -> Any:
        kernels.add(f"{kernel.fn.__module__}.{kernel.fn.__name__}")
        return before(kernel, *arguments, **options)

    jitted.run = run
    try:
        yield kernels
    finally:
        jitted.run = before


def _sanitized(implementation: Implementation, launch: Callable[[], Any]) -> tuple[Any, set[str]]:
    client = importlib.import_module("triton_viz.clients").Sanitizer(abort_on_error=True)
    with _wrapped(implementation, client) as kernels:
        launch()
    return None, kernels


def _traced(implementation: Implementation, launch: Callable[[], Any]) -> tuple[Any, set[str]]:
    client = importlib.import_module("triton_viz.clients").Tracer()
    with _wrapped(implementation, client) as kernels:
        return launch(), kernels


@contextmanager
def _wrapped(implementation: Implementation, client: Any) -> Iterator[set[str]]:
    """Give every jitted function of the modules behind ``implementation`` to ``client``, as the command does."""
    tuner = importlib.import_module("triton.runtime.autotuner")
    jitted = importlib.import_module("triton.runtime.jit").JITFunction
    trace = importlib.import_module("triton_viz").trace(client=client)
    kernels: set[str] = set()
    for module in (sys.modules[name] for name in files([implementation])):
        for name, value in list(vars(module).items()):
            if isinstance(value, (jitted, tuner.Autotuner, tuner.Heuristics)):
                traced = trace(value)
                traced.run = _noting(traced.run, f"{traced.__module__}.{traced.__name__}", kernels)
                setattr(module, name, traced)
    # the process ends with the launch: nothing has to be undone
    yield kernels


def _noting(run: Callable[..., Any], name: str, kernels: set[str]) -> Callable[..., Any]:
    def noted(*arguments: Any, **options: Any) -> Any:
        kernels.add(name)
        return run(*arguments, **options)

    return noted


class Ttsem(_Elsewhere):
    """ttsem's ``sanitize.session``: executes the IR of Triton's frontend; reports accesses out of bounds and races."""

    steps = (("ttsem", _in_ttsem, True),)


class TritonViz(_Elsewhere):
    """triton-viz, in two runs: its sanitizer, which leaves no results, and its tracer, Triton's interpreter."""

    steps = (("sanitizer", _sanitized, False), ("tracer", _traced, True))
