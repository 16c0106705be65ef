"""pytest's side of isolation: which tests run in a worker process, and their reports as if they had run here."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from harness.device import MARKERS, detect
from harness.hardware import crew, selection
from harness.hardware._worker import PLUGIN
from harness.hardware.pool import Pool, Test
from harness.hardware.worker import Outcome, Start

#: ``@pytest.mark.isolated(deadline=SECONDS, alone=True)``; SECONDS may be a function of pytest's configuration.
MARKER = "isolated"

_POOL = pytest.StashKey[Pool]()
_PLANNED = pytest.StashKey[frozenset[str]]()


def is_isolated(item: pytest.Item) -> bool:
    """Whether ``item`` runs in a worker: it is marked so, or it has hardware to run on that a fault could take away."""
    config = item.config
    if config.getoption("gpu_isolation") == "off" or config.pluginmanager.has_plugin(PLUGIN):
        return False
    if config.getoption("usepdb", False) or config.getoption("trace", False):
        return False
    if selection.reason_to_skip(item) is not None:
        # skipped, which needs no worker
        return False
    return item.get_closest_marker(MARKER) is not None or any(marker.name in MARKERS for marker in item.iter_markers())


def protocol(item: pytest.Item) -> bool | None:
    """Run ``item`` in a worker and report what it says; None for a test that runs in this process."""
    if not is_isolated(item):
        return None
    _pool(item).wait_for(item.nodeid)
    return True


def _log(item: pytest.Item, outcome: Outcome) -> None:
    """Report what came of ``item`` as pytest would have."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _reports(item, outcome):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    for warning in outcome.warnings:
        _pass_on(item, warning["text"])


def _pass_on(item: pytest.Item, text: str) -> None:
    """Record a worker's warning: it has passed the filters there, which must not make an error of it here."""
    message = warnings.WarningMessage(pytest.PytestWarning(text), pytest.PytestWarning, str(item.path), 1)
    item.config.hook.pytest_warning_recorded.call_historic(
        kwargs={"warning_message": message, "when": "runtest", "nodeid": item.nodeid, "location": None}
    )


def close(config: pytest.Config) -> None:
    """End the workers of this session."""
    pool = config.stash.get(_POOL, None)
    if pool is not None:
        pool.close()


def _pool(item: pytest.Item) -> Pool:
    """Return the pool that knows ``item``: one a session, or one a test where items come from elsewhere (xdist)."""
    config = item.config
    if item.nodeid not in config.stash.get(_PLANNED, frozenset()):
        close(config)
        alone = hasattr(config, "workerinput")
        items = [item] if alone else [other for other in item.session.items if is_isolated(other)]
        tests = [_test(other) for other in items]
        by_id = {other.nodeid: other for other in items}
        _make_basetemp(config)
        config.stash[_PLANNED] = frozenset(test.nodeid for test in tests)
        config.stash[_POOL] = Pool(
            _start(config, tests, 1 if alone else _workers(config)),
            tests,
            lambda nodeid, outcome: _log(by_id[nodeid], outcome),
        )
    return config.stash[_POOL]


def _workers(config: pytest.Config) -> int:
    wanted = config.getoption("gpu_workers")
    return crew.size(detect()) if wanted == "auto" else int(wanted)


def _make_basetemp(config: pytest.Config) -> None:
    """Make the folder that ``--basetemp`` names: pytest empties it when it is first asked for, the workers' inside."""
    folders = getattr(config, "_tmp_path_factory", None)
    if folders is not None and config.getoption("basetemp", None):
        folders.getbasetemp()


def _test(item: pytest.Item) -> Test:
    marker = item.get_closest_marker(MARKER)
    wanted = {} if marker is None else marker.kwargs
    deadline = wanted.get("deadline", item.config.getoption("gpu_deadline"))
    return Test(
        nodeid=item.nodeid,
        module=str(item.path),
        deadline=float(deadline(item.config) if callable(deadline) else deadline),
        alone=bool(wanted.get("alone", False)),
    )


def _start(config: pytest.Config, tests: list[Test], workers: int) -> Start:
    """Return how a worker collects ``tests`` under the same names: the arguments of this run, for their files only."""
    places = set(config.option.file_or_dir or ())
    arguments = [str(argument) for argument in config.invocation_params.args if str(argument) not in places]
    if config.inipath is not None:
        arguments += ["-c", str(config.inipath)]
    arguments += ["--rootdir", str(config.rootpath)]
    files = dict.fromkeys(test.module for test in tests)
    return Start(
        arguments=(*arguments, *files),
        folder=str(config.invocation_params.dir),
        shown=config.getoption("capture") == "no",
        workers=max(1, min(workers, len(tests))),
    )


def _reports(item: pytest.Item, outcome: Outcome) -> Iterator[pytest.TestReport]:
    for data in outcome.reports:
        yield _read(item.config, data)
    if outcome.verdict in ("TIMEOUT", "CRASH"):
        yield _ended(item, outcome, "failed", outcome.phase or "setup")
    if outcome.verdict and outcome.phase != "teardown":
        # reports that keep a test's properties take them from its last phase
        yield _ended(item, outcome, "passed", "teardown")


def _read(config: pytest.Config, data: dict[str, Any]) -> pytest.TestReport:
    """Return a report from what JSON made of it: pairs and triples that pytest keeps as tuples are lists there."""
    restored = dict(data)
    for name in ("location", "longrepr"):
        if isinstance(restored.get(name), list):
            restored[name] = tuple(restored[name])
    for name in ("sections", "user_properties"):
        restored[name] = [tuple(pair) for pair in restored.get(name, ())]
    report: pytest.TestReport = config.hook.pytest_report_from_serializable(config=config, data=restored)
    return report


def _ended(item: pytest.Item, outcome: Outcome, result: Literal["passed", "failed"], when: Any) -> pytest.TestReport:
    """Return the report of a test that ended its worker: what it was doing, and the worker's last words."""
    last = f"\n{outcome.output}" if outcome.output else ""
    where = f"during {when} of {Path(item.path).name}::{item.name}"
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={name: 1 for name in item.keywords},
        outcome=result,
        longrepr=f"{outcome.verdict}: {outcome.reason}; {where}{last}" if result == "failed" else None,
        when=when,
        duration=outcome.seconds if result == "failed" else 0.0,
        user_properties=[("verdict", outcome.verdict)],
    )
