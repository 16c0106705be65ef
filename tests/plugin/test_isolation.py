"""Tests in worker processes: what ends one costs that test, and everything else is as it was."""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE_S = 120

PROJECT = """
import json, os, sys, time, types, warnings
import pytest

pytestmark = pytest.mark.isolated

def note(**content):
    with open("notes.jsonl", "a") as notes:
        notes.write(json.dumps({"pid": os.getpid(), **content}) + "\\n")

@pytest.fixture(scope="module")
def shared():
    note(fixture="up")
    yield
    note(fixture="down")

@pytest.mark.parametrize("number", range(4))
def test_right(number, shared):
    print("printed", number)
    warnings.warn(f"mind the {number}")
    note(test=number)

@pytest.mark.isolated(deadline=0.7)
def test_hangs():
    time.sleep(60)

def test_aborts():
    os.abort()

def test_exhausts_memory():
    raise MemoryError("asked for 8 TiB")

def test_loses_its_device():
    def synchronize():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    sys.modules["torch"] = types.SimpleNamespace(
        cuda=types.SimpleNamespace(is_initialized=lambda: True, synchronize=synchronize)
    )

def test_exits():
    os._exit(5)

def test_is_wrong():
    assert 1 + 1 == 3

@pytest.mark.skip(reason="needs more")
def test_is_skipped():
    pass

@pytest.mark.xfail(reason="some day", strict=True)
def test_is_expected_to_fail():
    assert False

@pytest.fixture
def broken():
    raise ValueError("no fixture")

def test_has_a_broken_fixture(broken):
    pass

@pytest.mark.isolated(alone=True)
def test_alone(shared):
    note(alone="begins")
    time.sleep(0.1)
    note(alone="ends")

def test_last(shared):
    note(test="last")
"""
ELSEWHERE = """
import os
def test_here():
    assert os.getpid() == int(os.environ["PARENT"]) or os.getppid() == int(os.environ["PARENT"])
    assert "HARNESS_GPU_WORKER_DEPTH" not in os.environ
"""
#: Tests of two workers and of their parent that each use temporary files while another one's must stay.
SHARING = {
    "test_a.py": """
from meeting import meet, pytest
pytestmark = pytest.mark.isolated

def test_first(tmp_path):
    meet(tmp_path, "a", waits_for="c")

def test_wrong():
    assert False
""",
    "test_b.py": """
from meeting import meet

def test_of_the_parent(tmp_path):
    meet(tmp_path, "b")

def test_wrong_too():
    assert False
""",
    "test_c.py": """
from meeting import meet, pytest
pytestmark = pytest.mark.isolated

def test_second(tmp_path):
    meet(tmp_path, "c", waits_for="b")
""",
    "meeting.py": """
import time
from pathlib import Path
import pytest

def meet(folder, name, waits_for=None):
    mine = folder / "mine"
    mine.touch()
    Path(name).touch()
    until = time.monotonic() + 60
    while waits_for is not None and not Path(waits_for).exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    assert mine.exists()
""",
}


def pytest_in(folder, *arguments):
    """Run pytest in ``folder``, with the plugin and without what would slow it down."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PARENT": str(os.getpid()), "CUDA_VISIBLE_DEVICES": ""}
    for variable in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        environment.pop(variable, None)
    plugins = ("-p", "harness.plugin", "-p", "no:xdist", "-p", "no:hypothesispytest")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-rA", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE_S,
    )  # fmt: skip


def run(folder, *arguments):
    """Run pytest over the project in ``folder``; returns exit status, test cases by name, notes and output."""
    (folder / "pytest.ini").write_text("[pytest]\nconformance_modules = kernels\n")
    (folder / "test_project.py").write_text(PROJECT)
    (folder / "test_elsewhere.py").write_text(ELSEWHERE)
    done = pytest_in(folder, "-p", "no:cacheprovider", "--junitxml=junit.xml", *arguments)
    cases = {case.get("name"): case for case in ElementTree.parse(folder / "junit.xml").iter("testcase")}
    notes = [json.loads(line) for line in (folder / "notes.jsonl").read_text().splitlines()]
    return done.returncode, cases, notes, done.stdout


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    return run(tmp_path_factory.mktemp("isolated"), "--gpu-workers=2")


def message(outcome, name):
    case = outcome[1][name]
    found = [case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None]
    return found[0].text if found else ""


def test_nothing_is_lost(outcome):
    status, cases, _, _ = outcome
    assert status == 1
    assert len(cases) == 16
    bad = {name for name, case in cases.items() if case.find("failure") is not None or case.find("error") is not None}
    assert bad == {
        "test_hangs", "test_aborts", "test_exhausts_memory", "test_loses_its_device", "test_exits", "test_is_wrong",
        "test_has_a_broken_fixture",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "verdict", "says"),
    [
        ("test_hangs", "TIMEOUT", "not done after 0.7 s; during call of test_project.py::test_hangs"),
        ("test_aborts", "CRASH", "killed by SIGABRT; during call of test_project.py::test_aborts"),
        ("test_exits", "CRASH", "exited with status 5 before it was done"),
        ("test_exhausts_memory", "OOM", "MemoryError: asked for 8 TiB"),
        ("test_loses_its_device", "STICKY_ERROR", "CUDA error: an illegal memory access was encountered"),
    ],
)
def test_what_ended_a_worker_has_its_verdict(outcome, name, verdict, says):
    assert message(outcome, name).startswith(f"{verdict}: ")
    assert says in message(outcome, name)
    assert outcome[1][name].find(".//property[@name='verdict']").get("value") == verdict


@pytest.mark.parametrize("name", ["test_hangs", "test_aborts"])
def test_a_sudden_end_shows_the_line(outcome, name):
    assert f"in {name}" in message(outcome, name)


def test_ordinary_outcomes_are_as_without_a_worker(outcome):
    _, cases, _, output = outcome
    assert "assert (1 + 1) == 3" in message(outcome, "test_is_wrong")
    assert "ValueError: no fixture" in message(outcome, "test_has_a_broken_fixture")
    assert cases["test_is_skipped"].find("skipped").get("message") == "needs more"
    assert cases["test_is_expected_to_fail"].find("skipped").get("type") == "pytest.xfail"
    assert "printed 2" in output
    assert "UserWarning: mind the 2" in output
    assert cases["test_right[0]"].find(".//property[@name='verdict']") is None


def test_fixtures_of_a_module_are_shared_and_undone(outcome):
    notes = outcome[2]
    of_right = {note["pid"] for note in notes if note.get("test") in range(4)}
    (ended_well,) = {note["pid"] for note in notes if note.get("test") == "last"}
    assert len(of_right) == 1
    assert [note["fixture"] for note in notes if note["pid"] in of_right and "fixture" in note][:1] == ["up"]
    assert [note["fixture"] for note in notes if note["pid"] == ended_well and "fixture" in note][:2] == ["up", "down"]


def test_what_is_alone_runs_last_and_with_nothing_beside_it(outcome):
    notes = outcome[2]
    begins = next(place for place, note in enumerate(notes) if note.get("alone") == "begins")
    assert notes[begins + 1].get("alone") == "ends"
    assert any(note.get("test") == "last" for note in notes[:begins])


def test_without_isolation_everything_runs_in_one_process(tmp_path):
    status, cases, notes, _ = run(tmp_path, "--gpu-isolation=off", "-k", "right or last or alone or here")
    assert status == 0
    assert len(cases) == 7
    assert len({note["pid"] for note in notes}) == 1


def test_workers_and_their_parent_share_a_folder_and_no_file_in_it(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nconformance_modules = kernels\n")
    for name, text in SHARING.items():
        (tmp_path / name).write_text(text)
    done = pytest_in(tmp_path, "--gpu-workers=2", "--basetemp=files")
    assert "2 failed, 3 passed" in done.stdout, done.stdout
    # what failed is the parent's to remember, whichever process ran it
    wrong = {"test_a.py::test_wrong", "test_b.py::test_wrong_too"}
    cache = tmp_path / ".pytest_cache" / "v" / "cache"
    assert set(json.loads((cache / "lastfailed").read_text())) == wrong
    assert len(json.loads((cache / "nodeids").read_text())) == 5
    again = pytest_in(tmp_path, "--gpu-workers=2", "--lf")
    assert "2 failed" in again.stdout
    assert "passed" not in again.stdout.splitlines()[-1]
