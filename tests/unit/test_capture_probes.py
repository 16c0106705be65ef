"""The capture lint says of single operations what a GPU says (``tests/device/test_capture_probes.py`` asks one)."""

import pytest

from harness.graphs import capture_lint
from tests.unit import capture_probes
from tests.unit.capture_probes import inputs, launch_of


def complaints(probes):
    found = {name: capture_lint(launch_of(probe), inputs("cpu")) for name, probe in probes.items()}
    assert {name: lint.unsupported for name, lint in found.items() if lint.unsupported} == {}
    return {name: [str(finding) for finding in lint.findings] for name, lint in found.items()}


@pytest.mark.parametrize("kind", ["BREAKS", "SPOILS", "LATER"])
def test_what_ends_a_capture_or_a_replay_does_later_is_a_finding(kind):
    assert [name for name, found in complaints(getattr(capture_probes, kind)).items() if not found] == []


def test_what_a_capture_takes_is_no_finding():
    assert {name: found for name, found in complaints(capture_probes.SOUND).items() if found} == {}
