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

from harness import cli
from harness.bench import accept, blocks, command, machine, store
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


@check
def a_block_that_ends_without_a_word_is_not_said_to_have_failed_at_what_it_did_before(folder):
    words = r"a block of x ended with exit status 9 and said last: merge_attn_states\[triton-num_parts=2-rot\]: 4.6"
    _block(folder, "echo 'merge_attn_states[triton-num_parts=2-rot]: 4.6 µs' >&2; exit 9", deadline=15, words=words)


@check
def later_blocks_leave_out_what_the_first_refused(folder):
    gone = "merge_attn_states[fatal-num_parts=2]"
    builds = [blocks.Build(name=name, tree=folder) for name in ("old", "new")]
    seen = []

    def one_block(build, options, *, deadline):
        wanted = command.wanted_of(cli._parser().parse_args(["bench", "run", *options]))
        chosen = wanted.chooses(gone), wanted.chooses("merge_attn_states[triton-num_parts=2]")
        seen.append((build.name, wanted.checked, *chosen))
        refused = [{"name": gone, "reason": "its check failed: exit status 9"}] if build.name != "old" else []
        return document(refused=refused)

    with mock.patch.object(blocks, "one_block", one_block):
        blocks.interleaved(*builds, ["--lane", "cuda"], quads=1, deadline=9)
        assert seen == [("old", True, True, True), ("new", True, True, True), ("new", False, False, True),
                        ("old", False, True, True)]  # fmt: skip
        seen.clear()
        nothing = mock.patch.object(command, "load", return_value=None)
        with nothing, mock.patch.object(store, "merged", lambda made, data: made[0]):
            command.main(cli._parser().parse_args(["bench", "run", "--lane", "cuda", "--blocks", "3"]), [], folder)
        assert [one[1:] for one in seen] == [(True, True, True), (False, False, True), (False, False, True)]


@check
def turns_end_in_the_time_that_they_have_and_whole_quads_count(folder):
    assert _turns([9, 8, 3, 4] + [4] * 20, within=60) == (12, [60, 51, 43, 40, 36, 32, 28, 24, 20, 16, 12, 8])
    # the next four would take as long as the slower one of the last two: not begun
    assert _turns([9, 8, 3, 4] + [4] * 20, within=39) == (4, [39, 30, 22, 19])
    assert _turns([9, 8, 3, 4] + [4] * 20, within=40)[0] == 8
    # one that takes longer than they did is ended, and its quad is dropped
    try:
        assert _turns([9, 8, 3, 4, 4, 4, 30, 4], within=45) == (4, [45, 36, 28, 25, 21, 17, 13])
    except blocks.BlockLate as error:
        pytest.fail(f"the quad before is lost: {error}")
    assert _turns([9] * 8, within=1000, deadline=20) == (8, [20] * 8)
    for times, words in (([9, 8, 30], "no quad of blocks ended within 45 s"), ([9, 300], "longer than 45 s")):
        with pytest.raises(blocks.BlockFailed, match=words):
            _turns(times, within=45 if len(times) == 3 else 1000, deadline=45)
    with pytest.raises(blocks.BlockFailed, match="a block of new failed"):
        _turns([9, -1], within=45)


def _turns(times, *, within, deadline=100):
    """Return the number of blocks that count and the seconds that each block was given."""
    now, left = [0.0], []

    def one_block(build, options, *, deadline):
        seconds = times[len(left)]
        left.append(deadline)
        now[0] += min(seconds, deadline)
        if seconds > deadline:
            raise blocks.BlockLate(f"a block of {build.name} took longer than {deadline:g} s")
        if seconds < 0:
            raise blocks.BlockFailed(f"a block of {build.name} failed")
        return document()

    builds = [blocks.Build(name=name, tree=folder) for folder, name in ((Path(), "old"), (Path(), "new"))]
    with mock.patch.object(blocks, "one_block", one_block):
        found = blocks.interleaved(
            *builds, [], quads=len(times) // 4 or 1, deadline=deadline, within=within, clock=lambda: now[0]
        )
    return len(found), left


@check
def a_run_of_blocks_ends_in_the_time_that_it_has(folder):
    assert _run_of([9, 2, 2, 2], within=100) == ([30] * 4, 4, 15, "")
    # the first, which checks results too, says nothing of the others; those do
    assert _run_of([9, 2, 2, 2], within=12) == ([12, 3], 2, 11, "2 of 4 blocks ended within 12 s")
    assert _run_of([9, 2, 2, 2], within=13.5) == ([13.5, 4.5, 2.5], 3, 13, "3 of 4 blocks ended within 13.5 s")
    # one that is late all the same is dropped, and is no failure
    assert _run_of([9, 2, 5, 2], within=14) == ([14, 5, 3], 2, 14, "2 of 4 blocks ended within 14 s")
    assert _run_of([9, 31, 2, 2], within=1000) == ([30, 30], 1, 39, "block 2 of 4: late")
    with pytest.raises(SetupError, match="late"):
        _run_of([9], within=8)


def _run_of(times, *, within):
    """Return the seconds that each block was given, how many count, how long it took, and what is said of it last."""
    now, given, said = [0.0], [], []

    def one_block(build, options, *, deadline):
        assert ("--unchecked" in options) == bool(given)
        seconds = times[len(given)]
        given.append(deadline)
        now[0] += min(seconds, deadline)
        if seconds > deadline:
            raise blocks.BlockLate("late")
        return {}

    build, clock = blocks.Build(name="x", tree=Path()), lambda: now[0]
    with mock.patch.object(blocks, "one_block", one_block):
        made, failed = blocks.repeated(
            build, [], count=4, jobs=8, deadline=30, within=within, say=said.append, clock=clock
        )
    ends = [f"{one['name']}: {one['reason']}" for one in failed] + said[-1:]
    return given, len(made), now[0], ends[0] if failed or len(made) < 4 else ""


@check
def a_comparison_says_how_many_quads_there_was_no_time_for(folder):
    rows = [row(work) for work in WORKLOADS[:2]]
    for one in rows:
        one["stats"]["data"] = one["extra_info"]["blocks"]
    asked = []

    def few(base, head, options, *, quads, within, **others):
        asked.append((quads, within))
        return [(which, document(rows=rows)) for which in (0, 1, 1, 0)]

    words = ["bench", "diff", str(folder), str(folder), "--lane", "cuda", "--markdown", str(folder / "c.md")]
    with mock.patch.object(blocks, "interleaved", few):
        for more, noted in ((["--quads", "5", "--within", "60"], True), (["--quads", "1"], False)):
            command.main(cli._parser().parse_args([*words, *more]), [], folder)
            said = (folder / "c.md").read_text()
            assert "1 quad of blocks in turns" in said
            assert ("- 1 of 5 quads: the others would not have ended within 60 s" in said) is noted
    assert asked == [(5, 60.0), (1, float("inf"))]


@check
def blocks_before_one_that_fails_are_kept(folder):
    rows = [row(work) for work in WORKLOADS[:2]]
    for one in rows:
        one["stats"]["data"] = one["extra_info"]["blocks"]
    made = [document(rows=rows) for _ in range(3)]

    def one_block(build, options, *, deadline):
        if not made:
            raise blocks.BlockFailed("a block of x took longer than 9 s")
        return made.pop()

    words = ["bench", "run", "--lane", "cuda", "--blocks", "5", "--out", str(folder / "run.json")]
    nothing = mock.patch.object(command, "load", return_value=None)
    with nothing, mock.patch.object(blocks, "one_block", one_block):
        try:
            status = command.main(cli._parser().parse_args(words), [], folder)
        except SetupError as error:
            pytest.fail(f"three blocks are lost: {error}")
        kept = store.read(folder / "run.json")
        assert [len(entry.blocks) for entry in kept.entries.values()] == [3, 3]
        reason = {"name": "block 4 of 5", "reason": "a block of x took longer than 9 s"}
        assert (status, store.wrong(kept.document)) == (1, [reason])
        with pytest.raises(SetupError, match="a block of x took longer than 9 s"):
            command.main(cli._parser().parse_args(words), [], folder)


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
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
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
