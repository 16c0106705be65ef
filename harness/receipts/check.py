"""Whether a receipt proves that the sources here were verified on a device, and if not, why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from harness import profiles
from harness.receipts import sources
from harness.receipts.record import Receipt, Test
from harness.receipts.revision import UNKNOWN

#: Lines of each reason that are shown.
_SHOWN = 8
_BAD = ("failed", "error")
_COMMIT_DIGITS = 12
_ADDED = "and PYTEST_ADDOPTS"


def reasons(
    receipt: Receipt,
    here: Mapping[str, str],
    *,
    where: str = "here",
    commit: str = "",
    arch: str = "",
    at_least: int = 1,
    partial: bool = False,
    profile: str = "",
) -> list[str]:
    """Return why ``receipt`` says nothing about the sources with digests ``here``, found ``where``; empty if it does.

    ``commit`` is the full one that must have run, ``arch`` the target that it must have run for, where they matter;
    ``at_least`` so many tests of that target, or of any GPU, must have passed; ``partial`` whether some of its tests
    may be left out; ``profile`` the one of ours that must have run, or one that runs more.
    """
    found: list[str] = []
    if not receipt.devices:
        found.append("no GPU: it ran where none was found")
    elif receipt.emulated:
        found.append(f"emulated: {receipt.emulated} was emulated, on {_devices(receipt)}")
    elif arch and arch not in {device.arch for device in receipt.devices}:
        found.append(f"another device: wanted {arch}, it ran on {_devices(receipt)}")
    if commit and receipt.commit not in (commit, UNKNOWN):
        found.append(f"another commit: wanted {commit}, it ran at {receipt.commit}")
    if receipt.dirty:
        found.append(_listed(f"dirty tree: it ran with changes on top of {receipt.commit}", receipt.dirty))
    if receipt.moved:
        found.append(_listed("sources changed while it ran", receipt.moved))
    if not receipt.sources:
        found.append("no sources: it ran in a folder that has none")
    elif differing := sources.differences(receipt.sources, here):
        found.append(_listed(f"other sources: what it ran differs from what is {where}", differing))
    if receipt.known:
        found.append(
            f"known failures: it ran with --known {receipt.known}, which excuses failures that no source names"
        )
    if profile and not _runs_as_much(receipt.profile, profile):
        found.append(f"too little of each test: it ran in profile {receipt.profile}, wanted {profile}")
    found += _about_tests(receipt, arch, at_least)
    if not receipt.emulated:
        found += _about_devices(receipt, arch)
    if not partial and receipt.devices:
        found += _about_the_whole(receipt, arch)
    return found


def _runs_as_much(profile: str, wanted: str) -> bool:
    """Whether ``profile`` draws as many cases as ``wanted``, one of ours; of one that is not ours nothing is known."""
    return profiles.EXAMPLES.get(profile, 0) >= profiles.EXAMPLES[wanted]


def _about_devices(receipt: Receipt, arch: str) -> list[str]:
    """Where there are devices of several kinds, tests of one can have run on another."""
    there = {(device.index, device.arch) for device in receipt.devices}
    wrong = [
        f"{test.id}: on {'no known device' if test.device is None else _numbered(receipt, test.device)}"
        for test in _hardware(receipt, arch)
        if test.target and test.outcome == "passed" and (test.device, test.target) not in there
    ]
    return [_listed(f"another device: tests of {arch or 'a target'} did not run on it", wrong)] if wrong else []


def _about_the_whole(receipt: Receipt, arch: str) -> list[str]:
    called = f"called with: {' '.join([*receipt.arguments, *([_ADDED, receipt.added] if receipt.added else [])])}"
    if receipt.unknown:
        return [f"whole or part: which tests there are is not known: {receipt.unknown}"]
    found = []
    for selection in receipt.selections:
        if selection.missing and arch in ("", selection.target):
            lines = [called, *selection.some]
            what = f"a part: {selection.missing} of the {selection.whole} tests of {selection.target} did not run"
            found.append(_listed(what, lines, selection.missing + 1))
    if arch not in ("", *(selection.target for selection in receipt.selections)):
        found.append(f"whole or part: it ran for other targets than {arch}, {called}")
    return found


def _about_tests(receipt: Receipt, arch: str, at_least: int) -> list[str]:
    found = []
    bad = [test for test in receipt.tests if test.outcome in _BAD]
    if bad:
        found.append(_listed("failures", [f"{test.id}: {test.outcome}" for test in bad]))
    elif receipt.status:
        found.append(f"not a whole run: pytest ended with exit status {receipt.status}")
    wanted = _hardware(receipt, arch)
    passed = sum(test.outcome == "passed" for test in wanted)
    if passed < at_least:
        said = Counter(test.note or "no reason" for test in wanted if test.outcome == "skipped")
        skips = [f"{count} skipped: {note}" for note, count in said.most_common()]
        others = len(receipt.tests) - len(wanted)
        found.append(
            _listed(
                f"too few tests: {passed} of {arch or 'a GPU'} passed, wanted at least {at_least}"
                f" ({others} others ran that {'are not about it' if arch else 'need none'})",
                skips,
            )
        )
    return found


def verdict(receipt: Receipt, arch: str = "") -> str:
    """Return ``"verified on sm_120 (...) at commit ...: 212 passed in 9 s, profile ci"`` for one without reasons.

    Named are the targets that tests passed for, with the devices that they used; counts are of tests about ``arch``, or
    of all that need a GPU.  A commit that git could not vouch for is called by its sources too, and a run that left
    tests out is called a part.
    """
    at = f"commit {receipt.commit[:_COMMIT_DIGITS]}"
    if receipt.commit == UNKNOWN or receipt.dirty is None:
        at = f"sources {sources.total(receipt.sources)[:_COMMIT_DIGITS]} (commit {receipt.commit[:_COMMIT_DIGITS]})"
    outcomes = Counter(test.outcome for test in _hardware(receipt, arch))
    counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
    good = [test for test in _hardware(receipt, arch) if test.target and test.outcome == "passed"]
    passed, used = dict.fromkeys(test.target for test in good), {(test.device, test.target) for test in good}
    names = ", ".join(dict.fromkeys(device.name for device in receipt.devices if (device.index, device.arch) in used))
    # tests that name no target ran on some device that is there
    on = f"on {', '.join(passed)} ({names})" if passed else f"for no target, where there is {_devices(receipt)}"
    part = ", a part of the tests" if _about_the_whole(receipt, arch) else ""
    return f"verified {on} at {at}: {counts} in {receipt.seconds:.0f} s, profile {receipt.profile}{part}"


def _hardware(receipt: Receipt, arch: str = "") -> list[Test]:
    return [test for test in receipt.tests if test.hardware and arch in ("", test.target)]


def _devices(receipt: Receipt) -> str:
    return ", ".join(dict.fromkeys(device.arch for device in receipt.devices)) or "no GPU"


def _numbered(receipt: Receipt, index: int) -> str:
    return next((f"{device.arch} (device {index})" for device in receipt.devices if device.index == index), f"{index}")


def _listed(what: str, lines: list[str] | tuple[str, ...], count: int | None = None) -> str:
    """Return ``what`` with the first of ``lines``, of which there are ``count``."""
    count = len(lines) if count is None else count
    shown = [f"\n  {line}" for line in lines[:_SHOWN]]
    rest = f"\n  and {count - len(shown)} more" if count > len(shown) else ""
    return "".join([what, *shown, rest])
