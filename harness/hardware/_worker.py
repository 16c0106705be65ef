"""The process that runs isolated tests: pytest with the parent's arguments, told what to run test by test.

Run as ``python -m harness.hardware._worker READING WRITING``, the numbers of two pipes (``harness.hardware.worker``).
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Generator
from typing import IO, Any

import pytest
from _pytest.runner import runtestprotocol

from harness.hardware import probe

#: Under this name the plugin below is known to pytest: what is not for a worker asks for it.
PLUGIN = "harness.hardware.worker"
#: What the parent does with results, or asks of a whole run, by option: a worker does nothing of it.
_NOT_OURS: dict[str, Any] = {
    "xmlpath": None, "maxfail": 0, "lf": False, "failedfirst": False, "newfirst": False, "stepwise": False,
    "collectonly": False, "cacheshow": None, "durations": None, "log_file": None, "report_log": None,
    "dist": "no", "numprocesses": None, "tx": [],
}  # fmt: skip
#: Plugins that are not for a worker: what a test prints may be shown, what pytest would say about the session may not;
#: the others keep for the next run what became of the tests of this one, which only the parent knows.
_NOT_HERE = ("terminalreporter", "lfplugin", "nfplugin", "stepwiseplugin")
#: Where this package is installed pytest finds its plugin, which this module has imported already, and warns that no
#: assertion in it will be explained: an error in a project that makes errors of warnings.
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


class WorkerPlugin:
    """Runs the tests it is told to and sends every report as soon as there is one."""

    # pytest takes a plugin's name from here
    __name__ = PLUGIN

    def __init__(self, asked: IO[bytes], telling: int) -> None:
        self._asked = asked
        self._telling = telling

    def say(self, kind: str, **content: Any) -> None:
        """Send one message."""
        data = json.dumps({"kind": kind, **content}, default=str).encode() + b"\n"
        while data:
            data = data[os.write(self._telling, data) :]

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        for name, value in _NOT_OURS.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)
        shared = getattr(config.option, "basetemp", None)
        if shared:
            # whoever has a folder of this name to itself empties it first
            config.option.basetemp = os.path.join(shared, f"worker-{os.getpid()}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        manager = session.config.pluginmanager
        for name in _NOT_HERE:
            if manager.has_plugin(name):
                manager.unregister(name=name)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        self.say("ready")
        for line in self._asked:
            asked = json.loads(line)
            item = items.get(asked["run"])
            if item is None:
                raise LookupError(f"{asked['run']} was not collected by the worker")
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            item.ihook.pytest_runtest_protocol(item=item, nextitem=items.get(asked["next"]))
            self.say("done")
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        runtestprotocol(item, log=False, nextitem=nextitem)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.say("phase", phase="setup")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self.say("phase", phase="call")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        self.say("phase", phase="teardown")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        lost = probe.sticky_error()
        error = None if call.excinfo is None else call.excinfo.value
        if lost is not None:
            cause = lost if error is None else probe.first_line(error)
            _spoil(item, report, "STICKY_ERROR", f"the GPU context is lost: {cause}")
        elif error is not None and report.failed and probe.is_out_of_memory(error):
            _spoil(item, report, "OOM", probe.first_line(error))
            _forget(error)
        self.say("report", report=item.config.hook.pytest_report_to_serializable(config=item.config, report=report))
        if lost is not None:
            self.say("lost")
            # nothing that a fixture would still do could reach the GPU
            os._exit(0)
        return report

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: object
    ) -> None:
        if when == "runtest":
            self.say("warning", text=f"{warning_message.category.__name__}: {warning_message.message}", nodeid=nodeid)


def _spoil(item: pytest.Item, report: pytest.TestReport, verdict: str, reason: str) -> None:
    """Make a failure of ``report`` that says ``verdict`` first; what it said before follows."""
    before = f"\n{report.longreprtext}" if report.longrepr else ""
    report.outcome = "failed"
    report.longrepr = f"{verdict}: {reason}{before}"
    for properties in (item.user_properties, report.user_properties):
        properties.append(("verdict", verdict))


def _forget(error: BaseException) -> None:
    """Let go of the tensors that the frames of ``error`` hold, and give their memory back."""
    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__cause__ or seen.__context__
    probe.give_back_memory()


def main(reading: int, writing: int) -> int:
    """Run pytest as the first line says and return its exit status."""
    with open(reading, "rb") as asked:
        arguments = json.loads(asked.readline())["arguments"]
        plugin = WorkerPlugin(asked, writing)
        return int(pytest.main([*arguments, *_QUIET], plugins=[plugin]))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
