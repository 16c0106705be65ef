"""Every fault planted in the proofs that two programs are the same is killed by the test that names it."""

import pytest

from tests.teeth.swapping import swapped
from tests.unit import test_mutation_canonical as canonical
from tests.unit import test_mutation_dead_lanes as lanes

SAME, LANES, NUMBERS = (f"harness.mutation.{name}" for name in ("canonical", "dead_lanes", "lane_numbers"))
FAULTS = {
    "every choice is one of zero": (
        SAME,
        "if zero is None or not _ZERO.match(zero.text):",
        "if zero is None:",
        canonical.test_an_exact_conversion_may_change_places_with_a_choice_of_zero,
    ),
    "both results of a split are one value": (
        SAME,
        'self.names[result] = f"{name}.{place}"',
        'self.names[result] = f"{name}.{len(results)}"',
        canonical.test_results_with_names_of_their_own_are_told_apart,
    ),
    "signs are not kept": (
        SAME,
        "found = _signed(values[0], int(before[1])).astype(np.uint64)",
        "found = values[0]",
        canonical.test_numbers_are_the_same_where_all_contents_of_a_byte_give_the_same,
    ),
    "tables are of one content": (
        SAME,
        "np.arange(1 << int(bits[1]), dtype=np.uint64)",
        "np.zeros(1, np.uint64)",
        canonical.test_numbers_are_the_same_where_all_contents_of_a_byte_give_the_same,
    ),
    "operands do not count": (
        SAME,
        "made = _digest(op.text, *op.operands)",
        "made = _digest(op.text)",
        lambda: canonical.test_whatever_changes_an_effect_shows(
            canonical._SUM, canonical._SUM.replace("%acc, %w", "%w, %w")
        ),
    ),
    "a mask of a turn is that of every turn": (
        LANES,
        'f"{m} of before" if m in inside else m',
        "m",
        lambda: lanes.test_lanes_on_which_something_depends_are_not_dead("mask of another turn", lanes.X, ""),
    ),
    "what a turn hands on is clean": (
        LANES,
        "            joined = [old | new for old, new in zip(carried, after, strict=True)]\n"
        "            if joined == carried:\n                break\n            carried = joined\n"
        "        for name, start",
        "            break\n        for name, start",
        lambda: lanes.test_lanes_on_which_something_depends_are_not_dead("mask of another turn", lanes.X, ""),
    ),
    "every value is negative in no lane": (
        NUMBERS,
        "elif right in self.natural and max(numbers) < 0:",
        "elif max(numbers) < 0:",
        lanes.test_a_negative_number_is_no_number_of_a_program,
    ),
    "no number is too large": (
        NUMBERS,
        "elif right in self.natural and max(numbers) < 0:",
        "elif right in self.natural:",
        lanes.test_a_negative_number_is_no_number_of_a_program,
    ),
    "programs may have negative numbers": (
        NUMBERS,
        '            if self._is_natural(op, name):\n',
        '            if op.name == "" and self._is_natural(op, name):\n',
        lanes.test_a_negative_number_is_no_number_of_a_program,
    ),
    "a name keeps the constant that it had": (
        NUMBERS,
        "            self.constants.pop(name, None)\n",
        "",
        lanes.test_a_name_is_what_it_was_given_last,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_named_test_kills(name):
    module, old, new, test = FAULTS[name]
    with swapped(module, old, new), pytest.raises(AssertionError):
        test()
