"""A known failure needs an issue, excuses only what it matches, and is noticed when it is gone."""

import pytest

from harness.known import Known, Ledger


def known(check="oracle:*", kind="tolerated", match=lambda case: case == "bad"):
    return Known(match=match, issue="#41", check=check, kind=kind)


@pytest.mark.parametrize("issue", ["", "  "])
def test_issue_is_required(issue):
    with pytest.raises(ValueError, match="issue reference"):
        Known(match=bool, issue=issue)


def test_check_is_a_pattern_of_ids():
    ledger = Ledger((known(),))
    assert ledger.tolerates("oracle:lse", "bad")
    assert not ledger.tolerates("oracle:lse", "good")
    assert not ledger.tolerates("shape", "bad")


def test_quarantine_keeps_a_case_from_running_and_tolerates_nothing():
    ledger = Ledger((known(kind="quarantine"),))
    assert ledger.quarantines("bad")
    assert not ledger.quarantines("good")
    assert not ledger.tolerates("oracle:lse", "bad")


@pytest.mark.parametrize(
    ("failed", "stale"), [([[]], True), ([["shape"]], True), ([["oracle:lse"]], False), ([[], ["oracle:out"]], False)]
)
def test_stale_is_what_every_matching_case_passes(failed, stale):
    ledger = Ledger((known(),))
    for checks in failed:
        ledger.note("bad", checks)
    assert bool(ledger.stale()) == stale


def test_failure_that_no_case_matched_is_not_stale():
    ledger = Ledger((known(),))
    ledger.note("good", [])
    assert ledger.stale() == []


def test_tolerated_failures_are_listed_with_their_issues():
    ledger = Ledger((known(),))
    ledger.note("bad", ["oracle:lse", "shape"])
    assert ledger.tolerated == {"oracle:lse": {"#41"}}


def test_illegal_calls_are_matched_by_check_alone():
    def never(case):
        raise AssertionError("an illegal call has no case")

    ledger = Ledger((known(check="rejects:rank*", match=never),))
    assert ledger.tolerates_illegal("rejects:rank of q")
    assert not ledger.tolerates_illegal("rejects:dtype of q")
    ledger.note_illegal([])
    assert len(ledger.stale()) == 1
