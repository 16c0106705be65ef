"""pytest under emulation: entered before the first conftest is read, one session a test, a summary at the end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from typing import Any

import pytest

from harness.sanitize.emulation import OPTION, Machine, Options, emulate
from harness.sanitize.report import Tally
from harness.sanitize.traces import shorten
from harness.vgpu import UnsupportedOperation

_SENT = "sanitize_tally"


class _Run:
    """The emulation of this process."""

    def __init__(self) -> None:
        self.stack = contextlib.ExitStack()
        self.machine: Machine | None = None
        #: What xdist's workers counted.
        self.received = Tally()

    def start(self, options: Options) -> None:
        self.machine = self.stack.enter_context(emulate(options))

    def session(self, name: str) -> None:
        if self.machine is not None:
            self.machine.renew(name)


_run = _Run()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option that carries the settings."""
    parser.addoption(OPTION, default="{}", help="set by `python -m harness sanitize`")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Enter the emulation before anything of the suite is imported."""
    given = getattr(early_config.known_args_namespace, OPTION.strip("-").replace("-", "_"))
    _run.start(Options(**json.loads(given)))


def pytest_unconfigure() -> None:
    """Leave the emulation."""
    _run.stack.close()
    _run.machine = None


def pytest_report_header() -> str:
    """Say which device is emulated."""
    assert _run.machine is not None
    return f"sanitize: {_run.machine.facts.properties.name} ({_run.machine.options.target}), emulated"


def pytest_collection() -> None:
    """Give launches at import a session of their own."""
    _run.session("collection")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Give every test, its fixtures included, a session of its own."""
    _run.session(item.nodeid)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Show a fault without the frames that found it, and fail a test that swallowed one."""
    if call.excinfo is not None and isinstance(call.excinfo.value, Exception):
        shorten(call.excinfo.value)
        call.excinfo = pytest.ExceptionInfo.from_exception(call.excinfo.value)
    report = yield
    assert _run.machine is not None
    faults = [fault for fault in _run.machine.session.faults if not isinstance(fault, UnsupportedOperation)]
    if report.when == "call" and report.passed and not hasattr(report, "wasxfail") and faults:
        report.outcome = "failed"
        report.longrepr = f"a kernel fault was caught by the program; on hardware it ends the process\n{faults[0]}"
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Count what is left; fail a run that used untrusted operations."""
    if _run.machine is None:
        return
    _run.session("after the last test")
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_SENT] = json.dumps(_run.machine.tally.to_dict())
        return
    _run.machine.tally.add(_run.received)
    tally, options = _run.machine.tally, _run.machine.options
    if exitstatus == pytest.ExitCode.OK and tally.untrusted and not options.allow_untrusted:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """Take what an xdist worker counted."""
    sent = getattr(node, "workeroutput", {}).get(_SENT)
    if sent is not None:
        _run.received.add(Tally.from_dict(json.loads(sent)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the summary."""
    assert _run.machine is not None
    terminalreporter.section("sanitize")
    for line in _run.machine.tally.lines(allow_untrusted=_run.machine.options.allow_untrusted):
        terminalreporter.write_line(line)
