"""The corpus is as large as it says, and every entry of it can be found and run again."""

import re

from harness import cases, registry
from tests.bugs.corpus import ENTRIES, FAMILIES, ONE_FAULT, cases_of, in_source, listing, table
from tests.bugs.entry import Bug

#: Distinct reports that the corpus must hold as a fault in the source of kernels, wrappers and policies.
LEAST = 80


def test_there_are_enough_reports_and_no_family_is_empty():
    assert len({entry.number for entry in ENTRIES if in_source(entry)}) >= LEAST
    assert list(FAMILIES) == list("abcdefghij")
    assert all(entries for _, entries in FAMILIES.values())


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
