"""Which cases run under a tool: few and small, the same ones each time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.cases import parse
from harness.contract import Contract, Implementation
from harness.known import Ledger

#: Cases that are tried in place of those that are too large, at most: each is built to find out.
SPARE = 10


def of_job(contract: Contract[Any], implementation: Implementation, job: Mapping[str, Any]) -> list[Any]:
    """Return the cases of a job, the fields of ``lane.Job``: those it names, or else a choice."""
    if job["cases"]:
        return [parse(contract, text) for text in job["cases"]]
    return cases(contract, implementation, pinned=job["pinned"], drawn=job["drawn"], seed=job["seed"])


def cases(contract: Contract[Any], implementation: Implementation, *, pinned: int, drawn: int, seed: int) -> list[Any]:
    """Return the first ``pinned`` pinned cases of ``contract`` and ``drawn`` others, without those in quarantine."""
    ledger = Ledger(implementation.known)
    chosen = list(contract.pinned[:pinned])
    if drawn:
        chosen += [case for case in _drawn(contract, drawn + len(chosen), seed) if case not in chosen][:drawn]
    return [case for case in chosen if not ledger.quarantines(case)]


def instead(contract: Contract[Any], implementation: Implementation, job: Mapping[str, Any]) -> Iterator[Any]:
    """Yield, once asked, the cases that run in place of those of a job that are too large: SPARE at most.

    The other pinned cases first, then drawn ones; none in place of cases that the job names.
    """
    if job["cases"]:
        return
    first = of_job(contract, implementation, job)
    more = cases(contract, implementation, pinned=len(contract.pinned), drawn=len(first) + SPARE, seed=job["seed"])
    yield from [case for case in more if case not in first][:SPARE]


def _drawn(contract: Contract[Any], count: int, seed: int) -> list[Any]:
    """Return ``count`` cases that Hypothesis draws; it begins with the smallest."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    found: list[Any] = []

    @seeded(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(contract.cases())
    def collect(case: Any) -> None:
        found.append(case)

    collect()
    return found
