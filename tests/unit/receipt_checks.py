"""What must hold for receipts: checks that take the modules to check, so that teeth run them on planted ones."""

import json
from dataclasses import replace

import pytest

SOURCES = {"kernels/a.py": "1" * 32, "harness/b.py": "2" * 32}


def receipt_of(api, **changes):
    """A receipt that proves its sources, with ``changes``."""
    record = api.record
    tests = tuple(
        record.Test(
            id=f"tests/test_a.py::test_{number}",
            outcome=outcome,
            seconds=1.0,
            hardware=True,
            target="sm_120",
            device=0,
            note=note,
        )
        for number, (outcome, note) in enumerate(
            [("passed", ""), ("passed", ""), ("skipped", "needs sm_100, found sm_120"), ("xfailed", "")]
        )
    )
    whole = record.Receipt(
        started="2026-11-30T12:00:00+00:00", seconds=71.0,
        devices=(record.Device(name="NVIDIA RTX PRO 6000", arch="sm_120", units=188),), driver="580.95.05",
        versions={"python": "3.12.3"}, emulated="", commit="c" * 40, dirty=(), paths=("kernels", "harness"),
        sources=dict(SOURCES), moved=(), arguments=("-m", "sm120"), status=0, profile="ci",
        selections=(record.Selection(target="sm_120", whole=4),), tests=tests,
    )  # fmt: skip
    return replace(whole, **changes)


def refusal(api, changes=None, here=None, **options):
    """The reasons against a receipt with ``changes``, as one text."""
    made = receipt_of(api, **(changes or {}))
    return "\n".join(api.check.reasons(made, SOURCES if here is None else here, **options))


def a_whole_run_is_verified(api, folder):
    assert refusal(api) == ""
    assert refusal(api, commit="c" * 40, arch="sm_120", at_least=2) == ""
    assert api.check.verdict(receipt_of(api)) == (
        "verified on sm_120 (NVIDIA RTX PRO 6000) at commit cccccccccccc: 2 passed, 1 skipped, 1 xfailed in 71 s, "
        "profile ci"
    )


def without_git_the_sources_speak_for_themselves(api, folder):
    unknown = {"commit": "unknown", "dirty": None}
    assert refusal(api, unknown, commit="d" * 40) == ""
    assert "(commit unknown)" in api.check.verdict(receipt_of(api, **unknown))
    assert "at sources " in api.check.verdict(receipt_of(api, **unknown))
    assert "kernels/a.py: other content" in refusal(api, unknown, here={**SOURCES, "kernels/a.py": "9" * 32})


def other_sources_are_refused_by_name(api, folder):
    changed = {"kernels/a.py": "9" * 32, "kernels/new.py": "3" * 32}
    said = refusal(api, here=changed, where="in checkout")
    assert "what it ran differs from what is in checkout" in said
    for line in (
        "kernels/a.py: other content", "kernels/new.py: not there when it ran", "harness/b.py: not here",
    ):  # fmt: skip
        assert line in said
    assert "no sources" in refusal(api, {"sources": {}}, here={})


def a_dirty_tree_is_refused(api, folder):
    assert "dirty tree" in refusal(api, {"dirty": ("kernels/a.py",)})
    assert "kernels/a.py" in refusal(api, {"dirty": ("kernels/a.py",)})


def sources_that_moved_are_refused(api, folder):
    assert "changed while it ran" in refusal(api, {"moved": ("kernels/a.py: other content",)})


def another_commit_is_refused(api, folder):
    assert f"wanted {'d' * 40}, it ran at {'c' * 40}" in refusal(api, commit="d" * 40)


def emulation_is_refused(api, folder):
    hopper = api.record.Device(name="NVIDIA H200", arch="sm_90", units=132)
    said = refusal(api, {"emulated": "sm_120", "devices": (hopper,)})
    assert said == "emulated: sm_120 was emulated, on sm_90"


def another_device_is_refused(api, folder):
    assert "wanted sm_90, it ran on sm_120" in refusal(api, arch="sm_90", partial=True)
    assert "no GPU" in refusal(api, {"devices": ()})


def on_two_kinds_of_device(api, *targets):
    """A receipt of a machine with an H200 too, whose passed tests are about ``targets``."""
    hopper = api.record.Device(name="NVIDIA H200", arch="sm_90", units=132, index=1)
    whole = receipt_of(api)
    tests = tuple(
        replace(whole.tests[0], id=f"of {target}", target=target, device=int(target == "sm_90")) for target in targets
    )
    selections = tuple(api.record.Selection(target=target, whole=9) for target in ("sm_120", "sm_90"))
    return {"devices": (*whole.devices, hopper), "tests": tests, "selections": selections}


def another_target_on_the_same_machine_is_refused(api, folder):
    for_one = on_two_kinds_of_device(api, "sm_90", "sm_90", "")
    assert refusal(api, for_one, arch="sm_90", at_least=2) == ""
    assert refusal(api, for_one, at_least=3) == ""
    said = refusal(api, for_one, arch="sm_120")
    assert said == "too few tests: 0 of sm_120 passed, wanted at least 1 (3 others ran that are not about it)"
    assert "2 of sm_90 passed, wanted at least 3" in refusal(api, for_one, arch="sm_90", at_least=3)


def tests_of_a_target_that_ran_elsewhere_are_refused(api, folder):
    both = on_two_kinds_of_device(api, "sm_120", "sm_90")
    assert refusal(api, both) == ""
    first, second = both["tests"]
    swapped = {**both, "tests": (replace(first, device=1), second)}
    assert refusal(api, swapped, arch="sm_120") == (
        "another device: tests of sm_120 did not run on it\n  of sm_120: on sm_90 (device 1)"
    )
    assert refusal(api, swapped, arch="sm_90") == ""
    unknown = {**both, "tests": (first, replace(second, device=None))}
    assert (
        refusal(api, unknown) == "another device: tests of a target did not run on it\n  of sm_90: on no known device"
    )
    failed = {**swapped, "tests": (replace(first, device=1, outcome="xfailed"), second)}
    assert refusal(api, failed) == ""


def a_part_of_the_tests_is_refused(api, folder):
    part = api.record.Selection(target="sm_120", whole=312, missing=308, some=("a::one", "a::two"))
    whole = api.record.Selection(target="sm_90", whole=300)
    changes = {"selections": (part, whole), "arguments": ("-m", "sm120", "-k", "hello")}
    said = refusal(api, changes, arch="sm_120")
    assert said == (
        "a part: 308 of the 312 tests of sm_120 did not run\n  called with: -m sm120 -k hello\n  a::one\n  a::two"
        "\n  and 306 more"
    )
    assert refusal(api, changes) == said
    assert refusal(api, changes, arch="sm_120", partial=True) == ""
    assert "308 of the 312" not in refusal(api, changes, arch="sm_90", partial=False)
    assert api.check.verdict(receipt_of(api, **changes), "sm_120").endswith("in 71 s, profile ci, a part of the tests")
    for unsaid in ({"selections": ()}, {"selections": (whole,)}):
        assert "it ran for other targets than sm_120, called with: -m sm120" in refusal(api, unsaid, arch="sm_120")
    for arch in ("", "sm_120"):
        assert "which tests there are is not known: no answer" in refusal(
            api, {"selections": (), "unknown": "no answer"}, arch=arch
        )


def what_did_not_run_is_missing(api, folder):
    collected = {"a::one": "sm_90", "a::two": "sm_90", "b::three": "sm_120", "b::four": "sm_90"}
    found = api.whole.selections(collected, ("sm_90", "sm_120", "sm_80"), ["a::one", "b::three", "elsewhere::five"])
    assert [(each.target, each.whole, each.missing, each.some) for each in found] == [
        ("sm_90", 3, 2, ("a::two", "b::four")), ("sm_120", 1, 0, ()), ("sm_80", 0, 0, ()),
    ]  # fmt: skip


def the_verdict_names_targets_that_passed(api, folder):
    for_one = receipt_of(api, **on_two_kinds_of_device(api, "sm_90", "sm_90", ""))
    assert api.check.verdict(for_one).startswith("verified on sm_90 (NVIDIA H200) at commit cccccccccccc: 3 passed")
    assert ": 2 passed in" in api.check.verdict(for_one, "sm_90")
    both = receipt_of(api, **on_two_kinds_of_device(api, "sm_120", "sm_90"))
    assert api.check.verdict(both).startswith("verified on sm_120, sm_90 (NVIDIA RTX PRO 6000, NVIDIA H200) at")
    assert api.check.verdict(both, "sm_90").startswith("verified on sm_90 (NVIDIA H200) at")
    failed = replace(both, tests=(replace(both.tests[0], outcome="skipped"), both.tests[1]))
    assert api.check.verdict(failed).startswith("verified on sm_90 (NVIDIA H200) at")
    neither = receipt_of(api, **on_two_kinds_of_device(api, ""))
    assert api.check.verdict(neither).startswith("verified for no target, where there is sm_120, sm_90 at commit")


def failures_are_refused(api, folder):
    for outcome in ("failed", "error"):
        bad = api.record.Test(id="tests/test_a.py::test_bad", outcome=outcome, seconds=1.0, hardware=False)
        said = refusal(api, {"tests": (*receipt_of(api).tests, bad), "status": 1})
        assert said == f"failures\n  tests/test_a.py::test_bad: {outcome}"
    assert "exit status 2" in refusal(api, {"status": 2})


def too_few_tests_are_refused(api, folder):
    skipped = tuple(test for test in receipt_of(api).tests if test.outcome == "skipped")
    said = refusal(api, {"tests": skipped})
    assert "0 of a GPU passed, wanted at least 1" in said
    assert "1 skipped: needs sm_100, found sm_120" in said
    assert "2 of a GPU passed, wanted at least 3" in refusal(api, at_least=3)
    assert "0 of a GPU passed" in refusal(api, {"tests": ()})
    on_the_host = tuple(replace(test, hardware=False) for test in receipt_of(api).tests)
    assert "4 others ran" in refusal(api, {"tests": on_the_host})


def failures_that_were_excused_are_refused(api, folder):
    said = refusal(api, {"known": "ours.toml", "added": "--known ours.toml"}, partial=True)
    assert said == "known failures: it ran with --known ours.toml, which excuses failures that no source names"


def a_run_of_less_is_refused_where_more_is_wanted(api, folder):
    assert api.check.verdict(receipt_of(api, profile="quick")).endswith("in 71 s, profile quick")
    for ran, wanted in (("ci", ""), ("ci", "quick"), ("ci", "ci"), ("nightly", "ci"), ("quick", "")):
        assert refusal(api, {"profile": ran}, profile=wanted) == ""
    for ran, wanted in (("quick", "ci"), ("ci", "nightly"), ("theirs", "quick"), ("", "quick")):
        said = refusal(api, {"profile": ran}, profile=wanted)
        assert said == f"too little of each test: it ran in profile {ran}, wanted {wanted}"


def what_the_environment_adds_is_told(api, folder):
    part = api.record.Selection(target="sm_120", whole=4, missing=1, some=("a::one",))
    said = refusal(api, {"selections": (part,), "added": "-k hello"})
    assert "called with: -m sm120 and PYTEST_ADDOPTS -k hello" in said


#: A path in a receipt's JSON, what stands there instead, and what is said about it.
MALFORMED = (
    (("tests",), [1], "tests[0]: wanted an object of"),
    (("tests",), None, "tests: wanted a list, got None"),
    (("tests",), {"a": 1}, "tests: wanted a list, got an object of a"),
    (("tests", 0), {"id": "a"}, "tests[0]: wanted an object of"),
    (("tests", 0, "seconds"), "soon", "tests[0].seconds: wanted float, got 'soon'"),
    (("tests", 1, "hardware"), 1, "tests[1].hardware: wanted bool, got 1"),
    (("tests", 1, "device"), "0", "tests[1].device: wanted int, got '0'"),
    (("devices", 0, "units"), True, "devices[0].units: wanted int, got True"),
    (("sources",), ["kernels/a.py"], "sources: wanted an object, got ['kernels/a.py']"),
    (("sources", "kernels/a.py"), 3, "sources['kernels/a.py']: wanted str, got 3"),
    (("dirty",), 3, "dirty: wanted a list, got 3"),
    (("profile",), None, "profile: wanted str, got None"),
    (("extra",), 1, "the receipt: wanted an object of"),
)


def a_malformed_receipt_is_unreadable(api, folder):
    file = folder / "receipt.json"
    api.record.write(receipt_of(api, dirty=None), file)
    assert api.record.read(file) == receipt_of(api, dirty=None)
    whole = file.read_text()
    for path, value, said in MALFORMED:
        content = json.loads(whole)
        place = content
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value
        del content["digest"]
        file.write_text(json.dumps({**content, "digest": api.record.digest(content)}))
        with pytest.raises(api.record.Unreadable) as caught:
            api.record.read(file)
        assert f"{file}: not a receipt: {said}" in str(caught.value)


def a_changed_receipt_is_unreadable(api, folder):
    file = folder / "deep" / "receipt.json"
    api.record.write(receipt_of(api), file)
    assert api.record.read(file) == receipt_of(api)
    content = json.loads(file.read_text())
    for path, value in (("commit", "d" * 40), ("seconds", 72.0)):
        file.write_text(json.dumps({**content, path: value}))
        with pytest.raises(api.record.Unreadable, match="changed after it was written"):
            api.record.read(file)
    content["tests"][0]["outcome"] = "failed"
    file.write_text(json.dumps(content))
    with pytest.raises(api.record.Unreadable, match="changed after it was written"):
        api.record.read(file)
    for text in ("", "[]", "{}", '{"schema": 99, "digest": "x"}'):
        file.write_text(text)
        with pytest.raises(api.record.Unreadable):
            api.record.read(file)


def every_source_file_counts(api, folder):
    for name, text in (
        ("kernels/a.py", "a"), ("kernels/deep/b.toml", "b"), ("kernels/__pycache__/a.pyc", "made"),
        ("kernels/.mypy_cache/3.11/cache.db", "made"), ("kernels/.hidden.py", "an editor's"),
        ("conftest.py", "c"), ("elsewhere/d.py", "d"),
    ):  # fmt: skip
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    paths = ("kernels", "conftest.py", "missing")
    before = api.sources.of_folder(folder, paths)
    assert list(before) == ["conftest.py", "kernels/a.py", "kernels/deep/b.toml"]
    assert len(set(before.values())) == 3
    (folder / "kernels/deep/b.toml").write_text("B")
    after = api.sources.of_folder(folder, paths)
    assert api.sources.differences(before, after) == ["kernels/deep/b.toml: other content"]
    assert api.sources.total(before) != api.sources.total(after)


def what_tests_of_a_device_share_counts(api, folder):
    for name in ("tests/device/test_a.py", "tests/teeth/faults.py", "tests/unit/recordings/h200.npz", "README.md"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # no text in any encoding
        path.write_bytes(bytes(range(256)))
    before = api.sources.of_folder(folder)
    assert list(before) == ["tests/device/test_a.py", "tests/teeth/faults.py", "tests/unit/recordings/h200.npz"]
    (folder / "tests/unit/recordings/h200.npz").write_bytes(bytes(reversed(range(256))))
    after = api.sources.of_folder(folder)
    assert api.sources.differences(before, after) == ["tests/unit/recordings/h200.npz: other content"]


CHECKS = {
    check.__name__: check
    for check in (
        a_whole_run_is_verified, without_git_the_sources_speak_for_themselves, other_sources_are_refused_by_name,
        a_dirty_tree_is_refused, sources_that_moved_are_refused, another_commit_is_refused, emulation_is_refused,
        another_device_is_refused, tests_of_a_target_that_ran_elsewhere_are_refused, a_part_of_the_tests_is_refused,
        what_did_not_run_is_missing, another_target_on_the_same_machine_is_refused,
        the_verdict_names_targets_that_passed, failures_are_refused, too_few_tests_are_refused,
        failures_that_were_excused_are_refused, a_run_of_less_is_refused_where_more_is_wanted,
        what_the_environment_adds_is_told, a_malformed_receipt_is_unreadable,
        a_changed_receipt_is_unreadable, every_source_file_counts, what_tests_of_a_device_share_counts,
    )
}  # fmt: skip
