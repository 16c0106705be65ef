"""A plan carried out: cached results first, the others compiled, everything judged."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.compiling import messages, sharing, sources, workers
from harness.compiling.cache import Cache, default_folder
from harness.compiling.compiler import assemble_one, compile_one
from harness.compiling.figures import Figures, Result
from harness.compiling.plan import Pair, Plan, Use, make
from harness.compiling.recording import Specialisation
from harness.compiling.sharing import Lowering
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
    share: bool = True,
    on_progress: Callable[[Progress], object] = lambda progress: None,
) -> list[Judged]:
    """Return every use of ``plan`` judged, in its order.

    What ``cache`` knows is not compiled; what takes more than ``deadline`` seconds is a TIMEOUT and not cached, since
    another machine or deadline may do. ``jobs`` compilations run at once. Unless ``share``, every target is lowered
    on its own, and what ``cache`` knows of a lowering that was lent does not count.
    """
    results: dict[str, Result] = {}
    if cache is not None:
        known = {key: cache.get(key) for key in plan.specialisations}
        results = {key: result for key, result in known.items() if result is not None and (share or not result.lent)}
    cached = len(results)
    missing = [key for key in plan.specialisations if key not in results]

    def tell(key: str) -> None:
        one = plan.specialisations[key]
        what = f"{one.kernel} for {one.target.arch}"
        on_progress(Progress(done=len(results), total=len(plan.specialisations), cached=cached, what=what))

    def ended(key: str, end: workers.Ended) -> None:
        results[key] = result_of(end)
        if cache is not None and end.how != "late":
            cache.put(key, results[key])
        tell(key)

    def run(tasks: Mapping[str, workers.Task]) -> None:
        keys = list(tasks)
        workers.run(
            list(tasks.values()),
            jobs=jobs,
            deadline=deadline,
            on_start=lambda index: tell(keys[index]),
            on_end=lambda index, end: ended(keys[index], end),
        )

    wanted = {key: plan.specialisations[key] for key in missing}
    with tempfile.TemporaryDirectory(prefix="harness-lowered-") as folder:
        _compile(
            wanted, sharing.loans(wanted, functools.cache(sources.digest)) if share else {}, Path(folder), run, results
        )
    return [_judged(use, use.problem or results[use.key], deadline) for use in plan.uses]


def _compile(
    wanted: Mapping[str, Specialisation],
    borrowed: Mapping[str, str],
    folder: Path,
    run: Callable[[Mapping[str, workers.Task]], None],
    results: Mapping[str, Result],
) -> None:
    """Let ``run`` end each of ``wanted``, which fills ``results``: lenders, trials, then those who borrow.

    ``borrowed`` is borrower -> lender; lowerings go through ``folder``.
    """

    def lowered(keys: Iterable[str]) -> dict[str, Lowering]:
        found = {key: Lowering.read(folder / key) for key in keys}
        return {key: one for key, one in found.items() if one is not None}

    lenders = set(borrowed.values())
    run({
        key: partial(compile_one, one, folder / key if key in lenders else None)
        for key, one in wanted.items()
        if key not in borrowed
    })  # fmt: skip
    lent = lowered(lenders)
    trials = sharing.trials(borrowed, wanted, lent)
    run({key: partial(compile_one, wanted[key], folder / key) for key in trials.values()})
    own = lowered(trials.values())
    alike = {place for place, key in trials.items() if sharing.alike(lent[borrowed[key]], own.get(key), place[1])}
    rest: dict[str, workers.Task] = {}
    tried = set(trials.values())
    for key, lender in borrowed.items():
        if key in tried:
            continue
        one = wanted[key]
        figures = results[lender].figures
        if lender in lent and figures is not None and sharing.place_of(one) in alike:
            rest[key] = partial(assemble_one, one, lent[lender], figures, wanted[lender].target.arch)
        else:
            rest[key] = partial(compile_one, one)
    run(rest)


def compiled(pairs: Sequence[Pair], targets: Sequence[Target], *, jobs: int = 1) -> list[Judged]:
    """Return all that ``pairs`` launch on ``targets``, compiled, or found in the user's cache, and judged."""
    return carry_out(make(pairs, targets), Cache(default_folder()), jobs=jobs)


def result_of(end: workers.Ended) -> Result:
    """Return the result of a compilation whose process ended so."""
    times: dict[str, Any] = {"seconds": round(end.seconds, 3), "cpu_seconds": round(end.cpu_seconds, 3)}
    if end.how == "returned":
        lent = str(end.value.get("lent", ""))
        figures = Figures(**{name: value for name, value in end.value.items() if name != "lent"})
        return Result(ending="compiled", figures=figures, lent=lent, **times)
    if end.how == "raised":
        return Result(ending="refused", message=messages.refusal(end.error, end.output), **times)
    if end.how == "crashed":
        return Result(ending="crashed", message=messages.crash(end.signal, end.output), **times)
    return Result(ending="late", **times)


def _judged(use: Use, result: Result, deadline: float) -> Judged:
    return Judged(use=use, result=result, judgement=judge(result, use.target, expected=use.expected, deadline=deadline))
