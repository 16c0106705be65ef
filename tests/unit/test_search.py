"""A search tells faults apart, shrinks each, repeats itself, and knows what is known."""

from dataclasses import replace

import pytest
import torch

from harness.known import Known
from harness.lanes import Busy, NoRoom
from harness.report.records import Record, Verdict
from harness.search import search
from tests.unit.pooling import CASE, CONTRACT, REJECTING, RIGHT, Case, PlainLane, implementation, pooled


def hunt(subject, contract=CONTRACT, lane=None, **options):
    return search(contract, subject, lane=lane or PlainLane(), **{"examples": 10, **options})


def found(report):
    return {(fault.check, fault.features) for fault in report.faults}


def three_lse_faults(**inputs):
    """Add the sink to the lse, hide NaN from it, and shift it where half is set."""
    outputs = pooled(**inputs)
    lse = outputs["lse"] if inputs["sink"] is None else torch.logaddexp(outputs["lse"], inputs["sink"])
    if outputs["out"].isnan().any():
        lse = torch.zeros_like(lse)
    return {**outputs, "lse": lse + inputs["half"]}


@pytest.mark.parametrize("seed", range(3))
def test_three_faults_of_one_check_come_out_separately_and_small_in_every_run(seed):
    report = hunt(implementation(three_lse_faults), seed=seed)
    assert found(report) == {("oracle:lse", frozenset({name})) for name in ("sink", "nan", "half")}
    assert {len(fault.case.rows) for fault in report.faults} == {1}
    assert report.checks["oracle:lse"].verdict is Verdict.FAIL
    assert report.checks["oracle:out"].verdict is Verdict.PASS


def test_equal_arguments_find_equal_faults():
    reports = [hunt(implementation(sink_fault), seed=5, examples=5) for _ in range(2)]
    assert reports[0].faults == reports[1].faults
    assert reports[0].cases == reports[1].cases


def test_right_implementation_passes_every_check_on_as_many_cases_as_asked():
    report = hunt(RIGHT, examples=30)
    assert report.faults == []
    assert {stat.verdict for stat in report.checks.values()} == {Verdict.PASS}
    assert report.cases >= 30
    assert report.checks["oracle:out"].examples == report.cases


def test_every_feature_runs_even_if_it_is_rare():
    rare = replace(CONTRACT, features=lambda case: frozenset({f"seed {case.seed % 12}"}))
    seen = set()

    def progress(phase, case, done):
        seen.update(rare.features(eval(case, {"Case": Case})) if case else ())

    hunt(RIGHT, rare, examples=4, progress=progress)
    assert seen == {f"seed {number}" for number in range(12)}


def test_fault_of_every_case_has_no_features():
    def doubled(**inputs):
        outputs = pooled(**inputs)
        return {**outputs, "out": outputs["out"] * 2 + 1}

    assert found(hunt(implementation(doubled))) == {("oracle:out", frozenset())}


def raises_on_many_features(**inputs):
    if inputs["sink"] is not None or inputs["half"]:
        raise IndexError("always the same line")
    return pooled(**inputs)


def test_exceptions_from_one_line_are_one_fault():
    (fault,) = hunt(implementation(raises_on_many_features)).faults
    assert (fault.check, len(fault.features)) == ("raises", 1)
    assert "always the same line" in fault.message


def test_content_of_one_region_is_one_fault_whatever_else_the_cases_have():
    def adds_scores(**inputs):
        outputs = pooled(**inputs)
        return {**outputs, "lse": outputs["lse"] + 0 * inputs["scores"].sum(dim=1)}

    (fault,) = hunt(implementation(adds_scores)).faults
    assert (fault.check, fault.features) == ("poison:scores of invalid slots", frozenset({"invalid"}))


def test_illegal_calls_are_part_of_a_search():
    (fault,) = hunt(RIGHT, REJECTING).faults
    assert fault.check == "rejects:indices rank"
    assert fault.case.startswith("Rejection(label='indices rank', argument='indices'")


def test_pinned_cases_run_first_and_can_be_left_out():
    order = []
    pinned = replace(CONTRACT, pinned=(CASE,))

    def note(phase, case, done):
        order.append(phase)

    hunt(RIGHT, pinned, progress=note)
    assert order[:2] == ["rejects", "pinned"]
    order.clear()
    hunt(RIGHT, pinned, progress=note, pinned=False)
    assert "pinned" not in order


def test_fault_that_only_another_configuration_has_is_shrunk_with_it():
    lane = PlainLane(configs=5)

    def wrong_in_the_fourth(**inputs):
        outputs = pooled(**inputs)
        return {**outputs, "lse": outputs["lse"] + (lane.current_config == 3)}

    (fault,) = hunt(implementation(wrong_in_the_fourth), lane=lane, examples=40).faults
    assert (fault.check, len(fault.case.rows)) == ("oracle:lse", 1)
    assert "[configuration 3 of 5]" in fault.message


SINK = Known(match=lambda case: case.sink, check="oracle:lse", issue="#41")


def sink_fault(**inputs):
    outputs = pooled(**inputs)
    return outputs if inputs["sink"] is None else {**outputs, "lse": outputs["lse"] + 1}


def test_known_failure_does_not_count():
    report = hunt(implementation(sink_fault, known=(SINK,)))
    assert report.faults == []
    assert (report.checks["oracle:lse"].verdict, report.checks["oracle:lse"].note) == (Verdict.KNOWN, "known: #41")


def test_known_failure_excuses_nothing_else():
    report = hunt(implementation(three_lse_faults, known=(SINK,)))
    assert found(report) == {("oracle:lse", frozenset({name})) for name in ("nan", "half")}


def test_known_failure_that_is_gone_is_stale():
    report = hunt(implementation(pooled, known=(SINK,)))
    assert report.checks["oracle:lse"].verdict is Verdict.STALE
    assert "#41 is over" in report.checks["oracle:lse"].note


def test_quarantined_cases_never_run():
    def lethal(**inputs):
        if inputs["sink"] is not None:
            raise KeyboardInterrupt
        return pooled(**inputs)

    report = hunt(implementation(lethal, known=(replace(SINK, kind="quarantine", check="*"),)), examples=5)
    assert report.faults == []
    assert report.cases >= 5


def test_untrusted_operation_leaves_no_check_green():
    report = hunt(RIGHT, lane=PlainLane(untrusted=frozenset({"tl.histogram"})))
    assert {stat.verdict for stat in report.checks.values()} == {Verdict.UNTRUSTED}
    assert "tl.histogram" in report.checks["memory"].note


def test_deadline_ends_a_search_and_says_so():
    report = hunt(RIGHT, deadline=0.0)
    assert report.checks["search"].verdict is Verdict.TIMEOUT
    assert report.cases == 0


class CrampedLane(PlainLane):
    """Has room for cases of so many rows, and raises ``once`` for the third case only."""

    most_rows, once, asked = 12, None, 0

    def room(self, contract, case):
        self.asked += 1
        if self.once is not None and self.asked == 3:
            raise self.once
        if len(case.rows) > self.most_rows:
            raise NoRoom(f"needs {len(case.rows)} rows")
        return super().room(contract, case)


def cramped(**attributes):
    lane = CrampedLane()
    vars(lane).update(attributes)
    return lane


def test_search_without_room_for_any_case_is_untrusted_and_says_why():
    report = hunt(RIGHT, REJECTING, lane=cramped(most_rows=0))
    assert report.cases == 0
    assert (report.checks["search"].verdict, report.checks["search"].examples) == (Verdict.UNTRUSTED, 0)
    assert report.checks["search"].note.startswith("no case ran; no room for cases: needs ")


def test_cases_without_room_do_not_count_as_run():
    lane = cramped(most_rows=2)
    report = hunt(RIGHT, lane=lane, examples=30)
    assert 0 < report.cases == report.checks["oracle:out"].examples < lane.asked
    assert report.checks["search"].verdict is Verdict.PASS
    assert "no room for cases: needs " in report.checks["search"].note


def test_cases_without_room_make_no_known_failure_stale():
    subject = implementation(pooled, known=(replace(SINK, match=lambda case: len(case.rows) > 2),))
    report = hunt(subject, lane=cramped(most_rows=2), examples=30)
    assert Verdict.STALE not in {stat.verdict for stat in report.checks.values()}


@pytest.mark.parametrize("error", [Busy("others hold it"), MemoryError("full")])
def test_what_keeps_a_case_from_running_once_is_not_forgotten(error):
    with pytest.raises(type(error), match=str(error)):
        hunt(RIGHT, lane=cramped(once=error))


def test_state_kept_between_launches_is_still_a_fault():
    launches = []

    def forgetful(**inputs):
        launches.append(None)
        outputs = pooled(**inputs)
        return {**outputs, "out": outputs["out"] * 3} if len(launches) % 7 == 0 else outputs

    plain = replace(CONTRACT, features=lambda case: frozenset())
    assert hunt(implementation(forgetful), plain, examples=5, shrink_seconds=2.0).faults


def test_records_are_plain_data():
    report = hunt(implementation(three_lse_faults), examples=5)
    records = report.records()
    assert [Record.from_dict(record.to_dict()) for record in records] == records
    (lse,) = [record for record in records if record.check == "oracle:lse"]
    assert lse.faults
    assert all(fault.case.startswith("Case(rows=") for fault in lse.faults)
