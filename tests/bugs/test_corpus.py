"""The corpus is as large as it says, and every entry of it can be found and run again."""

import re

import pytest

from harness import cases, registry
from tests.bugs import running
from tests.bugs.corpus import ENTRIES, FAMILIES, ONE_FAULT, cases_of, in_source, listing, table
from tests.bugs.entry import Bug
from tests.bugs.running import Made

#: Distinct reports that the corpus must hold as a fault in the source of kernels, wrappers and policies.
LEAST = 80
#: Of these, reports whose fault is one that the mutation engine makes.
LEAST_MADE = 20


def test_there_are_enough_reports_and_no_family_is_empty():
    assert len({entry.number for entry in ENTRIES if in_source(entry)}) >= LEAST
    assert list(FAMILIES) == list("abcdefghij")
    assert all(entries for _, entries in FAMILIES.values())


def test_faults_that_the_engine_makes_are_found_as_one_mutant_each():
    made = [entry for entry in ENTRIES if isinstance(entry.fault, Made)]
    assert len({entry.number for entry in made}) >= LEAST_MADE
    for entry in made:
        mutant = entry.fault.mutant
        assert (mutant.file, mutant.operator) == (entry.fault.file, entry.fault.operator)
        assert mutant.source != mutant.original


def test_a_mutant_is_found_wherever_its_function_stands_and_not_where_there_are_two(monkeypatch):
    fault = next(entry.fault for entry in ENTRIES if isinstance(entry.fault, Made))
    text = (running.ROOT / fault.file).read_text()
    moved = [running.Module("m", fault.file, f"# {text[:9]!r}\n\n{text}")]
    monkeypatch.setattr(running, "_made", lambda file, dotted, operator: running.mutants(moved, [operator]))
    assert fault.mutant.line > 0
    monkeypatch.setattr(running, "_made", lambda file, dotted, operator: 2 * running.mutants(moved, [operator]))
    with pytest.raises(AssertionError, match="2 mutants"):
        assert fault.mutant
    monkeypatch.setattr(running, "_made", lambda file, dotted, operator: [])
    with pytest.raises(AssertionError, match="0 mutants"):
        assert fault.mutant


def test_every_report_is_of_one_family_and_has_one_link():
    links = {}
    for letter, (_, entries) in FAMILIES.items():
        for entry in entries:
            assert re.fullmatch(r"B\d{3}", entry.number), entry
            assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", entry.link), entry
            assert links.setdefault(entry.number, (letter, entry.link)) == (letter, entry.link), entry


def test_no_two_entries_are_the_same():
    entries = {(entry.number, getattr(entry, "contract", ""), entry.check) for entry in ENTRIES}
    assert len(entries) == len(ENTRIES)


def test_two_reports_have_one_fault_only_where_the_corpus_says_so():
    reports = {}
    for entry in ENTRIES:
        reports.setdefault(entry.fault, set()).add(entry.number)
    shared = {tuple(sorted(numbers)) for numbers in reports.values() if len(numbers) > 1}
    assert shared == set(ONE_FAULT)


def test_every_case_is_read_back_as_it_is_printed():
    registry.load(installed=False)
    for bug in ENTRIES:
        if isinstance(bug, Bug):
            contract = registry.contract(bug.contract)
            assert all(cases.parse(contract, repr(case)) == case for case in cases_of(bug)), bug


def test_the_table_and_the_list_show_every_family_and_report():
    lines = list(table())
    assert len(lines) == len(FAMILIES) + 2
    assert {line.split()[0] for line in listing() if line.startswith("B")} == {entry.number for entry in ENTRIES}
