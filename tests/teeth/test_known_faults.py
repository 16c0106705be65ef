"""A suite that forgets the file of ``--known``, or a part of it, is found by the check that names it."""

import pytest

from tests.teeth.swapping import swapped
from tests.unit import known_checks

FORGETS = "excused = known_file.excused_by({}, implementation, contract)"


def test_graphs_that_forget_the_file_are_found():
    fault = "harness.suites.test_graphs", FORGETS.format("request.config"), "excused = implementation"
    with swapped(*fault), pytest.raises(AssertionError):
        known_checks.graphs_are_checked_with_what_the_file_excuses()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (FORGETS.format("config"), "excused = implementation"),
        ('known=str(known.resolve()) if (known := config.getoption("known")) else "",', ""),
    ],
    ids=["judgement", "cases"],
)
def test_tools_that_forget_the_file_are_found(old, new, tmp_path):
    with swapped("harness.suites.test_memcheck", old, new), pytest.raises(AssertionError):
        known_checks.tools_are_told_what_the_file_excuses(tmp_path)
