"""What a watched process and the tool that watches it say, taken apart: messages, reports, and how many there were."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

#: Begins each line of the watched process that is a message: a JSON object with a ``kind``.
MARK = "harness-memcheck "
#: Begins the reason for leaving out a case that is too large for a tool.
TOO_LARGE = "its arguments take "
# nine and a blank: Triton frames what ptxas refused with a line of more
_TOOL = re.compile(r"={9}(?!=)")
# "at NAME+0x1d0 in FILE:12"; C++ names hold spaces and commas, and even a plus
_PLACE = re.compile(r"\bat (?P<kernel>\S.*?)\+0x[0-9a-f]+(?: in (?P<file>\S+):(?P<line>\d+))?(?=\s|$)")
_ADDRESS = re.compile(r"^(?:Access to|Access at|Address) (0x[0-9a-f]+)")
_HAZARDS = re.compile(r"\[(\d+) hazards?\]")
# "ERROR SUMMARY: 300 errors", of which a second line says how many were not printed; racecheck counts hazards
_COUNT = re.compile(r"^(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards? displayed)\b(?! were not printed)")
_UNPRINTED = re.compile(r"^(?:ERROR|RACECHECK) SUMMARY: (\d+) \w+ (?:was|were) not printed")


@dataclass(frozen=True, kw_only=True)
class Report:
    """One report of a tool: ``kind`` is its first line, ``kernel`` with ``file`` and ``line`` where it was.

    A report about no kernel has none of them.  ``times`` counts what the tool itself put together in this report.
    ``case`` is the case that ran, as printed, empty before the first.
    """

    kind: str
    kernel: str = ""
    file: str = ""
    line: int = 0
    address: str = ""
    times: int = 1
    case: str = ""
    details: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Stream:
    """A whole run: ``counted`` is the tool's own number of reports, None where it ended without; of these it left out
    ``unprinted``.  ``cases`` ran to their end; ``raised`` holds (case, message) of launches that raised, ``left_out``
    (case, reason) of those that did not run.  ``other`` is what anybody else printed.
    """

    reports: list[Report] = field(default_factory=list)
    counted: int | None = None
    unprinted: int = 0
    cases: list[str] = field(default_factory=list)
    raised: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    done: bool = False
    other: list[str] = field(default_factory=list)


def parse(text: str) -> Stream:
    """Take the output of a run apart."""
    stream, case = Stream(), ""
    block: list[str] = []

    def close() -> None:
        if block:
            stream.reports.append(_report(block, case))
            block.clear()

    for line in text.splitlines():
        if line.startswith(MARK):
            close()
            case = _take(stream, json.loads(line[len(MARK) :]), case)
        elif not _TOOL.match(line):
            if line.strip():
                stream.other.append(line)
        else:
            said = line[9:]
            # the lines of a report are indented below its first
            if said.startswith("  ") and block:
                block.append(said.strip())
                continue
            close()
            words = said.strip()
            if found := _UNPRINTED.match(words):
                stream.unprinted = int(found[1])
            elif found := _COUNT.match(words):
                stream.counted = (stream.counted or 0) + int(found[1])
            elif words and words != "COMPUTE-SANITIZER":
                block.append(words)
    close()
    return stream


def _take(stream: Stream, message: dict[str, Any], case: str) -> str:
    """Note one message; returns the case that runs from here on."""
    kind = message["kind"]
    if kind == "case":
        return str(message["case"])
    if kind == "end":
        stream.cases.append(case)
    elif kind == "raised":
        stream.raised.append((case, str(message["message"])))
    elif kind == "left out":
        stream.left_out.append((str(message["case"]), str(message["reason"])))
    elif kind == "done":
        stream.done = True
    return case


def _report(lines: list[str], case: str) -> Report:
    title, *details = lines
    place = next((found for line in lines if (found := _PLACE.search(line))), None)
    address = next((found[1] for line in details if (found := _ADDRESS.match(line))), "")
    hazards = [int(found[1]) for line in lines if (found := _HAZARDS.search(line))]
    kind = " ".join(_PLACE.sub("", title).split()).removeprefix("Error: ")
    return Report(
        kind=kind,
        kernel=place["kernel"] if place else "",
        file=(place["file"] or "") if place else "",
        line=int(place["line"] or 0) if place else 0,
        address=address,
        times=sum(hazards) or 1,
        case=case,
        details=tuple(details),
    )
