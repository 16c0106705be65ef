"""The sanitizer lane without a GPU: what is read, what is run, what is said where something is missing."""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from harness import cli, copies, registry
from harness.contract import Implementation, Requires
from harness.known import Known
from harness.memcheck import _child, choice, command, inputs, judge, lane, stream, tools
from harness.report.records import FaultRecord, Record, Verdict
from tests.unit.memcheck_checks import CHECKS, recorded

ROOT = Path(__file__).parents[2]
API = SimpleNamespace(_child=_child, command=command, judge=judge, lane=lane, stream=stream)

#: Stands in for compute-sanitizer: answers for the job that it is given, whose implementation says how.
PROGRAM = """#!/usr/bin/env bash
case "$*" in
    --version) echo "Version 2025.3.1.0 (build 1)" ;;
    *'"hang"'*) sleep 60 ;;
    *'"killed"'*) kill -KILL $$ ;;
    *'"hungry"'*)
        echo "$*" >> "$CALLS"
        if [[ $(wc -l < "$CALLS") -lt 3 ]]; then echo "RuntimeError: CUDA error: out of memory"; exit 1; fi
        cat "$RECORDED/$2-clean.txt" ;;
    *) cat "$RECORDED/$2-clean.txt"; echo "$PYTORCH_NO_CUDA_MEMORY_CACHING $*" >> "$CALLS" ;;
esac
"""


@pytest.mark.parametrize("name", CHECKS)
def test_memcheck(name):
    CHECKS[name](API)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A compute-sanitizer on PATH; returns the file that its calls are noted in."""
    from tests.unit.memcheck_checks import RECORDED

    path = tmp_path / "bin" / tools.PROGRAM
    path.parent.mkdir()
    path.write_text(PROGRAM)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("RECORDED", str(RECORDED))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return tmp_path / "calls"


def job(name, **changes):
    return lane.Job(contract="planted", implementation=name, **changes)


def test_results_come_job_by_job_in_the_order_of_the_tools(program):
    results = lane.run([job("first"), job("second")], watching=["memcheck", "racecheck"], children=2)
    assert [(one.job.implementation, one.tool) for one in results] == [
        ("first", "memcheck"), ("first", "racecheck"), ("second", "memcheck"), ("second", "racecheck"),
    ]  # fmt: skip
    assert {one.judgement.verdict for one in results} == {Verdict.PASS}
    record = results[0].record()
    assert (record.contract, record.implementation, record.check, record.examples) == (
        "planted",
        "first",
        "memcheck",
        2,
    )
    calls = program.read_text()
    assert calls.count("1 --tool memcheck") == 2
    assert f"--padding {tools.PADDING}" in calls
    assert "-m harness.memcheck._child" in calls


def test_a_hang_and_a_crash_cost_one_result(program):
    began = time.monotonic()
    hang, killed, good = lane.run([job("hang"), job("killed"), job("good")], watching=["memcheck"], deadline=1.0)
    assert time.monotonic() - began < 30
    assert (hang.judgement.verdict, killed.judgement.verdict) == (Verdict.TIMEOUT, Verdict.CRASH)
    assert "not done after 1 s" in hang.judgement.note
    assert "killed by SIGKILL" in killed.judgement.note
    assert good.judgement.verdict is Verdict.PASS


def test_a_lack_of_memory_is_no_verdict(program, monkeypatch):
    monkeypatch.setattr(lane, "_PAUSE_SECONDS", 0.0)
    [fed] = lane.run([job("hungry")], watching=["memcheck"])
    assert fed.judgement.verdict is Verdict.PASS
    assert len(program.read_text().splitlines()) == 3
    program.unlink()
    monkeypatch.setattr(lane, "_ATTEMPTS", 2)
    [starved] = lane.run([job("hungry")], watching=["memcheck"])
    assert starved.judgement.verdict is Verdict.CRASH
    assert "last words: RuntimeError: CUDA error: out of memory" in starved.judgement.note


def test_without_the_program_it_says_where_it_looked(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    with pytest.raises(tools.Missing, match=r"needs compute-sanitizer, found none on PATH or in .*cuda/bin"):
        lane.run([job("clean")])
    there = tmp_path / "cuda" / "bin" / tools.PROGRAM
    there.parent.mkdir(parents=True)
    there.write_text("#!/bin/sh\nexit 3\n")
    there.chmod(0o755)
    assert tools.find() == there
    with pytest.raises(tools.Missing, match=r"found .*compute-sanitizer, which does not run"):
        tools.version(there)


def test_without_a_gpu_the_command_says_so(monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert cli.main(["memcheck"]) == 2
    assert "memcheck: needs an NVIDIA GPU, found no GPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--case is a case of one contract, chosen are"),
        (["planted_and_nowhere"], "no contract 'planted_and_nowhere'"),
        (["merge_attn_states"], "--case: not part of a case: x"),
    ],
)
def test_a_case_that_is_none_is_refused_before_anything_runs(monkeypatch, capsys, arguments, said):
    monkeypatch.setattr(command, "unmet", lambda wanted, machine, gpus=0: None)
    assert cli.main(["memcheck", *arguments, "--case", "len(x)"]) == 2
    assert said in capsys.readouterr().err


def test_an_implementation_for_other_targets_does_not_run(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for_blackwell = Implementation(contract="c", name="n", launch=print, requires=Requires(targets=("sm100",)))
    assert command.lacks(for_blackwell) == "needs sm_100, found no GPU"
    assert command.lacks(for_blackwell, "sm_120") == "needs sm_100, emulates sm_120"
    assert command.lacks(for_blackwell, "sm_100") is None


@pytest.fixture(scope="module")
def merge():
    registry.load(installed=False)
    contract = registry.contract("merge_attn_states")
    return contract, Implementation(contract=contract.name, name="none", launch=print)


def test_a_declared_failure_is_excused_under_its_tool(merge):
    contract, implementation = merge
    knowing = replace(
        implementation, known=(Known(match=lambda case: case.num_parts == 1, issue="#41", check="initcheck"),)
    )
    excused = command.excused([(contract, knowing)])
    asked = lane.Job(contract=contract.name, implementation=knowing.name)
    one, several = (repr(case) for case in contract.pinned[:2])
    assert excused(asked, "initcheck", one)
    assert not excused(asked, "initcheck", several)
    assert not excused(asked, "memcheck", one)
    assert not excused(asked, "initcheck", "")


def test_a_fault_replays_under_its_tool():
    fault = FaultRecord(check="racecheck", case="Case(length=128)", message="")
    record = Record(contract="planted", implementation="race", check="racecheck", verdict=Verdict.FAIL, faults=(fault,))
    assert command.ToolSummary(records=(record,), options=("--module", "mine")).replay(record, fault) == (
        "python -m harness memcheck planted --impl race --tool racecheck --case 'Case(length=128)' --module mine"
    )


def test_the_same_few_cases_are_chosen_each_time(merge):
    contract, implementation = merge
    chosen = choice.cases(contract, implementation, pinned=2, drawn=2, seed=0)
    assert chosen[:2] == list(contract.pinned[:2])
    assert len({repr(case) for case in chosen}) == 4
    assert choice.cases(contract, implementation, pinned=2, drawn=2, seed=0) == chosen
    quarantined = replace(
        implementation, known=(Known(match=lambda case: case == chosen[0], issue="#41", kind="quarantine"),)
    )
    assert choice.cases(contract, quarantined, pinned=2, drawn=2, seed=0) == chosen[1:]
    named = {"cases": [repr(chosen[3])]}
    assert choice.of_job(contract, implementation, named) == [chosen[3]]


def test_moved_arguments_keep_their_places_in_storages_of_the_same_size():
    whole = torch.arange(40, dtype=torch.float32)
    given = {
        "view": whole[4:24].view(4, 5).t(), "rest": [whole[30:], None], "bytes": whole.view(torch.uint8)[8:9],
        "empty": torch.empty(0, 3), "number": 3, "apart": {"a": torch.ones(2)},
    }  # fmt: skip
    moved = inputs.moved(given, torch.device("cpu"))
    assert moved["view"].stride() == given["view"].stride()
    assert torch.equal(moved["view"], given["view"])
    assert moved["empty"].shape == (0, 3)
    assert (moved["number"], moved["rest"][1]) == (3, None)
    storage = moved["view"].untyped_storage()
    assert storage.nbytes() == whole.untyped_storage().nbytes()
    assert storage.data_ptr() not in (
        whole.untyped_storage().data_ptr(),
        moved["apart"]["a"].untyped_storage().data_ptr(),
    )
    assert (
        moved["rest"][0].untyped_storage().data_ptr()
        == moved["bytes"].untyped_storage().data_ptr()
        == storage.data_ptr()
    )
    assert copies.storage_bytes(given) == 160 + 8


@pytest.fixture
def watched(merge, monkeypatch):
    """Makes this process one that a tool watches, without a device, and ``launch`` what it launches."""
    _, implementation = merge
    for name, value in {"set_device": lambda device: None, "synchronize": lambda: None}.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(inputs, "moved", lambda given, device: given)
    monkeypatch.setattr("harness.discover.load", lambda modules, folder: None)
    return lambda launch: monkeypatch.setattr(
        registry, "implementations", lambda name: [replace(implementation, launch=launch)]
    )


def test_the_watched_process_says_what_it_does(merge, watched, monkeypatch, capsys):
    contract, implementation = merge
    seen = []
    monkeypatch.setattr(inputs, "MOST_BYTES", 10_000)

    def launch(**given):
        seen.append(given)
        if len(seen) == 2:
            raise ValueError("no more")

    watched(launch)
    texts = [repr(case) for case in contract.pinned[:3]]
    _child.main({**vars(lane.Job(contract=contract.name, implementation=implementation.name)), "cases": texts})
    said = stream.parse(capsys.readouterr().out)
    assert said.done
    assert said.cases == [texts[0]]
    assert [case for case, _ in said.raised] == [texts[1]]
    assert said.left_out[0][0] == texts[2]
    assert re.fullmatch(r"its arguments take \d+\.\d MiB, under a tool there are 0\.0 MiB", said.left_out[0][1])


def test_a_case_that_fits_runs_in_place_of_one_that_is_too_large(merge, watched, monkeypatch, capsys):
    contract, implementation = merge
    asked = vars(lane.Job(contract=contract.name, implementation=implementation.name))
    wanted = choice.of_job(contract, implementation, asked)
    spare = list(choice.instead(contract, implementation, asked))
    assert 0 < len(spare) <= choice.SPARE
    assert not {repr(case) for case in spare} & {repr(case) for case in wanted}
    watched(lambda **given: None)
    refused = iter([True, False, True, True])
    monkeypatch.setattr(copies, "storage_bytes", lambda given: inputs.MOST_BYTES + int(next(refused, False)))
    _child.main({**asked})
    said = stream.parse(capsys.readouterr().out)
    assert [case for case, _ in said.left_out] == [repr(wanted[number]) for number in (0, 2, 3)]
    assert said.cases == [repr(case) for case in (wanted[1], *wanted[4:], *spare[:3])]


def test_nothing_runs_in_place_of_a_case_that_was_asked_for(merge, watched, monkeypatch, capsys):
    contract, implementation = merge
    watched(lambda **given: None)
    monkeypatch.setattr(inputs, "MOST_BYTES", -1)
    named = (repr(contract.pinned[0]),)
    asked = vars(lane.Job(contract=contract.name, implementation=implementation.name, cases=named))
    _child.main({**asked})
    said = stream.parse(capsys.readouterr().out)
    assert ([case for case, _ in said.left_out], said.cases) == (list(named), [])
    # where nothing fits, no more than a few are tried
    _child.main({**asked, "cases": ()})
    said = stream.parse(capsys.readouterr().out)
    assert (len(said.left_out), said.cases) == (lane.PINNED + lane.DRAWN + choice.SPARE, [])
    assert not judge.judge("memcheck", said).idle


def test_a_watched_process_ends_soon_after_whoever_waits_for_it():
    code = (
        "import time; from harness.memcheck import _child; _child._LOOK_SECONDS = 0.05; "
        "_child.end_with({}); time.sleep(30)"
    )
    gone = subprocess.Popen(["true"])
    gone.wait()
    began = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", code.format(gone.pid)], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert ended.returncode == 1
    assert time.monotonic() - began < 25


def test_recordings_are_of_this_lanes_plants():
    names = {json.loads(line[len(stream.MARK) :])["kind"] for line in recorded("memcheck-clean").splitlines() if
             line.startswith(stream.MARK)}  # fmt: skip
    assert names == {"case", "end", "done"}
