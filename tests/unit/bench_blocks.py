"""What must hold of blocks, of accepting a run and of choosing from one: checks that a planted fault must fail."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

from harness.bench import accept, blocks, machine, store
from harness.discover import SetupError
from tests.unit.bench_documents import WORKLOADS, document, row, run

CHECKS = {}
#: Starts a process that holds standard error open, notes its number, and goes on as the test says.
FAKE = """#!/bin/sh
sleep 20 &
echo $! > started
"""


def check(function):
    CHECKS[function.__name__] = function
    return function


@check
def a_block_that_ends_leaves_no_process_behind(folder):
    _block(folder, "echo no module >&2; exit 1", deadline=15, words="no module")


@check
def a_block_that_hangs_leaves_no_process_behind(folder):
    _block(folder, "wait", deadline=0.5, words="took longer than 0.5 s")


def _block(folder, rest, *, deadline, words):
    fake = folder / "python"
    fake.write_text(FAKE + rest + "\n")
    fake.chmod(0o755)
    began = time.monotonic()
    with mock.patch.object(sys, "executable", str(fake)), pytest.raises(blocks.BlockFailed, match=words):
        blocks.one_block(blocks.Build(name="x", tree=folder), [], deadline=deadline)
    assert time.monotonic() - began < 10, "it waited for what it did not start"
    number = int((folder / "started").read_text())
    try:
        assert _gone(number), "a process that the block started still runs"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def _gone(number):
    """Whether a process ends within a second; one that waits for its parent to ask has ended."""
    for _ in range(20):
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@check
def a_baseline_does_not_shrink_by_accident(folder):
    store.write(folder / "all.json", document(night=1))
    store.write(folder / "one.json", document(night=2, rows=[row(WORKLOADS[1])]))
    target, _ = accept.accept(folder / "all.json", folder / "baselines")
    with pytest.raises(SetupError, match=r"5 workloads of the base are missing: .*; see --allow-missing"):
        accept.accept(folder / "one.json", folder / "baselines")
    assert len(store.read(target).entries) == 6
    _, said = accept.accept(folder / "one.json", folder / "baselines", allow_missing=True)
    assert "1 benchmarks of aaaaaaaaaaaa, 6 before" in said
    accept.accept(folder / "all.json", folder / "baselines")
    assert len(store.read(target).entries) == 6


@check
def a_commit_that_was_told_is_believed_by_its_sources(folder):
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t"]
    (folder / "kernels").mkdir()
    (folder / "kernels" / "a.py").write_text("1\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], check=True)
    commit = machine.commit_info(folder)["id"]
    there = folder / "there"
    shutil.copytree(folder / "kernels", there / "kernels")
    # ``there`` is in no repository, as far as git says
    alone = {"GIT_CEILING_DIRECTORIES": str(folder)}
    with mock.patch.dict(os.environ, {**alone, "HARNESS_COMMIT": commit}):
        told = _told(there)
        (there / "kernels" / "b.py").write_text("2\n")
        changed = _told(there)
    assert told["id"] == changed["id"] == commit
    for name, info in (("told", told), ("changed", changed)):
        store.write(folder / f"{name}.json", document(night=len(name)) | {"commit_info": info})
    target, _ = accept.accept(folder / "told.json", folder / "baselines", repository=folder)
    assert store.read(target).commit["dirty"] is False
    with pytest.raises(SetupError, match=r"dirty tree: .*: kernels/b.py: not here; see --allow-dirty"):
        accept.accept(folder / "changed.json", folder / "baselines", repository=folder)
    # told another commit, or none that there is: its sources show whose it is
    for told_id in ("0" * 40, "HEAD of elsewhere"):
        other = store.read(folder / "told.json").document
        store.write(folder / "other.json", other | {"commit_info": other["commit_info"] | {"id": told_id}})
        with pytest.raises(SetupError, match="commit not shown"):
            accept.accept(folder / "other.json", folder / "baselines", repository=folder)
        accept.accept(folder / "other.json", folder / "baselines", repository=folder, commit="HEAD")
        assert store.read(target).commit["id"] == commit
    with pytest.raises(SetupError, match="dirty tree"):
        accept.accept(folder / "changed.json", folder / "baselines", repository=folder, commit="HEAD")
    with pytest.raises(SetupError, match="knows no commit v9"):
        accept.accept(folder / "told.json", folder / "baselines", repository=folder, commit="v9")
    store.write(folder / "plain.json", document(night=3))
    with pytest.raises(SetupError, match="it recorded no sources"):
        accept.accept(folder / "plain.json", folder / "baselines", repository=folder, commit="HEAD")
    with mock.patch.dict(os.environ, alone), pytest.raises(SetupError, match=r"commit not shown: .* no such commit"):
        accept.accept(folder / "told.json", folder / "baselines", repository=there)


def _told(tree):
    with mock.patch.object(machine, "_git", return_value=None):
        return machine.commit_info(tree)


@check
def a_run_is_narrowed_to_what_is_chosen(folder):
    rows = [row(work, timing=timing) for work in WORKLOADS for timing in ("rot", "warm")]
    whole = run(rows=rows)
    for chosen, count in (
        ({}, 12),
        ({"contracts": ["mxfp4_moe", "merge_attn_states"]}, 6),
        ({"impl": "triton"}, 8),
        ({"impl": "tri"}, 0),
        ({"match": "auto-num_tokens=64"}, 2),
        ({"timings": ["warm"]}, 6),
        ({"contracts": ["mxfp4_moe"], "match": "=1", "timings": ["rot"]}, 1),
    ):
        options = {"contracts": [], "impl": None, "match": "", "timings": [], **chosen}
        if not count:
            with pytest.raises(SetupError, match="holds no benchmark that"):
                store.narrowed(whole, **options)
            continue
        found = store.narrowed(whole, **options)
        assert len(found.entries) == count, chosen
        assert store.entries(found.document) == found.entries
