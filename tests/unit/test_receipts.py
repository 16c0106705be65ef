"""Receipts of hardware runs: what is recorded, what git knows, and what the command says."""

import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from harness import cli
from harness.receipts import check, command, record, recorder, revision, sources, whole
from tests.unit.receipt_checks import CHECKS, receipt_of

API = SimpleNamespace(check=check, record=record, sources=sources, command=command, whole=whole)


@pytest.mark.parametrize("name", CHECKS)
def test_receipt(name, tmp_path):
    CHECKS[name](API, tmp_path)


@pytest.fixture
def repository(tmp_path):
    """A folder under git with one kernel, one commit and nothing changed."""
    folder = tmp_path / "project"
    (folder / "kernels").mkdir(parents=True)
    (folder / "kernels" / "a.py").write_text("a = 1\n")
    (folder / "README.md").write_text("words\n")
    for arguments in (
        ["init", "-q"], ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "commit", "-qm", "first"],
    ):  # fmt: skip
        subprocess.run(["git", "-C", folder, *arguments], check=True)
    return folder


def head(folder):
    return subprocess.run(
        ["git", "-C", folder, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_git_says_the_commit_and_what_was_edited(repository):
    assert revision.of(repository, ("kernels",)) == revision.Revision(commit=head(repository), dirty=())
    (repository / "notes.txt").write_text("nobody's business\n")
    (repository / "kernels" / "new.py").write_text("")
    (repository / "README.md").write_text("other words\n")
    assert revision.of(repository, ("kernels",)).dirty == ("README.md", "kernels/new.py")
    assert revision.full(repository, "HEAD") == head(repository)
    with pytest.raises(LookupError, match="nowhere"):
        revision.full(repository, "nowhere")


def test_a_commit_has_the_digests_of_its_checkout(repository):
    before = sources.of_folder(repository, ("kernels", "missing"))
    assert sources.of_commit(repository, head(repository), ("kernels", "missing")) == before
    (repository / "kernels" / "a.py").write_text("a = 2\n")
    assert sources.of_commit(repository, head(repository), ("kernels",)) == before
    with pytest.raises(LookupError, match="0000"):
        sources.of_commit(repository, "0000", ("kernels",))


@pytest.mark.parametrize("packed", [False, True])
def test_without_git_the_commit_is_read_and_nothing_said_about_edits(repository, monkeypatch, packed):
    commit = head(repository)
    if packed:
        subprocess.run(["git", "-C", repository, "pack-refs", "--all"], check=True)
    monkeypatch.setenv("PATH", "")
    assert revision.of(repository, ("kernels",)) == revision.Revision(commit=commit, dirty=None)


def test_without_a_repository_the_environment_says_the_commit(tmp_path, monkeypatch):
    for name in revision.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert revision.of(tmp_path, ()) == revision.Revision(commit="unknown", dirty=None)
    monkeypatch.setenv("HARNESS_COMMIT", "e" * 40)
    assert revision.of(tmp_path, ()) == revision.Revision(commit="e" * 40, dirty=None)


def report(id, when="call", outcome="passed", seconds=0.5, longrepr=None, **extra):
    return SimpleNamespace(
        nodeid=id, when=when, outcome=outcome, duration=seconds, longrepr=longrepr, keywords={"sm120": 1},
        passed=outcome == "passed", failed=outcome == "failed", skipped=outcome == "skipped", **extra,
    )  # fmt: skip


def test_the_worst_phase_is_the_outcome(tmp_path):
    file = tmp_path / "receipt.json"
    file.write_text("of another run")
    noting = recorder.Recorder(file=file, folder=tmp_path, paths=())
    assert not file.exists()
    for one in (
        report("good", "setup"), report("good"), report("good", "teardown"),
        report("bad", outcome="failed"), report("bad", "teardown"),
        report("unclean"), report("unclean", "teardown", "failed"),
        report("skipped", "setup", "skipped", longrepr=("a.py", 1, "needs sm_100, found sm_120")),
        report("expected", outcome="skipped", wasxfail="#41"),
    ):  # fmt: skip
        noting.pytest_runtest_logreport(one)
    noting.pytest_sessionfinish(1)
    written = record.read(file)
    assert {test.id: test.outcome for test in written.tests} == {
        "good": "passed", "bad": "failed", "unclean": "error", "skipped": "skipped", "expected": "xfailed",
    }  # fmt: skip
    assert written.tests[0].seconds == 1.5
    assert written.tests[0].hardware
    assert written.tests[3].note == "needs sm_100, found sm_120"
    assert written.status == 1


@pytest.mark.parametrize(
    ("answers", "unknown"),
    [
        ("echo 1 error; echo ImportError: no; exit 2", "collecting ended with status 2: ImportError: no"),
        ("echo '{}' > \"$3\"; exit 1", "collecting ended with status 1: it said nothing"),
        ("exit 0", "collecting ended with status 0: it said nothing"),
        ('echo \'{"a::b": "sm_90"}\' > "$3"', ""),
        ("sleep 60", "not collected after 0.5 s"),
    ],
)
def test_what_could_not_be_collected_is_not_known(tmp_path, monkeypatch, answers, unknown):
    interpreter = tmp_path / "python"
    interpreter.write_text(f'#!/bin/sh\n[ -z "$PYTEST_ADDOPTS" ] || exit 9\necho "$@" > arguments\n{answers}\n')
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    monkeypatch.setattr(whole, "START_SECONDS", 0.5 if "sleep" in answers else 60.0)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k nothing")
    wanted = whole.Wanted(folder=tmp_path, markers=("sm90", "sm120"), paths=("gpu",), options=("--profile", "ci"))
    assert whole.Whole(wanted).answer() == ({} if unknown else {"a::b": "sm_90"}, unknown)
    assert "-m sm90 or sm120 --profile ci gpu" in (tmp_path / "arguments").read_text()


def test_the_command_takes_a_part_only_when_told_to(repository, capsys):
    file = repository / "receipt.json"
    part = (record.Selection(target="sm_120", whole=9, missing=5, some=("a::one",)),)
    digests = sources.of_folder(repository, ("kernels",))
    made = receipt_of(API, commit=head(repository), paths=("kernels",), sources=digests, selections=part)
    record.write(made, file)
    asked = ["receipt", "check", str(file), "--sources", str(repository), "--target", "sm120"]
    assert cli.main(asked) == 1
    assert "refused: a part: 5 of the 9 tests of sm_120 did not run" in capsys.readouterr().out
    assert cli.main([*asked, "--allow-partial"]) == 0
    assert "a part of the tests" in capsys.readouterr().out


def test_the_command_compares_with_a_folder_or_a_commit(repository, capsys):
    commit, file = head(repository), repository / "receipt.json"
    digests = sources.of_folder(repository, ("kernels",))
    record.write(receipt_of(API, commit=commit, paths=("kernels",), sources=digests), file)
    against_folder = ["receipt", "check", str(file), "--sources", str(repository)]
    assert cli.main([*against_folder, "--target", "sm120", "--at-least", "2"]) == 0
    assert capsys.readouterr().out.startswith(
        f"verified on sm_120 (NVIDIA RTX PRO 6000) at commit {commit[:12]}: 2 pas"
    )
    (repository / "kernels" / "a.py").write_text("a = 2\n")
    assert cli.main(against_folder) == 1
    assert "kernels/a.py: other content" in capsys.readouterr().out
    file.write_text(file.read_text().replace("RTX PRO", "RTX pro"))
    assert cli.main(against_folder) == 1
    assert "changed after it was written" in capsys.readouterr().out
    file.unlink()
    assert cli.main(against_folder) == 2


def test_the_command_compares_with_a_commit(repository, capsys, monkeypatch):
    file = repository / "receipt.json"
    digests = sources.of_folder(repository, ("kernels",))
    record.write(receipt_of(API, commit=head(repository), paths=("kernels",), sources=digests), file)
    (repository / "kernels" / "a.py").write_text("a = 2\n")
    monkeypatch.chdir(repository)
    assert cli.main(["receipt", "check", str(file), "--commit", "HEAD"]) == 0
    assert cli.main(["receipt", "check", str(file), "--commit", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert shutil.which("git")
