"""The compile lane's parsers, verdicts, keys, baselines, recordings and workers say what they must."""

from importlib import import_module
from types import SimpleNamespace

import pytest

from tests.unit.compile_checks import CHECKS

MODULES = (
    "amdgcn", "baseline", "cache", "compiler", "early", "figures", "grids", "instructions", "lane", "messages",
    "naming", "plan", "ptxas", "recording", "sharing", "sources", "verdicts", "wgmma_hazard", "workers",
)  # fmt: skip


@pytest.fixture(scope="module")
def api():
    return SimpleNamespace(**{name: import_module(f"harness.compiling.{name}") for name in MODULES})


@pytest.mark.parametrize("check", CHECKS)
def test_holds(check, api):
    CHECKS[check](api)
