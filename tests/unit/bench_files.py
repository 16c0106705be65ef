"""What must hold of stored runs and of what compares them: checks that a planted fault must fail."""

import functools
import json
import re
import statistics

import numpy as np
import pytest

from harness.bench import (
    accept,
    blocks,
    comparison,
    history,
    labels,
    machine,
    markdown,
    peer_table,
    peers,
    readings,
    store,
)
from harness.bench.verdicts import Verdict
from harness.discover import SetupError
from tests.unit.bench_documents import DEVICE, WORKLOADS, document, row, run

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


@functools.cache
def past_runs(count):
    return [run(f"n{night}", night=night) for night in range(count)]


def compared(base, head, past=14, **options):
    return comparison.of_files(base, head, past_runs(past), **options)


def refused(found, *words):
    said = " ".join(found.refused)
    assert not found.rows, "verdicts were made"
    assert found.exit_status == comparison.UNUSABLE
    assert all(word in said for word in words), said


@check
def a_slower_run_fails_and_a_faster_one_does_not(folder):
    base = run("base", night=13)
    found = compared(base, run("head", night=14, slower={"sparse_mla_decode": 0.05, "mxfp4_moe": -0.05}))
    by_name = {row.name.partition("[")[0]: row for row in found.rows}
    assert by_name["sparse_mla_decode"].verdict is Verdict.SLOWER
    assert by_name["sparse_mla_decode"].change == pytest.approx(0.05, abs=0.01)
    assert by_name["mxfp4_moe"].verdict is Verdict.FASTER
    assert by_name["paged_mqa_logits"].verdict is Verdict.SAME
    assert found.exit_status == comparison.SLOWER
    assert "1 slower, 2 faster, 3 same" in markdown.render(found)
    assert compared(base, run("head", night=14, slower={"mxfp4_moe": -0.05})).exit_status == comparison.FINE


@check
def another_device_is_refused(folder):
    other = run("head", night=14, device=DEVICE | {"name": "NVIDIA B200"})
    refused(compared(run("base", night=13), other), "another device", "NVIDIA H200", "NVIDIA B200")
    refused(compared(run("base", night=13, device={}), run("head", night=14)), "does not say which device")


@check
def another_device_of_the_model_may_be_slower_by_itself(folder):
    elsewhere = run("head", night=14, device=DEVICE | {"uuid": "GPU-2"}, slower={"mxfp4_moe": 0.05})
    verdicts = {row.name.partition("[")[0]: row.verdict for row in compared(run("base", night=13), elsewhere).rows}
    assert set(verdicts.values()) == {Verdict.CANNOT_TELL}, "the same build on two devices"
    far = run("head", night=14, device=DEVICE | {"uuid": "GPU-2"}, slower={"mxfp4_moe": 0.3})
    found = compared(run("base", night=13), far)
    assert [row.name.partition("[")[0] for row in found.of(Verdict.SLOWER)] == ["mxfp4_moe"] * 2
    assert "another device of the same model, which may differ from it: 10% is allowed for" in found.notes


@check
def a_dirty_tree_is_refused(folder):
    refused(compared(run("base", night=13), run("head", night=14, dirty=True)), "dirty tree", "head")
    refused(compared(run("base", night=13, dirty=True), run("head", night=14)), "dirty tree", "base")
    refused(compared(run("base", night=13, commit="unversioned"), run("head", night=14)), "no commit")
    assert not compared(run("base", night=13), run("head", night=14, dirty=True), allow_dirty=True).refused


@check
def a_missing_workload_is_refused_with_its_reason(folder):
    broken = {"name": "mxfp4_moe[auto-num_tokens=1]", "reason": "oracle:out: 3 of 8 elements break"}
    rows = [row(workload) for workload in WORKLOADS if workload[:2] != ("mxfp4_moe", "num_tokens=1")]
    head = run("head", night=14, rows=rows, refused=[broken])
    refused(compared(run("base", night=13), head), "1 workloads", "mxfp4_moe[auto-num_tokens=1-rot]", "3 of 8")
    # one more is no reason
    assert not compared(head, run("newer", night=15)).refused


def _with_a_peer(seconds=56e-6, **fields):
    ours = WORKLOADS[1]
    peer = row((*ours[:2], "sglang-slot", seconds, *ours[4:]))
    peer["extra_info"]["peer"] = True
    made = run(**fields)
    return run(**fields, rows=[*made.document["benchmarks"], peer])


@check
def a_peer_stands_beside_ours_and_is_compared_with_nothing_else(folder):
    base, head = _with_a_peer(path="base", night=13), _with_a_peer(2 * 56e-6, path="head", night=14)
    found = peers.ratios(head.entries)
    assert list(found) == ["mxfp4_moe[auto-num_tokens=1-rot]"]
    assert re.fullmatch(r"3\.[45] x sglang-slot", *found.values())
    # twice as slow as the night before, or gone: not ours to mend
    assert len(compared(base, head).rows) == len(WORKLOADS)
    assert compared(base, head).exit_status == comparison.FINE
    assert not compared(base, run("alone", night=14)).refused
    assert peers.ratios(run().entries) == {}


@check
def a_table_says_how_many_times_as_long_peers_take(folder):
    gone = {"name": "mxfp4_moe[sglang-slot-num_tokens=64]", "reason": "oracle:out: 3 of 8", "peer": True}
    head, rest = _with_a_peer(100 * WORKLOADS[1][3], refused=[gone]), 5
    lines = peer_table.render(head).splitlines()
    assert len(lines) == 4 + 1 + rest + 2
    assert lines[0].startswith(f"NVIDIA H200, {'a' * 12}, 2026-11-01. In a cell: rot; ")
    assert _cells(lines) == ["31.9 µs", "18.8 µs", "0.59", "sglang-slot", "3.19 ms", "100"]
    assert sum(line.endswith("|  |  |  |") for line in lines) == rest, "what has no peer has its floor"
    # two ways of timing share a line; the peer was timed in one of them
    warm = row(WORKLOADS[1], timing="warm")
    warm["extra_info"]["l2"] = "warm"
    both = peer_table.render(run(rows=[warm, *head.document["benchmarks"]])).splitlines()
    assert len(both) == 4 + 1 + rest
    assert _cells(both) == ["31.9 µs warm, 31.9 µs", "18.8 µs", "0.59, 0.59", "sglang-slot", "-, 3.19 ms", "-, 100"]
    assert lines[-1] == "- not timed: `mxfp4_moe[sglang-slot-num_tokens=64]`: oracle:out: 3 of 8"


def _cells(lines):
    ours = next(line for line in lines if "mxfp4_moe[auto-num_tokens=1]" in line)
    return [cell.strip() for cell in ours.split("|")[2:-1]]


@check
def a_peer_that_is_wrong_is_no_fault_of_ours(folder):
    theirs = {"name": "mxfp4_moe[sglang-slot-x]", "reason": "oracle:out: 3 of 8", "peer": True}
    assert store.wrong(document(refused=[theirs, {"name": "x", "reason": "y"}])) == [{"name": "x", "reason": "y"}]
    store.write(folder / "run.json", document(refused=[theirs]))
    target, _ = accept.accept(folder / "run.json", folder / "baselines")
    assert store.read(target).document["harness"]["refused"] == [theirs]


@check
def a_stale_head_is_refused(folder):
    refused(compared(run("base", night=14), run("head", night=13)), "older than its base")
    refused(compared(run("base", night=14), run("again", night=14)), "are one run")


@check
def a_run_that_differs_from_itself_is_refused(folder):
    jumping = [1e-5 * (1 + 0.1 * (place % 4 // 2 != place % 2)) for place in range(10)]
    head = run("head", night=14, rows=[row(WORKLOADS[0], times=jumping), *map(row, WORKLOADS[1:])])
    refused(compared(run("base", night=13), head), "failing A/A", "head", "merge_attn_states")
    refused(compared(run("base", night=13, rows=head.document["benchmarks"]), run("later", night=14)), "failing A/A")


@check
def too_few_blocks_are_refused(folder):
    head = run("head", night=14, rows=[row(workload, count=5) for workload in WORKLOADS])
    refused(compared(run("base", night=13), head), "no A/A", "fewer than 6 blocks")


@check
def only_earlier_runs_of_the_device_are_history(folder):
    head = run("head", night=5)
    past = [run("a", night=1), run("b", night=9), run("c", night=5), run("d", night=2, device={"name": "other"})]
    assert [one.path for one in comparison.usable(past, head)] == ["a"]
    without = compared(run("base", night=4), head, past=0)
    assert {row.verdict for row in without.rows} == {Verdict.CANNOT_TELL}
    assert any("10% is allowed for" in note for note in without.notes)


@check
def other_versions_are_noted(folder):
    newer = run("head", night=14, device=DEVICE | {"driver": "590.2"})
    assert compared(run("base", night=13), newer).notes == ("driver 580.1 -> 590.2",)
    hot = run("hot", night=14)
    hot.document["benchmarks"][0]["extra_info"]["after"] = {"throttled": ["hardware thermal slowdown"]}
    assert (
        "hot: slowed down by hardware thermal slowdown in 1 of 6 benchmarks" in compared(run("b", night=13), hot).notes
    )


def _turns(slowdown=0.0, quads=12, noise=0.003, first=0.0, dirty=False):
    rng = np.random.default_rng(3)
    found = []
    for which in [which for order in blocks.orders(quads) for which in order]:
        shift = 1 + (slowdown if which else 0.0) + (first if which == 0 and not found else 0.0)
        rows = []
        for workload in WORKLOADS:
            made = row(workload, times=[workload[3] * shift * float(np.exp(noise * rng.standard_normal()))])
            made["stats"]["data"] = made["extra_info"]["blocks"]
            rows.append(made)
        found.append((which, document(rows=rows, dirty=dirty and which == 1)))
    return found


@check
def blocks_in_turns_are_compared(folder):
    slower = comparison.of_blocks(_turns(0.05), ("A", "B"))
    assert {row.verdict for row in slower.rows} == {Verdict.SLOWER}
    assert [row.change for row in slower.rows] == pytest.approx([0.05] * 6, abs=0.01)
    assert slower.exit_status == comparison.SLOWER
    assert {row.verdict for row in comparison.of_blocks(_turns(), ("A", "A")).rows} == {Verdict.SAME}
    assert comparison.of_blocks(_turns(-0.05), ("A", "B")).exit_status == comparison.FINE


@check
def blocks_of_a_dirty_tree_or_of_a_build_unlike_itself_are_refused(folder):
    refused(comparison.of_blocks(_turns(dirty=True), ("A", "B")), "dirty tree")
    flickering = _turns()
    flickering[3][1]["benchmarks"].pop(0)
    refused(comparison.of_blocks(flickering, ("A", "B")), "A is not the same in all blocks", "missing in 1 of 24")
    unlike = _turns()
    # the blocks of the base that are compared with each other, one slower in each pair
    seen = 0
    for which, one in unlike:
        if which == 0:
            pair, place = divmod(seen, 2)
            slow = place == (0 if pair % 4 < 2 else 1)
            for made in one["benchmarks"]:
                made["stats"]["data"] = [value * (1.08 if slow else 1.0) for value in made["stats"]["data"]]
            seen += 1
    refused(comparison.of_blocks(unlike, ("A", "B")), "failing A/A")


@check
def processes_are_merged_block_by_block(folder):
    parts = []
    for shift in (1.0, 3.0, 2.0):
        made = document()
        for one in made["benchmarks"]:
            one["stats"]["data"] = [shift * 1e-6, shift * 1e-6, shift * 9e-6]
        parts.append(made)
    parts[1]["benchmarks"].pop(0)
    whole = store.merged(parts)
    assert len(whole["benchmarks"]) == len(WORKLOADS) - 1
    (gone,) = whole["harness"]["refused"]
    assert gone["reason"] == "missing in 1 of 3 blocks"
    first = whole["benchmarks"][0]
    assert first["extra_info"]["blocks"] == [1e-6, 3e-6, 2e-6]
    assert first["extra_info"]["blocks_are"] == "processes"
    assert first["stats"]["rounds"] == 9
    assert "data" not in first["stats"]
    kept = store.merged(parts, data=True)["benchmarks"][0]["stats"]["data"]
    assert kept == [shift * part for shift in (1e-6, 3e-6, 2e-6) for part in (1, 1, 9)]


@check
def a_stored_run_reads_back(folder):
    store.write(folder / "run.json", document(night=3))
    back = store.read(folder / "run.json")
    assert back.entries == run(night=3).entries
    assert back.when == document(night=3)["datetime"]
    # a line a benchmark
    assert sum('"fullname"' in line for line in (folder / "run.json").read_text().splitlines()) == len(WORKLOADS)


@check
def statistics_are_those_of_pytest_benchmark(folder):
    theirs = pytest.importorskip("pytest_benchmark.stats").Stats()
    samples = [float(value) for value in np.random.default_rng(0).exponential(size=41) + 1]
    for value in samples:
        theirs.update(value)
    ours = store.stats(samples, 3)
    numbers = [name for name in theirs.as_dict() if name != "outliers"]
    assert {name: ours[name] for name in numbers} == pytest.approx({name: getattr(theirs, name) for name in numbers})
    assert ours["outliers"] == theirs.outliers
    assert ours["median"] == statistics.median(samples)
    assert set(theirs.as_dict()) | {"iterations"} == set(ours)


@check
def what_is_no_stored_run_is_said_to_be_none(folder):
    other = document()
    for one in other["benchmarks"]:
        del one["extra_info"]["blocks"]
    for name, text, words in (
        ("gone", None, "No such file"),
        ("text", "x", "is no stored run"),
        ("list", "[1]", "is no stored run"),
        ("other", json.dumps(other), "holds no benchmark of a contract"),
        ("newer", json.dumps(document() | {"harness": {"format": 2}}), "format 2"),
    ):
        if text is not None:
            (folder / name).write_text(text)
        with pytest.raises(SetupError, match=words):
            store.read(folder / name)


@check
def a_baseline_is_accepted_on_purpose(folder):
    store.write(folder / "run.json", document(night=3))
    target, said = accept.accept(folder / "run.json", folder / "baselines")
    assert target == folder / "baselines" / "nvidia-h200.json"
    assert store.read(target).entries == run(night=3).entries
    assert "6 benchmarks of aaaaaaaaaaaa, 0 before" in said
    for fields, words in (
        ({"dirty": True}, "with changes"),
        ({"commit": "unversioned"}, "no commit"),
        ({"refused": [{"name": "x", "reason": "wrong"}]}, "left out x: wrong"),
        ({"device": {}}, "which device"),
    ):
        store.write(folder / "bad.json", document(**fields))
        with pytest.raises(SetupError, match=words):
            accept.accept(folder / "bad.json", folder / "baselines")
    assert store.read(target).when == document(night=3)["datetime"]


@check
def history_is_one_device_in_order(folder):
    for night in (2, 0, 1):
        store.write(folder / f"{night}.json", document(night=night))
    store.write(folder / "other.json", document(night=1, device={"name": "other"}))
    (folder / "note.json").write_text("{}")
    found = history.courses(history.runs([folder]))
    assert [len(course.points) for course in found] == [3] * len(WORKLOADS)
    assert [point[0] for point in found[0].points] == [document(night=night)["datetime"] for night in range(3)]
    assert "mxfp4_moe[auto-num_tokens=1-rot]" in history.render(history.runs([folder]))


@check
def labels_tell_workloads_apart(folder):
    from harness import registry

    registry.load(installed=False)
    for contract in registry.contracts():
        if not contract.workloads:
            # a test's
            continue
        names = labels.labels(contract.workloads)
        assert len(set(names)) == len(names)
        assert max(map(len, names)) <= 60
        assert len({labels.digest(case) for case in contract.workloads}) == len(names)
    assert labels.labels(registry.contract("mega_moe").workloads)[0] == "num_tokens=1"


@check
def a_reading_names_what_slows_a_device(folder):
    line = "1980, 3201, 64, 412.7, 0x0000000000000024\n"
    assert readings.parsed(line) == {
        "sm_mhz": 1980,
        "memory_mhz": 3201,
        "celsius": 64,
        "watts": 412.7,
        "throttled": ["software power cap", "software thermal slowdown"],
    }
    # idle, and clocks that an application asked for, slow nothing
    assert readings.named(0x3) == []
    assert readings.parsed("[N/A], 3201") == {"memory_mhz": 3201}


@check
def a_build_is_a_folder_or_a_revision(folder):
    import subprocess

    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t"]
    (folder / "kernels").mkdir()
    (folder / "kernels" / "a.py").write_text("1\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], check=True)
    assert machine.commit_info(folder)["dirty"] is False
    (folder / "kernels" / "b.py").write_text("2\n")
    assert machine.commit_info(folder)["dirty"] is True, "a file that git does not know"
    with blocks.checked_out("HEAD", folder) as build:
        assert [path.name for path in (build.tree / "kernels").iterdir()] == ["a.py"]
        assert machine.commit_info(build.tree)["dirty"] is False
    assert not build.tree.exists()
    listed = subprocess.run([*git, "worktree", "list"], capture_output=True, text=True, check=True).stdout
    assert len(listed.splitlines()) == 1
    with blocks.checked_out(str(folder), folder) as build:
        assert build.tree == folder.resolve()
    with pytest.raises(SetupError, match="neither a file, a folder nor a revision"), blocks.checked_out("no", folder):
        pass
