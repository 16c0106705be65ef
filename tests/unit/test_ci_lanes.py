"""The workflows and the workstation's command: what is called exists, is pinned, and its exit status counts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.device import MARKERS
from tests.bugs.on_device import BUGS
from tests.bugs.test_on_device import AROUND

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

#: Stands in for Python: answers as ``ci/workstation`` is to find it, and notes what it was asked.
INTERPRETER = """#!/usr/bin/env bash
echo "$*" >> "$CALLS"
case "$*" in
    -) [[ $DETECTED == none ]] && exit 1; printf '%s' "$DETECTED" ;;
    "-m pytest"*) exit "$TESTED" ;;
    "-m harness receipt"*"--allow-partial") exit "${PART:-$CHECKED}" ;;
    "-m harness receipt"*) echo "verdict: $CHECKED"; exit "$CHECKED" ;;
esac
"""


def loaded(path):
    found = yaml.safe_load(path.read_text())
    # YAML 1.1 reads the key "on" as true
    return {"on" if key is True else key: value for key, value in found.items()}


def steps(path):
    return [step for job in loaded(path)["jobs"].values() for step in job["steps"]]


def test_there_are_three_lanes():
    assert {path.stem: set(loaded(path)["on"]) for path in WORKFLOWS} == {
        "cpu": {"push", "pull_request", "workflow_dispatch"},
        "nightly": {"schedule", "workflow_dispatch"},
        "workstation": {"pull_request", "workflow_dispatch"},
    }


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_pinned_and_needs_no_secret(path):
    for step in steps(path):
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+\.\d+\.\d+|[0-9a-f]{40})", step["uses"]), step["uses"]
    text = path.read_text()
    assert "secrets." not in text
    assert "pull_request_target" not in text
    assert loaded(path)["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in loaded(path)["jobs"].values())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_a_workflow_runs_is_there(path):
    commands = [step["run"].split() for step in steps(path) if "run" in step]
    assert commands
    for words in commands:
        script = ROOT / words[1] if words[0] in ("bash", "make") else ROOT / words[0]
        if words[0] == "make":
            assert f"{words[1].replace('.venv', '$(VENV)')}:" in (ROOT / "Makefile").read_text()
        else:
            assert script.is_file(), script
            assert words[0] == "bash" or os.access(script, os.X_OK)


def test_our_machine_runs_what_somebody_labelled():
    job = loaded(ROOT / ".github" / "workflows" / "workstation.yml")["jobs"]["workstation"]
    assert "github.event.label.name == 'run-gpu'" in job["if"]
    assert job["runs-on"][0] == "self-hosted"


@pytest.fixture
def workstation(tmp_path, monkeypatch):
    """A copy of ``ci/workstation`` with an interpreter that does as it is told; returns (status, output, calls)."""
    (tmp_path / "ci").mkdir()
    script = tmp_path / "ci" / "workstation"
    script.write_text((ROOT / "ci" / "workstation").read_text())
    interpreter = tmp_path / "interpreter"
    interpreter.write_text(INTERPRETER)
    interpreter.chmod(0o755)
    for name in ("TARGET", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments, detected="sm90", tested=0, checked=0, **variables):
        calls = tmp_path / "calls"
        calls.unlink(missing_ok=True)
        done = subprocess.run(
            ["bash", script, *arguments],
            env={
                **os.environ, "PYTHON": str(interpreter), "CALLS": str(calls), "DETECTED": detected,
                "TESTED": str(tested), "CHECKED": str(checked), **variables,
            },
            capture_output=True, text=True, cwd=tmp_path,
        )  # fmt: skip
        return done.returncode, done.stdout, calls.read_text()

    return run


def test_the_workstation_tests_the_gpu_that_is_there(workstation, tmp_path):
    status, output, calls = workstation("--contract", "mxfp4_moe")
    assert status == 0
    asked = "-m pytest -m sm90 --hypothesis-profile ci --require-gpu --gpu-workers auto"
    assert f"{asked} --receipt out/workstation/receipt.json" in calls
    assert "--contract mxfp4_moe" in calls
    # nor is a part let through
    assert "receipt check out/workstation/receipt.json --target sm90 --profile ci\n" in calls
    assert "verdict: 0" in output
    assert (tmp_path / "out/workstation/verdict.txt").read_text() == "verdict: 0\n"


@pytest.mark.parametrize(
    ("tested", "checked", "part", "expected"),
    [(0, 0, 0, 0), (0, 1, 0, 2), (0, 1, 1, 1), (1, 1, 0, 1), (1, 0, 0, 1), (5, 1, 0, 2)],
)
def test_what_passes_and_is_a_part_is_neither_verified_nor_a_fault(workstation, tested, checked, part, expected):
    assert workstation(tested=tested, checked=checked, PART=str(part))[0] == expected


def test_the_workstation_runs_and_wants_the_profile_that_is_named(workstation):
    _, _, calls = workstation(PROFILE="nightly")
    assert "--hypothesis-profile nightly --require-gpu" in calls
    assert "--target sm90 --profile nightly\n" in calls


@pytest.fixture
def verified(tmp_path):
    """A copy of ``ci/verified`` beside some receipts, each with the status that checking it ends with."""
    (tmp_path / "ci" / "receipts").mkdir(parents=True)
    script = tmp_path / "ci" / "verified"
    script.write_text((ROOT / "ci" / "verified").read_text())
    interpreter = tmp_path / "interpreter"
    interpreter.write_text('#!/usr/bin/env bash\necho "verdict of $5"\nexit "$(cat "$5" 2> /dev/null || echo 2)"\n')
    interpreter.chmod(0o755)

    def run(*arguments, **receipts):
        for name, status in receipts.items():
            (tmp_path / "ci" / "receipts" / f"{name}.json").write_text(str(status))
        summary = tmp_path / "summary"
        summary.write_text("")
        done = subprocess.run(
            ["bash", script, *arguments],
            env={**os.environ, "PYTHON": str(interpreter), "GITHUB_STEP_SUMMARY": str(summary)},
            capture_output=True, text=True, cwd=tmp_path,
        )  # fmt: skip
        assert summary.read_text() == f"```\n{done.stdout}```\n"
        return done.returncode, done.stdout.splitlines()

    return run


def test_a_machine_without_a_gpu_shows_what_receipts_say(verified):
    assert verified() == (0, ["no receipt: nothing here says that a GPU ran these sources"])
    told = [f"ci/receipts/{name}.json: verdict of ci/receipts/{name}.json" for name in ("a", "b")]
    # one that is left from other sources is told, and fails nothing
    assert verified(a=1, b=0) == (0, told)
    assert verified("ci/receipts/b.json") == (0, told[1:])
    assert verified("ci/receipts/a.json", "ci/receipts/b.json") == (1, told)
    assert verified("nowhere.json") == (2, ["nowhere.json: verdict of nowhere.json"])


def test_every_change_is_told_what_receipts_say():
    commands = [step["run"] for step in steps(ROOT / ".github" / "workflows" / "cpu.yml") if "run" in step]
    assert commands == ["bash .ci/run", "ci/verified", 'ci/verified "$RECEIPT"', "make targets-quick"]


def test_the_workstation_takes_another_target_and_writes_the_jobs_summary(workstation, tmp_path):
    summary = tmp_path / "summary"
    _, _, calls = workstation(TARGET="sm120", GITHUB_STEP_SUMMARY=str(summary))
    assert "-m pytest -m sm120" in calls
    assert "verdict: 0" in summary.read_text()


@pytest.mark.parametrize(
    ("tested", "checked", "status"), [(0, 0, 0), (1, 1, 1), (1, 0, 1), (0, 1, 1), (0, 2, 1), (2, 1, 2), (5, 1, 2)]
)
def test_the_workstations_exit_status_is_the_worse_of_tests_and_receipt(workstation, tested, checked, status):
    assert workstation(tested=tested, checked=checked)[0] == status


def test_a_workstation_without_a_gpu_runs_nothing(workstation):
    status, _, calls = workstation(detected="none")
    assert status == 2
    assert "pytest" not in calls


def test_a_test_of_a_gpu_is_about_a_target():
    # a marker alone is not among what the workstation selects; projects that tests write may use any
    marked = re.compile(rf"mark\.(?:{'|'.join(MARKERS)})\b")
    outside = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.relative_to(ROOT).parts[1] not in ("device", "plugin") and marked.search(path.read_text())
    ]
    assert outside == []
    assert "_about_a_target(gpu_target)" in (ROOT / "tests/device/conftest.py").read_text()


def test_all_that_asks_for_a_target_is_in_what_a_receipt_calls_the_whole(pytestconfig):
    asks = re.compile(r"^\s*def \w+\((?:.*\W)?gpu_target\b", re.MULTILINE)
    places = [ROOT / place for place in pytestconfig.getini("receipt_tests")]
    assert all(place.exists() for place in places)
    files = [path for folder in ("tests", "harness/suites") for path in (ROOT / folder).rglob("*.py")]
    asking = [path for path in files if path.relative_to(ROOT).parts[1] != "plugin" and asks.search(path.read_text())]
    assert len(asking) >= 5
    assert [path for path in asking if not any(path.is_relative_to(place) for place in places)] == []


@pytest.mark.parametrize("target", ["sm90", "sm120"])
def test_a_target_selects_the_tests_of_a_gpu_that_are_elsewhere(target):
    files = ["tests/bugs/test_on_device.py", "tests/unit/test_physical.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", "-m", target, *files],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    counts = dict(line.split(": ") for line in done.stdout.splitlines() if ": " in line)
    assert counts["tests/unit/test_physical.py"] == "5"
    assert int(counts["tests/bugs/test_on_device.py"]) == len(AROUND) + len(BUGS)
