"""Suites like Triton's tutorials run unchanged and clean; with a bug planted, the one right test fails and says why."""

import shutil

import pytest

from tests.sanitize.conftest import run_suite
from tests.sanitize.planted import PLANTED, SUITES

NAMES = sorted(path.stem for path in SUITES.glob("*.py"))


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clean")
    for name in NAMES:
        shutil.copy(SUITES / f"{name}.py", folder / f"test_{name}.py")
    return run_suite(folder, "--strict", arguments=("-W", "error"))


@pytest.fixture(scope="module")
def buggy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("buggy")
    for bug in PLANTED:
        bug.write(folder)
    return run_suite(folder, "--loop-seconds", "10")


def test_clean_suites_pass_without_an_alarm(clean):
    assert clean.status == 0, clean.out
    assert clean.failed == set()
    assert {name.split("::")[0] for name in clean.tests} == {f"test_{name}" for name in NAMES}
    assert "0 kernel faults" in clean.out
    assert not any(word in clean.out for word in ("UNTRUSTED", "UNSUPPORTED", "warning"))


def test_every_suite_has_a_bug():
    assert sorted(bug.suite for bug in PLANTED) == NAMES


@pytest.mark.parametrize("bug", PLANTED, ids=str)
def test_a_bug_fails_one_test_with_its_place(buggy, bug):
    failed = {name: text for name, text in buggy.tests.items() if text and name.startswith(f"test_{bug.suite}::")}
    assert set(failed) == {f"test_{bug.suite}::{bug.test}"}
    missing = [part for part in bug.message if part not in failed[f"test_{bug.suite}::{bug.test}"]]
    assert missing == []


def test_the_summary_counts_faults_by_kernel_and_line(buggy):
    assert buggy.status == 1
    assert f"{len(PLANTED)} kernel faults" in buggy.out
    assert "_dropout (test_dropout.py:13): 1 time, first in test_dropout.py::test_mask: out of bounds" in buggy.out
