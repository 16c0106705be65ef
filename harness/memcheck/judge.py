"""From what was said in one run under one tool to a verdict, and to findings: reports that say the same, counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.memcheck.stream import TOO_LARGE, Report, Stream
from harness.memcheck.tools import Tool
from harness.report.records import FaultRecord, Verdict

# Kernels of libraries, by the name that the tools print: PyTorch's own, and what it is built on.
_LIBRARIES = re.compile(
    r"(?:void |unsigned |int )*(?:at::|c10::|torch::|cub::|thrust::|cutlass|cublas|cudnn|internal::)"
    r"|(?:sm\d+_|turing_|ampere_|volta_|nvjet|gemv|gemm|splitKreduce)"
)
#: Tools whose reports about such kernels are noise: a copy of memory that nobody wrote reads it, and a library that
#: knows how its warps run needs no barrier.  An access out of bounds is a fault wherever it happens: its cause may be
#: an index of ours.  A kernel whose source is Python is no library's, whatever its name.
NOISY: frozenset[Tool] = frozenset({"initcheck", "racecheck"})
_OURS = ".py"
_SHOWN_LINES = 4
# says again what the first line of a finding says, or begins what is not shown
_REPEATED = re.compile(r"at \S.*\+0x[0-9a-f]+|Saved host backtrace|Host Frame:")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Reports of one kind at one place in one case: the first of them, and how ``often`` it came."""

    first: Report
    often: int

    def __str__(self) -> str:
        """Return what, where, how often and the first one's details."""
        at = f" at {self.first.file}:{self.first.line}" if self.first.file else ""
        where = f" in {self.first.kernel}{at}" if self.first.kernel else ""
        times = f", {self.often} times" if self.often > 1 else ""
        details = [line for line in self.first.details if not _REPEATED.match(line)]
        return "\n  ".join([f"{self.first.kind}{where}{times}", *details[:_SHOWN_LINES]])


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """``cases`` ran whole, ``left_out`` did not run; ``findings`` are those that count.

    ``idle``: whether there was nothing to do but to leave cases out, not all of them for their size, which says nothing
    about a kernel.  ``note`` says what else there is to know; ``faults`` are the findings, and launches that raised,
    for reports.
    """

    verdict: Verdict
    cases: int
    left_out: int = 0
    idle: bool = False
    note: str = ""
    findings: tuple[Finding, ...] = ()
    faults: tuple[FaultRecord, ...] = ()


def judge(
    tool: Tool, stream: Stream, *, ended: str = "", excused: Callable[[str], bool] = lambda case: False
) -> Judgement:
    """Return the verdict on one run; ``ended`` says how the process ended if not by itself with status 0.

    ``excused(case)``: whether reports on this case are of a failure that is known.
    """
    about = [report for report in stream.reports if report.kernel]
    noise = [report for report in about if tool in NOISY and _is_of_library(report)]
    ours = [report for report in about if report not in noise]
    known = [report for report in ours if excused(report.case)]
    findings = _findings([report for report in ours if report not in known])
    faults = [FaultRecord(check=tool, case=finding.first.case, message=str(finding)) for finding in findings]
    # a launch that a report ended raises too; noise ends none
    explained = {report.case for report in ours}
    faults += [
        FaultRecord(check="raises", case=case, message=message)
        for case, message in stream.raised
        if case not in explained and not excused(case)
    ]
    notes = _notes(stream, noise, known)
    wrong = _wrong(stream, ended, read=len(about))
    idle = stream.done and not ended and not stream.cases and not stream.raised and _lacks_hardware(stream)
    if faults:
        verdict = Verdict.FAIL
    elif wrong:
        verdict = Verdict.TIMEOUT if ended.startswith("late") else Verdict.CRASH
    else:
        verdict = Verdict.KNOWN if known else Verdict.PASS
    return Judgement(
        verdict=verdict,
        cases=len(stream.cases),
        left_out=len(stream.left_out),
        idle=idle,
        note=_reasons(stream) if idle else "; ".join([*wrong, *notes]),
        findings=tuple(findings),
        faults=tuple(faults),
    )


def is_library(kernel: str) -> bool:
    """Whether a kernel is PyTorch's or of a library below it, going by its name."""
    return _LIBRARIES.match(kernel) is not None


def _is_of_library(report: Report) -> bool:
    return is_library(report.kernel) and not report.file.endswith(_OURS)


def _findings(reports: Sequence[Report]) -> list[Finding]:
    first: dict[tuple[str, ...], Report] = {}
    often: Counter[tuple[str, ...]] = Counter()
    for report in reports:
        key = report.case, report.kind, report.kernel, report.file, str(report.line)
        first.setdefault(key, report)
        often[key] += report.times
    return [Finding(first=report, often=often[key]) for key, report in first.items()]


def _notes(stream: Stream, noise: Sequence[Report], known: Sequence[Report]) -> list[str]:
    notes = []
    if noise:
        kernels = Counter(report.kernel for report in noise)
        names = ", ".join(f"{_short(kernel)} ({count})" for kernel, count in kernels.most_common(3))
        notes.append(f"{len(noise)} reports about kernels of libraries do not count: {names}")
    if known:
        notes.append(f"{len(known)} reports are of known failures")
    if stream.unprinted:
        notes.append(f"{stream.unprinted} more reports were not printed")
    if stream.left_out:
        notes.append(f"{len(stream.left_out)} cases left out: {_reasons(stream)}")
    return notes


def _lacks_hardware(stream: Stream) -> bool:
    """Whether some case was left out for another reason than its size, which a smaller case would not have."""
    return any(not reason.startswith(TOO_LARGE) for _, reason in stream.left_out)


def _reasons(stream: Stream) -> str:
    return ", ".join(dict.fromkeys(reason for _, reason in stream.left_out))


def _wrong(stream: Stream, ended: str, *, read: int) -> list[str]:
    """Return why the absence of reports would mean nothing."""
    wrong = [ended] if ended else []
    wrong += [f"the tool says: {report.kind}" for report in stream.reports if not report.kernel]
    if not stream.done:
        last = " ".join(stream.other[-1].split())[:200] if stream.other else "nothing"
        wrong.append(f"not all cases ran; last words: {last}")
    elif not stream.cases:
        wrong.append("no case ran")
    if stream.counted is None:
        wrong.append("the tool gives no summary")
    elif stream.counted - stream.unprinted != read:
        wrong.append(f"the tool printed {stream.counted - stream.unprinted} reports, {read} were understood")
    elif stream.unprinted:
        # those that are missing may be about kernels that count
        wrong.append("the tool stopped printing")
    return wrong


def _short(kernel: str) -> str:
    """Return a C++ kernel's name without its template arguments and parameters."""
    return re.split(r"[<(]", kernel.removeprefix("void "), maxsplit=1)[0]
