"""pytest plugin: ``--receipt FILE``.  Imported wherever the harness is installed, so it imports nothing but pytest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from harness.device import Target
    from harness.receipts.whole import Wanted

_INI = "receipt_sources"
_WHOLE = "receipt_tests"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernel-harness")
    group.addoption(
        "--receipt", metavar="FILE", type=Path, help="write what ran, on which device and with which sources, here"
    )
    parser.addini(_INI, "files and folders that a receipt is about; default: kernels, harness, ...", "args", default=[])
    parser.addini(
        _WHOLE,
        "where all tests of a GPU are, for what a receipt calls the whole; default: testpaths",
        "args",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    file: Path | None = config.getoption("receipt")
    if file is None:
        return
    from harness import profiles
    from harness.device import detect
    from harness.receipts import sources
    from harness.receipts.recorder import Recorder, Targets
    from harness.receipts.whole import Whole

    config.pluginmanager.register(Targets(), "harness.receipts.targets")
    if _is_worker(config):
        return
    targets = _targets(config)
    recorder = Recorder(
        file=config.invocation_params.dir / file,
        folder=config.rootpath,
        paths=tuple(config.getini(_INI)) or sources.DEFAULT,
        emulated=_emulated(config),
        arguments=tuple(str(argument) for argument in config.invocation_params.args),
        added=os.environ.get("PYTEST_ADDOPTS", ""),
        profile=config.getoption("hypothesis_profile", None) or profiles.DEFAULT,
        known=str(config.getoption("known", None) or ""),
        targets=tuple(target.arch for target in targets),
        # where there is no device a receipt says nothing anyhow
        whole=Whole(_wanted(config, [target.marker for target in targets])) if targets and detect().devices else None,
    )
    config.pluginmanager.register(recorder, "harness.receipts.recorder")


def _targets(config: pytest.Config) -> list[Target]:
    """Return the targets that the run is about: those that ``-m`` names, or else those here that it leaves in."""
    from harness.device import TARGETS, detect
    from harness.hardware import marks, selection

    expression = config.getoption("markexpr", "") or ""
    named = [TARGETS[name] for name in selection.named(expression)]
    return named or [target for target in selection.targets(detect()) if marks.admits(expression, target.marker)]


def _wanted(config: pytest.Config, markers: list[str]) -> Wanted:
    from harness.receipts.whole import Wanted

    # of its options only one decides which tests there are, and is no choice among them: how much of each runs
    profile = config.getoption("hypothesis_profile", None)
    return Wanted(
        folder=config.rootpath,
        markers=tuple(markers),
        paths=tuple(config.getini(_WHOLE)),
        options=("--hypothesis-profile", profile) if profile else (),
    )


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
