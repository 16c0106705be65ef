"""A search spread over children draws as many cases as one, and reports like one."""

from dataclasses import replace

from harness.isolate import Job
from harness.known import note_met, note_over
from harness.report.records import FaultRecord, Record, Verdict
from harness.spread import merged, spread

JOB = Job(contract="scatter", implementation="auto", modules=(), folder=".", examples=50, seed=3)
PASS = Record(contract="scatter", implementation="auto", check="oracle:out", verdict=Verdict.PASS, examples=5)
KNOWN = replace(PASS, verdict=Verdict.KNOWN, note=note_met(["#41"]))
STALE = replace(PASS, verdict=Verdict.STALE, note=note_over("#41"))
FAULT = FaultRecord(check="oracle:out", case="Case(n=1)", message="row 0")


def test_implementations_share_the_cases_of_their_contract():
    jobs = [JOB, replace(JOB, implementation="other"), replace(JOB, contract="merge")]
    parts = spread(jobs, 1000, 4)
    drawn = {}
    for part in parts:
        drawn[part.contract] = drawn.get(part.contract, 0) + part.examples
    assert drawn == {"scatter": 1000, "merge": 1000}
    assert sum(part.contract == "merge" for part in parts) == 4


def test_parts_have_seeds_of_their_own_and_one_has_the_pinned_cases():
    parts = spread([JOB], 1000, 4)
    assert parts[0].seed == 3
    assert len({part.seed for part in parts}) == 4
    assert [part.pinned for part in parts] == [True, False, False, False]
    assert not any(part.pinned for part in spread([replace(JOB, pinned=False)], 1000, 2))


def test_runs_with_other_seeds_share_no_part():
    runs = [spread([replace(JOB, seed=seed)], 4000, 16) for seed in range(20)]
    assert len({part.seed for run in runs for part in run}) == sum(map(len, runs))


def test_a_child_is_not_started_for_a_handful_of_cases():
    assert [part.examples for part in spread([JOB], 150, 16)] == [150]


def test_cases_add_up_and_the_worst_verdict_stands():
    found = merged([[PASS], [replace(PASS, verdict=Verdict.FAIL, examples=7, faults=(FAULT,))], [PASS]])
    assert [(one.verdict, one.examples, one.faults) for one in found] == [(Verdict.FAIL, 17, (FAULT,))]


def test_a_fault_that_several_parts_found_is_listed_once():
    failed = replace(PASS, verdict=Verdict.FAIL, faults=(FAULT,))
    assert merged([[failed], [failed]])[0].faults == (FAULT,)


def test_illegal_calls_count_once():
    refused = replace(PASS, check="rejects:no rows", examples=1)
    assert merged([[refused], [refused]])[0].examples == 1


def test_a_known_failure_that_one_part_met_is_not_stale():
    assert _verdicts([STALE], [KNOWN]) == {"oracle:out": Verdict.KNOWN}
    assert _verdicts([STALE], [STALE]) == {"oracle:out": Verdict.STALE}
    assert [one.examples for one in merged([[STALE], [KNOWN]])] == [10]


def test_a_pattern_is_met_by_a_check_that_it_matches():
    for pattern in ("oracle:*", "*"):
        stale = replace(STALE, check=pattern)
        assert _verdicts([stale], [KNOWN], [stale]) == {"oracle:out": Verdict.KNOWN}
        assert _verdicts([stale], [replace(KNOWN, implementation="other")]).get(pattern) is Verdict.STALE
    assert _verdicts([replace(STALE, check="poison:*")], [KNOWN]).get("poison:*") is Verdict.STALE


def test_a_known_failure_that_others_only_pass_or_do_not_look_for_is_stale():
    assert _verdicts([STALE], [PASS]) == {"oracle:out": Verdict.STALE}
    assert _verdicts([PASS], [STALE]) == {"oracle:out": Verdict.STALE}
    stale = replace(STALE, check="oracle:*")
    assert _verdicts([stale, KNOWN]).get("oracle:*") is Verdict.STALE, "it was another that this part met"
    assert _verdicts([stale], [replace(KNOWN, note=note_met(["#4", "#5"]))]).get("oracle:*") is Verdict.STALE
    assert "oracle:*" not in _verdicts([stale], [replace(KNOWN, note=note_met(["#5", "#41"]))])


def _verdicts(*parts):
    return {one.check: one.verdict for one in merged(parts)}
