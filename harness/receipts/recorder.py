"""The part of the pytest plugin behind ``--receipt FILE``: notes each test's outcome and writes the receipt."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness import profiles
from harness.device.markers import MARKERS
from harness.hardware import selection
from harness.receipts import machine, record, revision, sources
from harness.receipts.whole import Whole, selections

#: Outcomes, the worst first: of several phases of a test the worst counts.
_WORST = ("failed", "error", "xpassed", "xfailed", "skipped", "passed")
#: Attributes of a report, which travel with it from process to process: the target of its test, and the index of the
#: device that the test used.
_TARGET, _DEVICE = "receipt_target", "receipt_device"


class Targets:
    """Registered with pytest in every process that runs tests: notes on each report its test's target and device."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        target = selection.of(item)
        setattr(report, _TARGET, "" if target is None else target.arch)
        if call.when == "call":
            # before and after it fixtures choose
            setattr(report, _DEVICE, selection.device_index(item))
        return report


@dataclass
class _Noted:
    outcome: str
    hardware: bool
    seconds: float = 0.0
    target: str = ""
    device: int | None = None
    note: str = ""


@dataclass
class Recorder:
    """Registered with pytest once a session; ``paths`` are the sources under ``folder`` that the run depends on.

    ``emulated`` is the target that another device stands in for, or empty; ``targets`` those that the run is about,
    and ``whole`` finds out what all of it is; the others are said as in ``record.Receipt``.
    """

    file: Path
    folder: Path
    paths: tuple[str, ...]
    emulated: str = ""
    arguments: tuple[str, ...] = ()
    added: str = ""
    profile: str = profiles.DEFAULT
    known: str = ""
    targets: tuple[str, ...] = ()
    whole: Whole | None = None
    tests: dict[str, _Noted] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.started = datetime.now(UTC)
        self.clock = time.monotonic()
        self.before = sources.of_folder(self.folder, self.paths)
        # one that is left from another run must not be taken for this one's
        self.file.unlink(missing_ok=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        noted = self.tests.setdefault(report.nodeid, _Noted("passed", not MARKERS.keys().isdisjoint(report.keywords)))
        noted.seconds += report.duration
        noted.target = noted.target or getattr(report, _TARGET, "")
        noted.device = getattr(report, _DEVICE, noted.device)
        outcome = _outcome(report)
        if _WORST.index(outcome) < _WORST.index(noted.outcome):
            noted.outcome = outcome
        if report.skipped and isinstance(report.longrepr, tuple):
            noted.note = str(report.longrepr[2])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        record.write(self.receipt(int(exitstatus)), self.file)

    def receipt(self, status: int) -> record.Receipt:
        """Return the receipt of what has run so far."""
        at = revision.of(self.folder, self.paths)
        collected, unknown = ({}, "it was not looked for") if self.whole is None else self.whole.answer()
        return record.Receipt(
            started=self.started.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - self.clock, 3),
            devices=machine.devices(),
            driver=machine.driver(),
            versions=machine.versions(),
            emulated=self.emulated,
            commit=at.commit,
            dirty=at.dirty,
            paths=self.paths,
            sources=self.before,
            moved=tuple(sources.differences(self.before, sources.of_folder(self.folder, self.paths))),
            arguments=self.arguments,
            status=status,
            profile=self.profile,
            known=self.known,
            added=self.added,
            selections=() if unknown else selections(collected, self.targets, list(self.tests)),
            unknown=unknown,
            tests=tuple(
                record.Test(
                    id=id,
                    outcome=noted.outcome,
                    seconds=round(noted.seconds, 3),
                    hardware=noted.hardware,
                    target=noted.target,
                    device=noted.device,
                    note=noted.note,
                )
                for id, noted in self.tests.items()
            ),
        )


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed:
        return "failed" if report.when == "call" else "error"
    return str(report.outcome)
