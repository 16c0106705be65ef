"""Every fault planted in the merging of parts of a search is killed by the test that names it."""

import pytest

from tests.teeth.swapping import swapped
from tests.unit import test_spread

FAULTS = {
    "a pattern is met by itself only": (
        "        if own and fnmatchcase(other.check, record.check) and issues(record.note) <= issues(other.note):\n",
        "        if own and other.check == record.check and issues(record.note) <= issues(other.note):\n",
        "a_pattern_is_met_by_a_check_that_it_matches",
    ),
    "a part that passed met a known failure": (
        "    verdicts = {part.verdict for part in parts}\n",
        "    verdicts = {part.verdict for part in parts} - {Verdict.STALE} or {Verdict.STALE}\n",
        "a_known_failure_that_others_only_pass_or_do_not_look_for_is_stale",
    ),
    "parts have the seeds of other runs": (
        "seed=job.seed + part * APART,",
        "seed=job.seed + part,",
        "runs_with_other_seeds_share_no_part",
    ),
    "a part is its own witness": (
        "if place != number])",
        "if place >= 0])",
        "a_known_failure_that_others_only_pass_or_do_not_look_for_is_stale",
    ),
    "any issue will do": (
        "issues(record.note) <= issues(other.note)",
        "issues(other.note)",
        "a_known_failure_that_others_only_pass_or_do_not_look_for_is_stale",
    ),
    "another implementation is a witness": (
        "own = (other.contract, other.implementation) == (record.contract, record.implementation)",
        "own = other.contract == record.contract",
        "a_pattern_is_met_by_a_check_that_it_matches",
    ),
    "every part must meet it": (
        "        if settled is not None:\n",
        "        settled = settled or record\n        if settled is not None:\n",
        "a_pattern_is_met_by_a_check_that_it_matches",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_named_test_kills(name):
    old, new, test = FAULTS[name]
    with swapped("harness.spread", old, new), pytest.raises(AssertionError):
        getattr(test_spread, f"test_{test}")()
