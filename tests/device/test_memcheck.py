"""compute-sanitizer on a real device: each planted fault is found by its tool, at its line, and nothing else is."""

from pathlib import Path

import pytest

from harness.device import detect
from harness.hardware import placing
from harness.memcheck import lane
from harness.report.records import Verdict

pytestmark = [pytest.mark.cuda, pytest.mark.isolated(deadline=200.0)]

ROOT = Path(__file__).parents[2]
PLANTS = "tests.device.memcheck_plants"
#: Implementation -> (the tool that finds its fault, what it says, the kernel).
FOUND = {
    "out-of-bounds": ("memcheck", "Invalid __global__ write of size 4 bytes", "copy_kernel"),
    "race": ("racecheck", "Race reported between Write access", "exchange_kernel"),
    "unwritten": ("initcheck", "Uninitialized __global__ memory read", "copy_kernel"),
    "half-a-barrier": ("synccheck", "Barrier error detected", "half_a_barrier_kernel"),
}
#: Tool -> implementations in which it finds nothing, or nothing that counts.
SOUND = {
    "memcheck": ("clean", "known"),
    "racecheck": ("clean", "with-barrier"),
    "initcheck": ("clean", "library"),
    "synccheck": ("clean", "with-barrier"),
}


@pytest.fixture
def job(gpu_target):
    """Makes the job of a plant, called by name."""
    device = placing.device_for(gpu_target, detect()).index

    def make(name, **changes):
        stated = {"modules": (PLANTS,), "folder": str(ROOT), "device": device, "pinned": 2, "drawn": 0, **changes}
        return lane.Job(contract="planted", implementation=name, **stated)

    return make


def lines_of(kernel):
    """First and last line of a kernel among the plants."""
    lines = Path(__file__).with_name("memcheck_plants.py").read_text().splitlines()
    start = next(number for number, line in enumerate(lines, start=1) if line.startswith(f"def {kernel}("))
    return start, next(number for number in range(start, len(lines)) if not lines[number - 1].strip())


def complaint(result):
    """What is wrong with the result of one plant under one tool, or None."""
    name, judgement = result.job.implementation, result.judgement
    if name in SOUND[result.tool]:
        expected = Verdict.KNOWN if name == "known" else Verdict.PASS
        return None if judgement.verdict is expected and judgement.cases == 2 else f"it is no {expected}"
    if judgement.verdict is not Verdict.FAIL:
        return "the fault is not found"
    _, kind, kernel = FOUND[name]
    first = judgement.findings[0].first
    if (first.kernel, first.file, first.case) != (kernel, "memcheck_plants.py", "Case(length=128)"):
        return f"{first} is not where the fault is"
    start, end = lines_of(kernel)
    return None if first.kind.startswith(kind) and start < first.line <= end else f"{first} is not the fault"


@pytest.mark.parametrize("planted", FOUND)
def test_its_tool_finds_the_planted_fault_at_its_line_and_nothing_elsewhere(planted, job):
    tool = FOUND[planted][0]
    jobs = [job(name) for name in (planted, *SOUND[tool])]
    results = lane.run(jobs, watching=[tool], children=3, excused=lambda job, tool, case: job.implementation == "known")
    complaints = {
        result.job.implementation: (said, result.judgement.note, result.output[-2000:])
        for result in results
        if (said := complaint(result))
    }
    assert complaints == {}
    if tool == "initcheck":
        assert "reports about kernels of libraries do not count: at::native::" in results[-1].judgement.note


def test_a_hang_ends_at_its_deadline(job):
    [hung] = lane.run([job("hang", pinned=1)], watching=["memcheck"], deadline=12.0)
    assert hung.judgement.verdict is Verdict.TIMEOUT
    assert "not done after 12 s" in hung.judgement.note
