"""What was verified: a line an implementation, the tests on the device, and what stands first if something is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from harness.bench.page.html import breakable, chip, note, table
from harness.bench.store import Run, wrong
from harness.receipts.record import Receipt
from harness.report.summary import Summary, Unit, counted

_BAD = ("failed", "error")
#: Failed tests that are named; the rest is counted.
_SHOWN = 20


def status(summaries: Sequence[Summary], receipt: Receipt | None, head: Run) -> list[str]:
    """Return chips for the line below the title: only what is wrong, and what was not timed because of it."""
    failing = sum(not record.verdict.good for summary in summaries for record in summary.records)
    failed = 0 if receipt is None else sum(test.outcome in _BAD for test in receipt.tests)
    untimed = len(wrong(head.document))
    counts = ((failing, "check"), (failed, "device test"))
    chips = [chip(f"{counted(count, what)} failed", "bad") for count, what in counts if count]
    return chips + ([chip(f"{untimed} not timed", "bad")] if untimed else [])


def render(summaries: Sequence[Summary], receipt: Receipt | None) -> str:
    """Return the section's content."""
    units = [unit for summary in summaries for unit in summary.units]
    if not units:
        found = note("No records of a verification were given: verify --out writes records.jsonl.")
    else:
        head = ("contract", "implementation", "verdict", "checks passed", "cases", "seconds", "what did not")
        found = table(head, [_unit(unit) for unit in units], numbers=(3, 4, 5), label="verification")
    return found + ("" if receipt is None else _receipt(receipt))


def _unit(unit: Unit) -> list[str]:
    passed = [record for record in unit.records if record.verdict.good]
    failing = ", ".join(f"{record.check} {record.verdict}" for record in unit.records if not record.verdict.good)
    return [
        escape(unit.contract),
        escape(unit.implementation),
        chip(unit.verdict, "good" if len(passed) == len(unit.records) else "bad"),
        f"{len(passed)} of {len(unit.records)}",
        str(unit.examples),
        f"{unit.seconds:.1f}",
        escape(failing),
    ]


def _receipt(receipt: Receipt) -> str:
    outcomes = Counter(test.outcome for test in receipt.tests)
    order = sorted(outcomes, key=lambda outcome: (outcome not in _BAD, outcome))
    chips = " ".join(chip(f"{outcomes[one]} {one}", "bad" if one in _BAD else "plain") for one in order)
    devices = ", ".join(dict.fromkeys(device.name for device in receipt.devices)) or "no device"
    stood = f" as {escape(receipt.emulated)}" if receipt.emulated else ""
    bad = [test.id for test in receipt.tests if test.outcome in _BAD]
    more = f"<li>and {len(bad) - _SHOWN} more</li>" if len(bad) > _SHOWN else ""
    names = "".join(f"<li>{breakable(name)}</li>" for name in bad[:_SHOWN]) + more
    return (
        f"<h3>Tests on {escape(devices)}{stood}</h3><p>{chips or chip('no test ran', 'bad')}</p>"
        + (f"<ul>{names}</ul>" if names else "")
        + note(f"Started {receipt.started[:16].replace('T', ' ')}, {receipt.seconds:.0f} s, at {receipt.commit[:12]}.")
    )
