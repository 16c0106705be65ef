"""Who touched an element is remembered when elements become smaller, and takes no memory where nobody did."""

import os

import numpy as np
import pytest

from harness.vgpu import cells
from tests.teeth.swapping import swapped

PLACES = np.array([0, 5, 16383, 16384, 16385, 1 << 18])


def refined(nbytes, places=PLACES):
    made = cells.Cells(nbytes, 4, cells.Journal())
    made.set("store", places, np.arange(1, len(places) + 1))
    made.refine(1)
    return made.table("store")


def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("nbytes", [(1 << 20) | 6, (1 << 26) | 6], ids=["small", "large"])
def test_smaller_elements_keep_what_is_known_of_the_larger(nbytes):
    table = refined(nbytes)
    where = np.flatnonzero(table[: 1 << 21])
    assert where.tolist() == (PLACES[:, None] * 4 + np.arange(4)).reshape(-1).tolist()
    assert (table[where] == np.repeat(np.arange(1, len(PLACES) + 1), 4)).all()


def test_smaller_elements_of_a_large_storage_take_next_to_no_memory():
    before = held()
    table = refined((1 << 26) + 8)
    assert held() - before < 32 << 20
    assert table[0] == 1


@pytest.mark.parametrize(
    ("old", "new", "test"),
    [
        (
            "if way not in self._touched:",
            "if way:",
            test_smaller_elements_of_a_large_storage_take_next_to_no_memory,
        ),
        (
            "place = number * stretch * ratio",
            "place = number * stretch",
            lambda: test_smaller_elements_keep_what_is_known_of_the_larger((1 << 26) + 8),
        ),
    ],
    ids=["all of it is copied", "stretches move"],
)
def test_a_planted_fault_is_killed(old, new, test):
    with swapped("harness.vgpu.cells", old, new), pytest.raises(AssertionError):
        test()
