"""Faults planted in receipts: what would let a run pass for what it was not, one change of source each."""

from tests.teeth.rooms import RoomFault


def fault(name, file, old, new, check):
    return RoomFault(name, "receipts", file, old, new, check)


FAULTS = (
    fault(
        "other sources pass",
        "check",
        "elif differing := sources.differences(receipt.sources, here):",
        "elif differing := sources.differences(here, here):",
        "other_sources_are_refused_by_name",
    ),
    fault(
        "files that are new here pass",
        "sources",
        "sorted(recorded.keys() | here.keys())",
        "sorted(recorded.keys())",
        "other_sources_are_refused_by_name",
    ),
    fault(
        "a receipt without sources passes",
        "check",
        "if not receipt.sources:",
        "if receipt.sources is None:",
        "other_sources_are_refused_by_name",
    ),
    fault(
        "unknown commits are not compared by source",
        "check",
        "if not receipt.sources:",
        "if receipt.commit == UNKNOWN:\n        pass\n    elif not receipt.sources:",
        "without_git_the_sources_speak_for_themselves",
    ),
    fault(
        "an unknown commit claims to be one",
        "check",
        "if receipt.commit == UNKNOWN or receipt.dirty is None:",
        "if not receipt.commit:",
        "without_git_the_sources_speak_for_themselves",
    ),
    fault("a dirty tree passes", "check", "if receipt.dirty:", "if receipt.dirty is None:", "a_dirty_tree_is_refused"),
    fault(
        "edits during the run pass",
        "check",
        "if receipt.moved:",
        "if None:",
        "sources_that_moved_are_refused",
    ),
    fault(
        "any commit passes",
        "check",
        "if commit and receipt.commit not in (commit, UNKNOWN):",
        "if commit and not receipt.commit:",
        "another_commit_is_refused",
    ),
    fault(
        "emulation passes", "check", "elif receipt.emulated:", "elif receipt.emulated == arch:", "emulation_is_refused"
    ),
    fault(
        "any device passes",
        "check",
        "elif arch and arch not in {device.arch for device in receipt.devices}:",
        "elif arch and not receipt.devices:",
        "another_device_is_refused",
    ),
    fault("no device passes", "check", "if not receipt.devices:", "if None:", "another_device_is_refused"),
    fault("errors pass", "check", '_BAD = ("failed", "error")', '_BAD = ("failed",)', "failures_are_refused"),
    fault("failures pass", "check", '_BAD = ("failed", "error")', '_BAD = ("error",)', "failures_are_refused"),
    fault(
        "an interrupted run passes",
        "check",
        "elif receipt.status:",
        "elif receipt.status == 1:",
        "failures_are_refused",
    ),
    fault(
        "skips count as tests",
        "check",
        'passed = sum(test.outcome == "passed" for test in wanted)',
        "passed = len(wanted)",
        "too_few_tests_are_refused",
    ),
    fault(
        "tests of the host count",
        "check",
        'passed = sum(test.outcome == "passed" for test in wanted)',
        'passed = sum(test.outcome == "passed" for test in receipt.tests)',
        "too_few_tests_are_refused",
    ),
    fault(
        "tests of another target count",
        "check",
        "wanted = _hardware(receipt, arch)",
        "wanted = _hardware(receipt)",
        "another_target_on_the_same_machine_is_refused",
    ),
    fault(
        "tests about no target count for each",
        "check",
        'arch in ("", test.target)',
        'arch in ("", test.target or arch)',
        "another_target_on_the_same_machine_is_refused",
    ),
    fault(
        "devices that are there are verified",
        "check",
        "for device in receipt.devices if device.arch in passed))",
        "for device in receipt.devices if passed))",
        "the_verdict_names_targets_that_passed",
    ),
    fault(
        "targets that were skipped are verified",
        "check",
        'if test.target and test.outcome == "passed"',
        "if test.target",
        "the_verdict_names_targets_that_passed",
    ),
    fault("one test is always enough", "check", "if passed < at_least:", "if not passed:", "too_few_tests_are_refused"),
    fault(
        "the digest is not compared",
        "record",
        "if stated != found:",
        "if len(stated) != len(found):",
        "a_changed_receipt_is_unreadable",
    ),
    fault(
        "the digest leaves the tests out",
        "record",
        "json.dumps(content, sort_keys",
        'json.dumps({**content, "tests": 0}, sort_keys',
        "a_changed_receipt_is_unreadable",
    ),
    fault(
        "only Python counts as source",
        "sources",
        "if path.is_file() and not",
        'if path.suffix == ".py" and not',
        "every_source_file_counts",
    ),
    fault(
        "what is compiled counts as source",
        "sources",
        '_MADE = ("__pycache__", ".pyc", ".pyo")',
        "_MADE = ()",
        "every_source_file_counts",
    ),
    fault(
        "a linter's cache counts as source",
        "sources",
        ' or part.startswith(".")',
        "",
        "every_source_file_counts",
    ),
    fault(
        "sizes for digests",
        "sources",
        "return hashlib.sha256(content)",
        "return hashlib.sha256(bytes([len(content)]))",
        "every_source_file_counts",
    ),
    fault(
        "only the tests of a device are its sources",
        "sources",
        '"harness", "tests", "conftest.py"',
        '"harness", "tests/device", "conftest.py"',
        "what_tests_of_a_device_share_counts",
    ),
)
