"""pytest plugin: ``--receipt FILE``.  Imported wherever the harness is installed, so it imports nothing but pytest."""

from __future__ import annotations

from pathlib import Path

import pytest

_INI = "receipt_sources"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernel-harness")
    group.addoption(
        "--receipt", metavar="FILE", type=Path, help="write what ran, on which device and with which sources, here"
    )
    parser.addini(_INI, "files and folders that a receipt is about; default: kernels, harness, ...", "args", default=[])


def pytest_configure(config: pytest.Config) -> None:
    file: Path | None = config.getoption("receipt")
    if file is None:
        return
    from harness.receipts import sources
    from harness.receipts.recorder import Recorder, Targets

    config.pluginmanager.register(Targets(), "harness.receipts.targets")
    if _is_worker(config):
        return
    recorder = Recorder(
        file=config.invocation_params.dir / file,
        folder=config.rootpath,
        paths=tuple(config.getini(_INI)) or sources.DEFAULT,
        emulated=_emulated(config),
        arguments=tuple(str(argument) for argument in config.invocation_params.args),
    )
    config.pluginmanager.register(recorder, "harness.receipts.recorder")


def _is_worker(config: pytest.Config) -> bool:
    """Whether another process runs this one for its tests, and writes the receipt."""
    from harness.hardware._worker import PLUGIN

    return hasattr(config, "workerinput") or config.pluginmanager.has_plugin(PLUGIN)


def _emulated(config: pytest.Config) -> str:
    """Return the target of ``--emulate`` if it is another than what is here."""
    from harness.device import TARGETS, detect

    name = config.getoption("emulate", None)
    arch = TARGETS[name].arch if name in TARGETS else ""
    return "" if any(device.arch == arch for device in detect().devices) else arch
