"""What the device suite runs for one contract and implementation, by profile, and how it comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from harness import known_file, profiles
from harness.contract import Contract, Implementation
from harness.device import TARGETS, Target
from harness.hardware.lane import device_lane
from harness.hardware.sizes import real_sizes
from harness.hardware.workloads import check_workload
from harness.known import Ledger
from harness.lanes import NoRoom
from harness.report import table
from harness.report.records import Verdict
from harness.report.summary import Summary
from harness.search import search

#: Profile -> cases drawn for an implementation: each may compile, and runs a dozen launches.
EXAMPLES = {"quick": 8, "ci": 60, "nightly": 1000}
#: Seconds after which a search starts no new case.
SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class Judged:
    """``problem`` says what is wrong, ``lacking`` what the hardware here does not have; both empty: all is well.

    ``passed_over`` says for which cases the device's memory was too small.
    """

    problem: str = ""
    lacking: str = ""
    passed_over: tuple[str, ...] = ()


def profile(config: pytest.Config) -> str:
    """Return the profile that was asked for, or ours by default."""
    name = config.getoption("hypothesis_profile", None) or profiles.DEFAULT
    return name if name in EXAMPLES else profiles.DEFAULT


def workloads(contract: Contract[Any], config: pytest.Config) -> list[int]:
    """Return the numbers of the real sizes that the profile asks for: all, or the first and what is not a workload."""
    numbers = list(range(len(real_sizes(contract))))
    return [*numbers[:1], *numbers[max(1, len(contract.workloads)) :]] if profile(config) == "quick" else numbers


def searched(contract: Contract[Any], implementation: Implementation, target: Target, config: pytest.Config) -> Judged:
    """Run illegal calls, pinned cases and drawn ones on the device."""
    lane = device_lane(target)
    if missing := _requires(implementation, target):
        return Judged(lacking=missing)
    path = config.getoption("known")
    excused = known_file.excused(implementation, contract, known_file.read(path) if path else ())
    name = profile(config)
    report = search(contract, excused, lane=lane, examples=EXAMPLES[name], rare=name != "quick", deadline=SECONDS)
    records = report.records()
    bad = [record for record in records if not record.verdict.good]
    short = sorted(lane.refused) or sorted(lane.passed_over)
    if bad and short and all(record.verdict is Verdict.UNTRUSTED for record in bad):
        return Judged(lacking=short[0])
    problem = table.render(Summary(records=tuple(records))) if bad else ""
    return Judged(problem=problem, passed_over=tuple(sorted(lane.passed_over)))


def at_real_size(
    contract: Contract[Any], implementation: Implementation, target: Target, number: int, config: pytest.Config
) -> Judged:
    """Run one real size on the device, with the oracle there too."""
    lane = device_lane(target)
    if missing := _requires(implementation, target):
        return Judged(lacking=missing)
    case = real_sizes(contract)[number]
    try:
        result = check_workload(contract, implementation, case, lane, content=profile(config) == "nightly")
    except NoRoom as error:
        return Judged(lacking=str(error))
    known = Ledger(implementation.known)
    wrong = [violation for violation in result.violations if not known.tolerates(violation.check, case)]
    if wrong:
        lines = [f"{violation.check}: {violation.message}" for violation in wrong]
        return Judged(problem="\n".join([f"{implementation} on {_short(case)}", *lines]))
    return Judged(lacking=next(iter(lane.refused), ""))


def _requires(implementation: Implementation, target: Target) -> str:
    wanted = implementation.requires.targets
    if not wanted or target.marker in wanted:
        return ""
    return f"needs {' or '.join(TARGETS[marker].arch for marker in wanted)}, found {target.arch}"


def _short(case: Any) -> str:
    text = repr(case)
    return text if len(text) <= 300 else f"{text[:300]}..."
