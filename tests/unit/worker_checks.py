"""What must hold for a worker process and what it shares with its parent: checks that take the modules to check."""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pluggy

from harness.device import Device, DriverFacts, Machine


def a_worker_has_temporary_files_of_its_own(api):
    plugin = api._worker.WorkerPlugin(None, -1)
    for given, becomes in (("files", os.path.join("files", f"worker-{os.getpid()}")), (None, None)):
        config = SimpleNamespace(option=SimpleNamespace(basetemp=given))
        plugin.pytest_configure(config)
        assert config.option.basetemp == becomes


def the_parent_makes_the_folder_that_workers_share(api):
    asked = []
    folders = SimpleNamespace(getbasetemp=lambda: asked.append(1))
    for given in ("files", None):
        config = SimpleNamespace(_tmp_path_factory=folders, getoption=lambda name, default, given=given: given)
        api.isolation._make_basetemp(config)
    assert len(asked) == 1


def a_worker_keeps_nothing_for_the_next_run(api):
    manager = pluggy.PluginManager("pytest")
    names = ["terminalreporter", "lfplugin", "nfplugin", "stepwiseplugin", "capturemanager"]
    for name in names:
        manager.register(SimpleNamespace(name=name), name)
    session = SimpleNamespace(config=SimpleNamespace(pluginmanager=manager))
    api._worker.WorkerPlugin(None, -1).pytest_sessionstart(session)
    assert [name for name in names if manager.has_plugin(name)] == ["capturemanager"]
    # those that are off
    api._worker.WorkerPlugin(None, -1).pytest_sessionstart(session)


def _is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def nothing_that_a_test_started_outlives_its_worker(api):
    with tempfile.TemporaryDirectory() as folder:
        told, program = Path(folder) / "pid", Path(folder) / "worker"
        program.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {told}\nexit 3\n")
        program.chmod(0o755)
        with patch.object(sys, "executable", str(program)):
            worker = api.worker.Worker(api.worker.Start(arguments=(), folder=folder))
        worker._process.wait()
        started = int(told.read_text())
        assert _is_running(started)
        worker.close()
        until = time.monotonic() + 4
        while _is_running(started) and time.monotonic() < until:
            time.sleep(0.01)
        survived = _is_running(started)
        if survived:
            os.kill(started, signal.SIGKILL)
        assert not survived


def there_are_as_many_workers_as_there_is_room_for(api):
    def found(cores, host_gib, *gpu_gib):
        devices = [
            Device(index=index, vendor="cuda", arch="sm_120", units=188, driver=DriverFacts(memory=gib and gib * 2**30))
            for index, gib in enumerate(gpu_gib)
        ]
        return api.crew.size(Machine(devices=tuple(devices)), cores=cores, host_bytes=host_gib * 2**30)

    assert found(16, 128, 140) == 15
    assert found(16, 64, 140) == 8
    assert found(128, 2048, 140) == 16
    # 0.2 of 32 GiB hold four of 1.5 GiB beside the largest case
    assert found(16, 128, 32) == 4
    assert found(16, 128, 140, 32) == 4
    assert found(16, 128, None) == 4
    assert found(1, 4, 140) == 1
    assert found(16, 128) == 1


CHECKS = {
    check.__name__: check
    for check in (
        there_are_as_many_workers_as_there_is_room_for,
        a_worker_has_temporary_files_of_its_own,
        the_parent_makes_the_folder_that_workers_share,
        a_worker_keeps_nothing_for_the_next_run,
        nothing_that_a_test_started_outlives_its_worker,
    )
}
