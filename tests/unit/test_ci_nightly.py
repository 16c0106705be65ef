"""``ci/nightly``: it is the workstation's run and more, and its exit status is the worst of all."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Stands in for Python: notes what it was asked; ``FAILS`` begins the arguments that it ends with ``STATUS`` for.
INTERPRETER = """#!/usr/bin/env bash
echo "$*" >> "$CALLS"
if [[ $* == *"bench run"* ]]; then echo "{}" > out/nightly/run.json; fi
if [[ -n $FAILS && $* == "$FAILS"* ]]; then exit "$STATUS"; fi
"""

WORKSTATION = """#!/usr/bin/env bash
echo "workstation with $PYTHON in profile $PROFILE${*:+ of $*}" >> "$CALLS"
mkdir -p out/workstation
echo "{}" > out/workstation/receipt.json
exit "$WORKSTATION"
"""


@pytest.fixture
def nightly(tmp_path):
    """A copy of ``ci/nightly`` whose interpreter and ``ci/workstation`` do as told; returns (status, calls)."""
    (tmp_path / "ci").mkdir()
    interpreter = tmp_path / "interpreter"
    for path, text in (
        (tmp_path / "ci" / "nightly", (ROOT / "ci" / "nightly").read_text()),
        (tmp_path / "ci" / "workstation", WORKSTATION),
        (interpreter, INTERPRETER),
    ):
        path.write_text(text)
        path.chmod(0o755)

    def run(workstation=0, fails="", status=1, **variables):
        calls = tmp_path / "calls"
        calls.unlink(missing_ok=True)
        done = subprocess.run(
            [tmp_path / "ci" / "nightly"],
            env={
                **os.environ, "PYTHON": str(interpreter), "CALLS": str(calls), "WORKSTATION": str(workstation),
                "FAILS": fails, "STATUS": str(status), "NIGHTLY_HISTORY": str(tmp_path / "history"),
                "GITHUB_STEP_SUMMARY": "", "NIGHTLY_BASE": "", **variables,
            },
            capture_output=True, text=True,
        )  # fmt: skip
        return done.returncode, calls.read_text().splitlines()

    return run


def test_a_night_begins_as_the_workstation_does(nightly, tmp_path):
    status, calls = nightly()
    assert status == 0
    assert calls[0] == f"workstation with {tmp_path / 'interpreter'} in profile nightly"
    assert [" ".join(call.split()[:4]) for call in calls[1:]] == [
        "-m harness verify --lane", "-m harness bench run", "-m harness bench diff", "-m harness bench page",
    ]  # fmt: skip
    assert (tmp_path / "out/nightly/workstation/receipt.json").is_file()


def test_a_short_night_asks_every_step_for_the_same_part(nightly):
    _, calls = nightly(NIGHTLY_PROFILE="quick", NIGHTLY_ONLY="one two")
    assert calls[0].endswith("in profile quick of harness/suites --contract one --contract two")
    assert calls[1].startswith("-m harness verify one two --lane device")
    assert all("--contract one --contract two" in call for call in calls[2:4])
    # the accepted baseline's turns, and those with a base
    _, calls = nightly(NIGHTLY_BASE=".", NIGHTLY_ONLY="one")
    assert calls[3].startswith("-m harness bench diff . . --lane cuda --contract one")


@pytest.mark.parametrize(
    ("workstation", "fails", "status", "expected"),
    [
        (1, "", 0, 1), (2, "", 0, 2), (2, "-m harness verify", 1, 1), (1, "-m harness verify", 2, 1),
        (0, "-m harness verify", 1, 1), (0, "-m harness bench diff", 2, 2), (0, "-m harness bench run", 1, 1),
    ],
)  # fmt: skip
def test_a_nights_exit_status_is_the_worst_of_its_steps(nightly, workstation, fails, status, expected):
    found, calls = nightly(workstation, fails, status)
    assert found == expected
    # a step that fails keeps no other from running
    assert len(calls) == 5
