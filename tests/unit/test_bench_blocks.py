"""Blocks of builds in turns: their order, what a child sees, what is checked, and what a failure says."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import cli
from harness.bench import accept, blocks, comparison, gates, machine, page, store
from tests.unit.bench_blocks import CHECKS
from tests.unit.bench_documents import DEVICE, WORKLOADS, document, row, run


@pytest.fixture
def trees(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def children(monkeypatch):
    """Stands in for the processes of blocks: what was called, and blocks of made-up times."""
    seen = []

    def ended(command, tree, environment, deadline):
        paths = [Path(part) for part in environment["PYTHONPATH"].split(os.pathsep)]
        found = {path.name for path in paths[0].iterdir()}
        seen.append(SimpleNamespace(command=command, tree=tree.name, packages=found, path=paths[1:], deadline=deadline))
        rows = [row(work, times=[work[3] * (1.05 if tree.name == "new" else 1.0)]) for work in WORKLOADS]
        for one in rows:
            one["stats"]["data"] = one["extra_info"]["blocks"]
        Path(command[command.index("--out") + 1]).write_text(json.dumps(document(rows=rows)))
        return 0, ""

    monkeypatch.setattr(blocks.children, "ended", ended)
    return seen


@pytest.mark.parametrize("name", CHECKS)
def test_holds(name, tmp_path):
    CHECKS[name](tmp_path)


def test_two_trees_take_turns_and_the_slower_one_fails(trees, children, capsys):
    assert cli.main(["bench", "diff", "old", "new", "--quads", "4", "--lane", "cuda", "--allow-dirty"]) == cli.FAULTY
    assert "**6 slower**" in capsys.readouterr().out
    assert "".join(child.tree[0] for child in children) == "onno" + "noon" + "onno" + "noon"


def test_doubts_are_timed_again_in_turns_with_the_commit_of_the_baseline(trees, children, capsys, monkeypatch):
    monkeypatch.setattr(machine, "device_info", lambda lane: DEVICE)
    store.write(trees / "run.json", document(commit="old"))
    accept.accept(trees / "run.json", trees / "ci" / "baselines", repository=trees)
    head = run("head", night=14, slower={"mxfp4_moe": 0.04})
    page.write_comparison(trees / "c.json", comparison.of_files(run("base", night=13), head))
    words = ["bench", "diff", "accepted", "new", "--again", "c.json", "--lane", "cuda", "--allow-dirty"]
    assert cli.main([*words, "--quads", "4", "--json", "c.json"]) == cli.FAULTY
    assert "**2 slower, 4 cannot tell**" in capsys.readouterr().out
    assert "".join(child.tree[0] for child in children) == "onno" + "noon" + "onno" + "noon"
    names = [f"mxfp4_moe[auto-num_tokens={count}]" for count in (1, 64)]
    for child in children:
        assert [word for place, word in enumerate(child.command) if child.command[place - 1] == "--name"] == names
    assert page.read_comparison(trees / "c.json").exit_status == comparison.SLOWER
    # where nothing is in doubt nothing is timed
    children.clear()
    page.write_comparison(trees / "c.json", comparison.of_files(run("base", night=13), run("head", night=14)))
    assert cli.main(words) == cli.PASSED
    assert children == []
    assert cli.main([*words[:2], "run.json", "run.json", "--again", "c.json"]) == cli.UNUSABLE
    assert "--again: for source trees" in capsys.readouterr().err


def test_a_child_has_the_runners_harness_and_the_trees_kernels(trees, children):
    build = blocks.Build(name="old", tree=(trees / "old").resolve())
    blocks.one_block(build, ["--lane", "cuda"], deadline=10)
    (child,) = children
    assert child.packages == {"harness", "reference"}
    assert child.path == [build.tree]
    assert child.command[1:6] == ["-P", "-m", "harness", "bench", "run"]
    assert "--save-data" in child.command


def test_results_are_checked_once_a_build(trees, children):
    cli.main(["bench", "diff", "old", "new", "--quads", "1", "--lane", "cuda", "--allow-dirty"])
    assert ["--unchecked" in child.command for child in children] == [False, False, True, True]


def test_results_are_checked_by_several_processes_before_anything_is_timed(tmp_path, monkeypatch, capsys):
    seen = []

    def ended(command, folder, environment, deadline):
        number = command[command.index("--share") + 1]
        seen.append((number, environment["HARNESS_GPU_WORKERS"], environment["OMP_NUM_THREADS"], 0 < deadline <= 7))
        if number == "2/3":
            return 1, "first\nno memory left"
        found = {"0/3": {"merge_attn_states[triton-head_dim=1]": None}, "1/3": {"a[x-y]": "oracle:out: 3 of 8"}}[number]
        again = frozenset({"c[x-y]"} if number == "0/3" else ())
        gates.write(Path(command[command.index("--out") + 1]), gates.Checked(found=found, again=again))
        return 0, ""

    monkeypatch.setattr(gates.children, "ended", ended)
    monkeypatch.setattr(gates.os, "cpu_count", lambda: 9)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    found = gates.shared(["--lane", "cuda"], tmp_path, jobs=3, deadline=7.0)
    assert sorted(seen) == [(f"{number}/3", "3", "3", True) for number in range(3)]
    assert found.refusal("merge_attn_states[triton-head_dim=1]") is None
    assert found.refusal("a[x-y]") == "oracle:out: 3 of 8"
    assert found.refusal("b[x-y]") == "its check failed: no memory left"
    assert found.again == {"c[x-y]"}


def test_a_process_that_a_check_ends_is_followed_by_another(tmp_path, monkeypatch):
    known = []

    def ended(command, folder, environment, deadline):
        out = Path(command[command.index("--out") + 1])
        known.append(sorted(gates.read(out).found))
        found = {**gates.read(out).found, f"right{len(known)}": None}
        if len(known) == 3:
            gates.write(out, gates.Checked(found=found))
            return 0, ""
        gates.write(out, gates.Checked(found=found, at=f"fatal{len(known)}", done=False))
        return -11, "first\nthe kernel was killed"

    monkeypatch.setattr(gates.children, "ended", ended)
    found = gates.shared([], tmp_path, jobs=1, deadline=7.0)
    assert known == [[], ["fatal1", "right1"], ["fatal1", "fatal2", "right1", "right2"]]
    assert [found.refusal(f"right{number}") for number in (1, 2, 3)] == [None] * 3
    assert found.refusal("fatal2") == "its check failed: the kernel was killed"
    # but not for ever
    known.extend([[]] * 3)
    found = gates.shared([], tmp_path, jobs=1, deadline=7.0)
    assert len(known) == 6 + 8
    assert found.refusal("x") == "the checks before its own ended 8 processes"


def test_a_child_that_fails_is_a_refusal_with_its_last_words(trees, capsys, monkeypatch):
    monkeypatch.setattr(blocks.sys, "executable", str(trees / "python"))
    (trees / "python").write_text("#!/bin/sh\necho first >&2; echo 'no module called mega' >&2; exit 1\n")
    (trees / "python").chmod(0o755)
    assert cli.main(["bench", "diff", "old", "new", "--quads", "1"]) == cli.UNUSABLE
    assert "refused: a block of old failed: no module called mega" in capsys.readouterr().out
    assert cli.main(["bench", "run", "--blocks", "2"]) == cli.UNUSABLE
    assert "no module called mega" in capsys.readouterr().err


def test_a_child_that_hangs_is_a_refusal(trees, monkeypatch):
    monkeypatch.setattr(blocks.sys, "executable", str(trees / "python"))
    (trees / "python").write_text("#!/bin/sh\nexec sleep 60\n")
    (trees / "python").chmod(0o755)
    with pytest.raises(blocks.BlockFailed, match="a block of x took longer than"):
        blocks.one_block(blocks.Build(name="x", tree=trees), [], deadline=0.2)


def test_samples_of_blocks_are_kept_where_they_are_asked_for(trees, children):
    words = ["bench", "run", "--blocks", "2", "--lane", "cuda", "--deadline", "7"]
    assert cli.main([*words, "--out", "all.json", "--save-data"]) == cli.PASSED
    assert cli.main([*words, "--out", "few.json"]) == cli.PASSED
    kept = [json.loads((trees / name).read_text())["benchmarks"] for name in ("all.json", "few.json")]
    assert [[len(one["stats"].get("data", ())) for one in rows] for rows in kept] == [[2] * 6, [0] * 6]
    assert [child.deadline for child in children] == [7.0] * 4


def test_a_deadline_without_blocks_is_refused(trees, capsys):
    assert cli.main(["bench", "run", "--deadline", "7"]) == cli.UNUSABLE
    assert "--deadline: wanted --blocks or --jobs of 2 or more" in capsys.readouterr().err


def test_a_time_for_all_blocks_without_blocks_is_refused(trees, capsys):
    assert cli.main(["bench", "run", "--within", "7"]) == cli.UNUSABLE
    assert "--within: wanted --blocks of 2 or more" in capsys.readouterr().err
