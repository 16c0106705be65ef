"""The four forms of one run."""

import json
import shlex
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from harness.report import jsonl, junit, markdown, table
from harness.report.records import FaultRecord, Record, Verdict
from harness.report.summary import Summary

FAULT = FaultRecord(
    check="oracle:out",
    case="Case(num_rows=2, name='it''s')",
    message="out: 2 of 8 elements break 'row budget'\nfirst at (0, 1)\x00",
    features=("bfloat16", "several rows"),
)


def record(check, verdict, **details):
    common = {"contract": "toy", "implementation": "triton", "examples": 7, "seconds": 1.5}
    return Record(check=check, verdict=verdict, **common, **details)


def summary(*records, **details):
    return Summary(records=records, environment={"torch": "2.13.0", "seed": "0"}, seconds=12.4, **details)


PASSED = record("inputs", Verdict.PASS)
FAILED = record("oracle:out", Verdict.FAIL, faults=(FAULT,))
KNOWN = record("repeat", Verdict.KNOWN, note="#41", faults=(FAULT,))
CRASHED = record("process", Verdict.CRASH, note="SIGSEGV after Case(num_rows=3)")
MIXED = summary(PASSED, FAILED, KNOWN, CRASHED, options=("--module", "acme"))


def test_a_run_is_good_only_if_something_ran_and_all_of_it_passed():
    assert summary(PASSED, KNOWN).good
    assert not summary().good
    for verdict in (Verdict.FAIL, Verdict.STALE, Verdict.UNTRUSTED, Verdict.CRASH, Verdict.TIMEOUT):
        assert not summary(PASSED, record("memory", verdict)).good


@pytest.mark.parametrize(
    ("records", "headline"),
    [
        ((PASSED,), "1 implementation, 1 check: all pass (12 s)"),
        ((PASSED, FAILED), "1 implementation, 2 checks: 1 fault in 1 implementation (12 s)"),
        ((FAILED, CRASHED), "1 implementation, 2 checks: 1 fault, CRASH in 1 implementation (12 s)"),
        ((record("memory", Verdict.UNTRUSTED),), "1 implementation, 1 check: UNTRUSTED in 1 implementation (12 s)"),
    ],
)
def test_the_headline_counts_what_is_wrong(records, headline):
    assert summary(*records).headline() == headline


@pytest.mark.parametrize(
    "case",
    [FAULT.case, "Case()", "Case(a='b c')", """Case(a='"')""", "Case(a='$HOME `x` !! \\\\')", 'Case(a="it\'s")'],
)
def test_a_replay_command_survives_a_shell(case):
    command = MIXED.replay(FAILED, replace(FAULT, case=case))
    assert shlex.split(command) == [
        "python", "-m", "harness", "case", "toy", case, "--impl", "triton", "--module", "acme"
    ]  # fmt: skip


def test_illegal_calls_share_a_line_and_a_section():
    def refusal(label, verdict):
        check = f"rejects:{label}"
        faults = (replace(FAULT, check=check, case="Rejection()", message=f"{label} accepted silently"),)
        return record(check, verdict, faults=faults if verdict is Verdict.FAIL else ())

    calls = [refusal("rank", Verdict.FAIL), refusal("dtype", Verdict.PASS), refusal("shape", Verdict.FAIL)]
    text = table.render(summary(PASSED, *calls))
    assert [line.split()[:5] for line in text.splitlines()[2:4]] == [
        ["rejects:", "1", "illegal", "calls", "PASS"],
        ["rejects:", "2", "illegal", "calls", "FAIL"],
    ]
    for shown in (text, markdown.render(summary(PASSED, *calls))):
        assert "rank accepted silently" in shown
        assert "shape accepted silently" in shown


def test_the_table_has_a_line_a_check_and_every_fault_with_its_replay():
    text = table.render(MIXED)
    lines = text.splitlines()
    assert lines[0].split() == ["contract", "implementation", "check", "verdict", "examples", "seconds"]
    assert lines[1].split() == ["toy", "triton", "inputs", "PASS", "7", "1.5"]
    assert lines[2].split() == ["oracle:out", "FAIL", "7"]
    assert "FAIL toy triton oracle:out  [bfloat16, several rows]" in lines
    assert MIXED.replay(FAILED, FAULT) in text
    assert "CRASH toy triton process: SIGSEGV after Case(num_rows=3)" in lines
    assert lines[-1] == MIXED.headline()


def test_json_lines_read_back_equal():
    text = jsonl.render(MIXED)
    assert all(json.loads(line) for line in text.splitlines())
    assert jsonl.parse(text.splitlines()) == MIXED


def test_json_lines_of_another_format_are_refused():
    with pytest.raises(ValueError, match="format 99"):
        jsonl.parse(['{"format": 99}'])


def test_junit_counts_failures_errors_and_known_failures_apart():
    root = ElementTree.fromstring(junit.render(MIXED))
    suite = root.find("testsuite")
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "1", "errors": "1", "skipped": "1"
    }  # fmt: skip
    failure = suite.find("testcase[@name='oracle:out']/failure")
    assert failure.get("message") == "out: 2 of 8 elements break 'row budget'"
    assert MIXED.replay(FAILED, FAULT) in failure.text


def test_the_page_states_the_result_first_and_every_fault_with_its_replay():
    text = markdown.render(MIXED)
    assert text.splitlines()[2] == f"**{MIXED.headline()}**"
    assert "| toy | triton | FAIL, CRASH | 2 of 4 | 7 | 1.5 |" in text
    assert MIXED.replay(FAILED, FAULT) in text
    assert "Made with torch 2.13.0, seed 0." in text


def test_a_page_of_passes_has_no_fault_section():
    assert "## " not in markdown.render(summary(PASSED))
