"""Benchmarks are collected only when they are asked for, and their file says what was timed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

_SUITE = Path(__file__).with_name("test_benchmarks.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the benchmarks out unless ``-m benchmark``, ``--benchmark-only`` or their file is named."""
    if collection_path != _SUITE:
        return None
    if not _asked(config):
        return True
    if not config.pluginmanager.hasplugin("benchmark"):
        raise pytest.UsageError(
            "benchmarks need pytest-benchmark, found none; python -m harness bench run does without"
        )
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Say which device is timed: already where a run of before is read, which says so too."""
    if _asked(config):
        from harness.bench import machine
        from harness.bench.run import Wanted, lane_of
        from harness.lanes import VirtualLane

        machine_info["device"] = machine.device_info("vgpu" if isinstance(lane_of(Wanted()), VirtualLane) else "cuda")


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(config: pytest.Config, benchmarks: Any, output_json: dict[str, Any]) -> None:
    """Add the rates of the device, and what was refused."""
    if (benched := _benched(config)) is not None:
        output_json["harness"] = benched.ours()


def _asked(config: pytest.Config) -> bool:
    """Whether the benchmarks of this folder are chosen: by path, as a module after --pyargs, by marker or by option."""
    named = any(re.search(rf"\b{_SUITE.stem}\b", argument) for argument in config.args)
    marked = re.search(r"\bbenchmark\b", config.getoption("markexpr", "") or "") is not None
    return named or marked or bool(config.getoption("benchmark_only", False))


def _benched(config: pytest.Config) -> Any:
    """Return what the suite timed with, or None where it did not run."""
    return getattr(config, "_harness_benched", None)
