"""What kills one child costs that one: it gets a verdict with its last case, and the others go on."""

import io
import json
import os
import sys
import time

import pytest
import torch

from harness import _child, isolate
from harness.lanes import ContextLost
from harness.outcome import ContractError
from harness.report.records import Verdict

#: Longer than a case takes on a busy machine.
SILENCE = 8.0


def job(name, **options):
    return isolate.Job(
        contract="victims", implementation=name, modules=("tests.unit.victims",), **{"examples": 5, **options}
    )


def verdicts(records):
    return {(record.implementation, record.verdict) for record in records}


@pytest.fixture(scope="module")
def outcome():
    """Records and events of one run over every victim."""
    events, done = [], []
    names = ["exits", "right", "segfaults", "out-of-memory", "lost", "hangs", "faulty", "unknown"]
    records = isolate.run(
        [job(name) for name in names],
        children=2,
        silence=SILENCE,
        on_progress=events.append,
        on_done=lambda job, records: done.append(job.implementation),
    )
    return records, events, done


def of(outcome, name):
    return [record for record in outcome[0] if record.implementation == name]


def test_records_come_in_the_order_of_the_jobs_and_every_job_is_done(outcome):
    records, _, done = outcome
    order = list(dict.fromkeys(record.implementation for record in records))
    assert order == ["exits", "right", "segfaults", "out-of-memory", "lost", "hangs", "faulty", "unknown"]
    assert sorted(done) == sorted(order)


def test_right_implementation_passes_beside_the_victims(outcome):
    assert {record.verdict for record in of(outcome, "right")} == {Verdict.PASS}


def test_fault_comes_back_whole(outcome):
    (lse,) = [record for record in of(outcome, "faulty") if record.check == "oracle:lse"]
    assert lse.verdict is Verdict.FAIL
    assert lse.faults[0].case.startswith("Case(rows=")


@pytest.mark.parametrize(
    ("name", "verdict", "said"),
    [
        ("exits", Verdict.CRASH, "exited with status 3"),
        ("segfaults", Verdict.CRASH, "killed by SIGSEGV"),
        ("out-of-memory", Verdict.OOM, "out of memory"),
        ("lost", Verdict.STICKY_ERROR, "an illegal memory access was encountered"),
    ],
)
def test_death_of_a_child_has_its_verdict_on_its_last_case(outcome, name, verdict, said):
    (record,) = of(outcome, name)
    assert (record.check, record.verdict) == ("process", verdict)
    assert said in record.note
    assert record.faults[0].case.startswith("Case(rows=")


@pytest.mark.parametrize(
    ("error", "verdict", "said"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8 TiB"), Verdict.OOM, "Tried to allocate 8 TiB"),
        (ContractError("inputs failed: CUDA error: out of memory"), Verdict.OOM, "CUDA error: out of memory"),
        (MemoryError(), Verdict.OOM, "out of memory"),
        (ContextLost("CUDA error: out of memory; the GPU context is lost"), Verdict.STICKY_ERROR, "is lost"),
        (RuntimeError("CUDA error: misaligned address"), Verdict.CRASH, "misaligned address"),
        (ContractError("capturable cases of x"), Verdict.CONTRACT, "contract pooling: capturable cases of x"),
        (ContractError("contract pooling (here): no", contract="pooling"), Verdict.CONTRACT, "contract pooling (here)"),
        (SystemExit(3), Verdict.CRASH, "SystemExit: 3 (test_isolate.py:"),
    ],
)
def test_exception_outside_of_a_launch_has_its_verdict(error, verdict, said, monkeypatch):
    def search(job, send):
        raise error

    reading, writing = os.pipe()
    monkeypatch.setattr(_child, "_search", search)
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"contract": "pooling"}'))
    _child.main(writing)
    os.close(writing)
    with open(reading, "rb") as said_by_child:
        _, failure = map(json.loads, said_by_child)
    assert (failure["kind"], failure["verdict"]) == ("failure", verdict)
    assert said in failure["message"]


@pytest.mark.parametrize("name", ["segfaults", "hangs"])
def test_sudden_end_shows_the_python_line(outcome, name):
    (record,) = of(outcome, name)
    assert "victims.py" in record.faults[0].message


def test_hang_is_a_timeout_on_its_last_case(outcome):
    (record,) = of(outcome, "hangs")
    assert (record.check, record.verdict) == ("process", Verdict.TIMEOUT)
    assert f"no progress for {SILENCE:.0f} s" in record.note
    assert record.faults[0].case.startswith("Case(rows=")


def test_a_child_that_imports_may_say_nothing_for_longer():
    child = isolate._Child(
        job=job("right"), process=None, pipe=0, output=None, deadline=600.0, silence=SILENCE, started=0.0, heard=1.0,
        last=isolate.Progress(job=job("right"), phase="load", case="", done=0),
    )  # fmt: skip
    assert child.due() == 1.0 + isolate.LOAD_SECONDS
    child.last = isolate.Progress(job=job("right"), phase="rejects", case="", done=0)
    assert child.due() == 1.0 + SILENCE


def test_child_that_cannot_start_says_why(outcome):
    (record,) = of(outcome, "unknown")
    assert record.verdict is Verdict.CRASH
    assert "no implementation 'unknown' of victims is registered" in record.note
    assert record.faults == ()


def test_progress_names_phases_and_cases(outcome):
    _, events, _ = outcome
    assert {"load", "rejects", "search"} <= {event.phase for event in events}
    assert any(event.case.startswith("Case(") and event.job.implementation == "right" for event in events)


def test_faults_found_before_a_crash_are_kept():
    records = isolate.run([job("faulty-then-exits", examples=30)])
    assert {record.check: record.verdict for record in records} == {
        "oracle:lse": Verdict.FAIL,
        "process": Verdict.CRASH,
    }


def test_deadline_ends_a_child_that_makes_progress():
    began = time.monotonic()
    records = isolate.run([job("hangs")], deadline=4.0)
    assert time.monotonic() - began < 30
    assert verdicts(records) == {("hangs", Verdict.TIMEOUT)}
    assert "not done after 4 s" in records[0].note


def test_no_child_outlives_an_interrupted_run():
    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        isolate.run([job("hangs")], on_progress=interrupt)


def test_nothing_to_do_is_nothing():
    assert isolate.run([]) == []
