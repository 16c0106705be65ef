"""A plan carried out: cached results first, the others compiled, everything judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.compiling import messages, workers
from harness.compiling.cache import Cache, default_folder
from harness.compiling.compiler import compile_one
from harness.compiling.figures import Figures, Result
from harness.compiling.plan import Pair, Plan, Use, make
from harness.compiling.verdicts import Judgement, judge
from harness.device.targets import Target

DEADLINE = 120.0


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One use of a specialisation with its result and the verdict."""

    use: Use
    result: Result
    judgement: Judgement


@dataclass(frozen=True, kw_only=True)
class Progress:
    """``done`` of ``total`` compilations are over, ``cached`` of them needed none; ``what`` starts or has ended."""

    done: int
    total: int
    cached: int
    what: str


def carry_out(
    plan: Plan,
    cache: Cache | None,
    *,
    jobs: int,
    deadline: float = DEADLINE,
    on_progress: Callable[[Progress], object] = lambda progress: None,
) -> list[Judged]:
    """Return every use of ``plan`` judged, in its order.

    What ``cache`` knows is not compiled; what takes more than ``deadline`` seconds is a TIMEOUT and not cached, since
    another machine or deadline may do. ``jobs`` compilations run at once.
    """
    results: dict[str, Result] = {}
    if cache is not None:
        known = {key: cache.get(key) for key in plan.specialisations}
        results = {key: result for key, result in known.items() if result is not None}
    cached = len(results)
    missing = [key for key in plan.specialisations if key not in results]

    def tell(key: str) -> None:
        one = plan.specialisations[key]
        what = f"{one.kernel} for {one.target.arch}"
        on_progress(Progress(done=len(results), total=len(plan.specialisations), cached=cached, what=what))

    def ended(index: int, end: workers.Ended) -> None:
        key = missing[index]
        results[key] = result_of(end)
        if cache is not None and end.how != "late":
            cache.put(key, results[key])
        tell(key)

    workers.run(
        [partial(compile_one, plan.specialisations[key]) for key in missing],
        jobs=jobs,
        deadline=deadline,
        on_start=lambda index: tell(missing[index]),
        on_end=ended,
    )
    return [_judged(use, use.problem or results[use.key], deadline) for use in plan.uses]


def compiled(pairs: Sequence[Pair], targets: Sequence[Target], *, jobs: int = 1) -> list[Judged]:
    """Return all that ``pairs`` launch on ``targets``, compiled, or found in the user's cache, and judged."""
    return carry_out(make(pairs, targets), Cache(default_folder()), jobs=jobs)


def result_of(end: workers.Ended) -> Result:
    """Return the result of a compilation whose process ended so."""
    times: dict[str, Any] = {"seconds": round(end.seconds, 3), "cpu_seconds": round(end.cpu_seconds, 3)}
    if end.how == "returned":
        return Result(ending="compiled", figures=Figures(**end.value), **times)
    if end.how == "raised":
        return Result(ending="refused", message=messages.refusal(end.error, end.output), **times)
    if end.how == "crashed":
        return Result(ending="crashed", message=messages.crash(end.signal, end.output), **times)
    return Result(ending="late", **times)


def _judged(use: Use, result: Result, deadline: float) -> Judged:
    return Judged(use=use, result=result, judgement=judge(result, use.target, expected=use.expected, deadline=deadline))
