"""What the device suite runs for one contract and implementation, by profile, and how it comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from harness import known_file, profiles
from harness.contract import Contract, Implementation
from harness.device import TARGETS, Target
from harness.hardware.lane import device_lane
from harness.hardware.sizes import first_sizes, real_sizes
from harness.hardware.workloads import check_workload
from harness.known import Ledger
from harness.lanes import NoRoom
from harness.report import table
from harness.report.records import Verdict
from harness.report.summary import Summary
from harness.search import search

#: Profile -> cases drawn for an implementation: each may compile, and runs a dozen launches.
EXAMPLES = {"quick": 8, "ci": 60, "nightly": 1000}
#: Profile -> seconds after which a search starts no new case: where all CPU cores compile, eight cases of the slowest
#: contract take half of them.
SECONDS = {"quick": 300.0, "ci": 1500.0, "nightly": 14400.0}
#: Seconds that the last case of a search, and one real size, may take.
ONE_CASE = 100.0


@dataclass(frozen=True, kw_only=True)
class Judged:
    """``problem`` says what is wrong, ``lacking`` what the hardware here does not have; both empty: all is well.

    ``passed_over`` says why cases did not run: the device's memory was too small, or they are known to be fatal.
    """

    problem: str = ""
    lacking: str = ""
    passed_over: tuple[str, ...] = ()


def profile(config: pytest.Config) -> str:
    """Return the profile that was asked for, or ours by default."""
    name = config.getoption("hypothesis_profile", None) or profiles.DEFAULT
    return name if name in EXAMPLES else profiles.DEFAULT


def deadline(config: pytest.Config) -> float:
    """Return the seconds that a test of the suite may take in the profile that was asked for."""
    return SECONDS[profile(config)] + ONE_CASE


def workloads(contract: Contract[Any], implementation: Implementation, config: pytest.Config) -> list[int]:
    """Return the numbers of the real sizes that the profile asks for: all, or ``sizes.first_sizes``."""
    if profile(config) == "quick":
        return list(first_sizes(contract, implementation))
    return list(range(len(real_sizes(contract))))


def searched(contract: Contract[Any], implementation: Implementation, target: Target, config: pytest.Config) -> Judged:
    """Run illegal calls, pinned cases and drawn ones on the device."""
    lane = device_lane(target)
    if missing := _requires(implementation, target):
        return Judged(lacking=missing)
    name = profile(config)
    report = search(
        contract,
        known_file.excused_by(config, implementation, contract),
        lane=lane,
        examples=EXAMPLES[name],
        rare=name != "quick",
        deadline=SECONDS[name],
    )
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
    known = Ledger(known_file.excused_by(config, implementation, contract).known)
    if known.quarantines(case):
        return Judged(passed_over=("in quarantine",))
    try:
        result = check_workload(contract, implementation, case, lane, content=profile(config) == "nightly")
    except NoRoom as error:
        return Judged(lacking=str(error))
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
