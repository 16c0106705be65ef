"""Runs the same cases on the virtual GPU and on the GPU that is here, and prints where the verdicts differ.

``python ci/lane_difference.py [CONTRACT ...] [--impl NAME] [--cases N] [--jobs N] [--devices N] [--json FILE]``

Where no machine has both lanes, ``--lane virtual --json FILE`` on one, then ``--lane device --from FILE`` on the other.
Each case runs in a worker process: one that loses its GPU context, dies or hangs costs that case.  Exits 1 if any
verdict differs or any case was not judged on both lanes, and 2 if none was: a worker that does not begin, dies, is late
or raises gives no verdict.  ``--memcheck`` runs the cases in which only the virtual GPU sees a fault of memory once
more, under compute-sanitizer: a read out of bounds changes nothing on a GPU whose neighbouring memory is mapped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lane_workers import ILLEGAL, LOST, ROOT, Job, Outcome, load, run

LANES = ("virtual", "device")
FOUND = "FOUND"
#: Checks whose failure means that the launch did not return.
ENDING = frozenset({"memory", "raises"})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contracts", nargs="*", metavar="CONTRACT")
    parser.add_argument("--impl", metavar="NAME")
    parser.add_argument("--cases", type=int, default=20, metavar="N", help="drawn cases besides the pinned ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="workers with a virtual GPU")
    parser.add_argument("--devices", type=int, default=2, metavar="N", help="workers that share the GPU")
    parser.add_argument("--profile", default="sm_90", metavar="ARCH", help="the virtual GPU's (default: %(default)s)")
    parser.add_argument("--memcheck", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what each lane says here")
    parser.add_argument("--lane", action="append", choices=LANES, help="only this one (default: both)")
    parser.add_argument("--from", type=Path, dest="before", metavar="FILE", help="go on from what --json wrote")
    options = parser.parse_args()
    if options.lane and not options.json and not options.before:
        parser.error("--lane without --from needs --json: one lane alone has no difference")
    began = time.monotonic()
    jobs, found = read(options.before) if options.before else (plan(options), {})
    workers = {"virtual": options.jobs, "device": options.devices}
    found |= run(jobs, {lane: workers[lane] for lane in options.lane or LANES}, options.profile, options.impl)
    if any((lane, job) not in found for lane in LANES for job in jobs):
        write(options.json, jobs, found, {})
        lost = sum(not outcome.judged for outcome in found.values())
        sys.stdout.write(f"{len(found)} outcomes of one lane in {options.json}, {lost} without a verdict\n")
        return status(different=0, lost=lost, of=len(found))
    checked = memcheck(jobs, found, options) if options.memcheck else {}
    different = report(jobs, found, checked)
    if options.json:
        write(options.json, jobs, found, checked)
    lost = len(not_compared(jobs, found))
    sys.stdout.write(
        f"{len(jobs)} cases on two lanes in {time.monotonic() - began:.0f} s: {different} differ, {lost} not compared\n"
    )
    return status(different=different, lost=lost, of=len(jobs))


def status(*, different: int, lost: int, of: int) -> int:
    """Return the exit status for ``of`` cases, of which ``different`` differ and ``lost`` have no verdict."""
    return 2 if lost == of else int(different + lost > 0)


def not_compared(jobs: Sequence[Job], found: dict[tuple[str, Job], Outcome]) -> list[Job]:
    """Return the jobs without a verdict of both lanes."""
    return [job for job in jobs if not all(found[lane, job].judged for lane in LANES)]


def read(file: Path) -> tuple[list[Job], dict[tuple[str, Job], Outcome]]:
    """Return the jobs and outcomes that ``write`` wrote."""
    rows = json.loads(file.read_text())
    jobs = [Job(row["contract"], row["implementation"], row["case"]) for row in rows]
    found = {}
    for job, row in zip(jobs, rows, strict=True):
        for lane in LANES:
            if lane in row:
                found[lane, job] = Outcome(set(row[lane]["reached"]), row[lane]["failed"], row[lane]["ended"])
    return jobs, found


def plan(options: argparse.Namespace) -> list[Job]:
    """Return every case and every illegal call of what was chosen."""
    from harness import selection
    from harness.memcheck import choice

    load(options.impl)
    jobs = []
    for contract, implementation in selection.pairs(options.contracts, options.impl):
        cases = choice.cases(
            contract, implementation, pinned=len(contract.pinned), drawn=options.cases, seed=options.seed
        )
        texts = [repr(case) for case in cases]
        texts += [f"{ILLEGAL}{rejection.label}" for rejection in contract.rejects()]
        jobs += [Job(contract.name, implementation.name, text) for text in texts]
    return jobs


def memcheck(jobs: Sequence[Job], found: dict[tuple[str, Job], Outcome], options: argparse.Namespace) -> dict[Job, str]:
    """Return what compute-sanitizer says of the cases where only the virtual GPU found a fault of memory."""
    from harness import discover
    from harness.memcheck import lane

    asked = [
        job
        for job in jobs
        if found["virtual", job].says("memory") == "FAIL" and found["device", job].says("memory") == "PASS"
    ]
    named, folder = discover.configured(ROOT)
    modules = (*named, *discover.adapters(options.impl))
    watched = [
        lane.Job(
            contract=job.contract,
            implementation=job.implementation,
            modules=modules,
            folder=str(folder),
            cases=(job.case,),
        )
        for job in asked
    ]
    results = lane.run(watched, watching=["memcheck"], children=options.jobs)
    return {job: _said(found["virtual", job].failed["memory"], one) for job, one in zip(asked, results, strict=True)}


def _said(virtual: str, result: Any) -> str:
    """Return ``"FOUND in the same kernel: ..."`` with the line; of a long statement each may name another."""
    findings = result.judgement.findings
    if not findings:
        return f"{result.judgement.verdict}: {result.judgement.note or 'nothing found'}"
    where = "in the same kernel" if any(f"in {one.first.kernel} (" in virtual for one in findings) else "elsewhere"
    return f"{FOUND} {where}: {result.judgement.findings[0]}".replace("\n", ";")


def differences(
    job: Job, found: dict[tuple[str, Job], Outcome], checked: dict[Job, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield (check, virtual, device) where the lanes differ.

    What one did not reach after a fault is no difference, nor is a fault of memory that compute-sanitizer sees too, or
    poison: an access between the elements of an argument stays within its allocation, where the tool has nothing to
    see, but what lies there reaches the output.  Nor is an index out of range for which torch raises on a CPU and
    asserts on a device.
    """
    virtual, device = (found[lane, job] for lane in LANES)
    if LOST in device.failed:
        # an assertion on the device: on the virtual GPU it is a fault of the check that launched, any of them
        if not virtual.failed:
            yield LOST, "PASS", "FAIL"
        return
    if all(not ENDING.isdisjoint(outcome.failed) for outcome in (virtual, device)):
        return
    for check in sorted(virtual.reached | device.reached | virtual.failed.keys() | device.failed.keys()):
        said = virtual.says(check), device.says(check)
        seen = check == "memory" and (checked.get(job, "").startswith(FOUND) or _padding_read(device))
        if said[0] != said[1] and "-" not in said and not seen:
            yield check, *said


def _padding_read(device: Outcome) -> bool:
    """Return whether what lies beside the elements of an argument changed the output."""
    return any(check.startswith("poison:") and check.endswith("padding") for check in device.failed)


def report(jobs: Sequence[Job], found: dict[tuple[str, Job], Outcome], checked: dict[Job, str]) -> int:
    """Print every difference, and for each implementation how many cases agree; returns how many do not."""
    different = 0
    tally: dict[str, Counter[str]] = {}
    for job in jobs:
        counts = tally.setdefault(f"{job.contract} {job.implementation}", Counter())
        lines = [f"  {check}: virtual {one}, device {other}" for check, one, other in differences(job, found, checked)]
        ends = [f"  {lane}: {ended}" for lane in LANES if (ended := found[lane, job].ended)]
        counts["cases"] += 1
        counts["differ"] += bool(lines)
        counts["not compared"] += bool(not_compared([job], found))
        counts["ended otherwise"] += bool(ends)
        by_tool = checked.get(job, "").startswith(FOUND)
        counts["a fault of memory, seen by compute-sanitizer too"] += by_tool
        counts["by poison in the padding"] += job in checked and not by_tool and _padding_read(found["device", job])
        different += bool(lines)
        if not lines and not ends and job not in checked:
            continue
        sys.stdout.write(f"{job.contract} {job.implementation} {job.case}\n")
        for check, _, _ in differences(job, found, checked):
            for lane in LANES:
                if message := found[lane, job].failed.get(check):
                    lines.append(f"    {lane} {check}: {message[:300]}")
        if job in checked:
            lines.append(f"  compute-sanitizer: {checked[job][:400]}")
        sys.stdout.write("\n".join([*lines, *ends, ""]))
    for name, counts in tally.items():
        sys.stdout.write(f"{name}: {', '.join(f'{number} {what}' for what, number in counts.items())}\n")
    return different


def write(file: Path, jobs: Sequence[Job], found: dict[tuple[str, Job], Outcome], checked: dict[Job, str]) -> None:
    rows = []
    for job in jobs:
        row: dict[str, Any] = {**vars(job), "sanitizer": checked.get(job)}
        for lane in LANES:
            if (lane, job) in found:
                row[lane] = {**vars(found[lane, job]), "reached": sorted(found[lane, job].reached)}
        rows.append(row)
    file.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
