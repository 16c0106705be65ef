"""A run as JUnit XML: a suite an implementation, a test case a check."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from harness.report.records import Record, Verdict
from harness.report.summary import Summary

# Characters that XML 1.0 cannot hold, even escaped.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(summary: Summary) -> str:
    """Return the document.

    FAIL and STALE are failures, KNOWN is skipped, every other verdict but PASS is an error.  A wrong contract is an
    error of a suite of its own, and skipped in those of its implementations.
    """
    root = ElementTree.Element("testsuites", name="kernel-harness", time=f"{summary.seconds:.3f}")
    for unit in summary.units:
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"{unit.contract}.{unit.implementation}",
            tests=str(len(unit.records)),
            failures=str(sum(_element(record) == "failure" for record in unit.records)),
            errors=str(sum(_element(record) == "error" for record in unit.records)),
            skipped=str(sum(_element(record) == "skipped" for record in unit.records)),
            time=f"{unit.seconds:.3f}",
        )
        for record in unit.records:
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"{unit.contract}.{unit.implementation}", name=_legal(record.check)
            )
            if (element := _element(record)) is not None:
                detail = ElementTree.SubElement(case, element, type=str(record.verdict), message=_legal(_first(record)))
                detail.text = _legal(_text(summary, record))
    for broken in summary.broken:
        suite = ElementTree.SubElement(root, "testsuite", name=broken.contract, tests="1", failures="0", errors="1")
        case = ElementTree.SubElement(suite, "testcase", classname=broken.contract, name="contract")
        first = next(iter(broken.mistakes))
        detail = ElementTree.SubElement(case, "error", type=str(Verdict.CONTRACT), message=_legal(first))
        detail.text = _legal("\n\n".join(f"{what}\n{command}".rstrip() for what, command in broken.mistakes.items()))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _element(record: Record) -> str | None:
    if record.verdict is Verdict.PASS:
        return None
    if record.verdict in (Verdict.KNOWN, Verdict.CONTRACT):
        return "skipped"
    return "failure" if record.verdict in (Verdict.FAIL, Verdict.STALE) else "error"


def _first(record: Record) -> str:
    """One line for viewers that show one."""
    if record.verdict is Verdict.CONTRACT:
        return f"no verdict: contract {record.contract} is wrong"
    text = record.note or next((fault.message for fault in record.faults), "")
    return text.strip().partition("\n")[0] or str(record.verdict)


def _text(summary: Summary, record: Record) -> str:
    if record.verdict is Verdict.CONTRACT:
        return ""
    parts = [record.remark] if record.remark else []
    for fault in record.faults:
        features = f"features: {', '.join(fault.features)}\n" if fault.features else ""
        parts.append(f"{fault.message.rstrip()}\n{features}{summary.replay(record, fault)}")
    return "\n\n".join(parts)


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
