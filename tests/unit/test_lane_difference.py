"""``ci/lane_difference.py``: which verdicts of the two lanes differ, and which only seem to."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.memcheck.judge import Finding
from harness.memcheck.stream import Report
from harness.report.records import Verdict

SCRIPT = Path(__file__).parents[2] / "ci" / "lane_difference.py"
VIRTUAL = "out of bounds load in _gemv (mxfp4.py:119): argument B_ptr, program (0, 0, 0)"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("lane_difference", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up by name
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        patch.setitem(sys.modules, "lane_difference", module)
        spec.loader.exec_module(module)
        yield module


def found(script, virtual, device):
    """Both outcomes of one job, each as (checks reached, checks failed)."""
    job = script.Job("mxfp4_moe", "sglang-slot", "Case()")
    outcomes = {
        ("virtual", job): script.Outcome(set(virtual[0]), {check: VIRTUAL for check in virtual[1]}),
        ("device", job): script.Outcome(set(device[0]), dict.fromkeys(device[1], "why")),
    }
    return job, outcomes


@pytest.mark.parametrize(
    ("virtual", "device", "expected"),
    [
        ((["memory", "repeat"], []), (["memory", "repeat"], []), []),
        ((["repeat"], ["repeat"]), (["repeat"], ["repeat"]), []),
        ((["oracle:out"], ["oracle:out"]), (["oracle:out"], []), [("oracle:out", "FAIL", "PASS")]),
        ((["oracle:out"], []), (["oracle:out"], ["oracle:out"]), [("oracle:out", "PASS", "FAIL")]),
        # torch raises on a CPU what it asserts on a device
        ((["memory", "raises"], ["raises"]), (["memory"], ["memory"]), []),
        ((["memory", "raises"], ["raises"]), (["memory", "raises"], []), [("raises", "FAIL", "PASS")]),
        # a fault of memory ends the case on the virtual GPU: what comes later was not reached there
        ((["memory"], ["memory"]), (["memory", "repeat"], ["repeat"]), [("memory", "FAIL", "PASS")]),
    ],
)
def test_a_difference_is_a_check_that_both_reached(script, virtual, device, expected):
    job, outcomes = found(script, virtual, device)
    assert list(script.differences(job, outcomes, {})) == expected


def test_a_fault_of_memory_that_the_tool_sees_too_is_none(script, capsys):
    job, outcomes = found(script, (["memory"], ["memory"]), (["memory"], []))
    seen = {job: f"{script.FOUND} in the same kernel: Invalid read"}
    assert list(script.differences(job, outcomes, seen)) == []
    assert script.report([job], outcomes, seen) == 0
    assert "compute-sanitizer: FOUND in the same kernel" in capsys.readouterr().out
    assert script.report([job], outcomes, {job: "PASS: nothing found"}) == 1
    assert "memory: virtual FAIL, device PASS" in capsys.readouterr().out


@pytest.mark.parametrize(("poisoned", "different"), [("poison:hidden row padding", 0), ("poison:unrouted experts", 1)])
def test_a_fault_of_memory_whose_padding_reaches_the_output_is_none(script, capsys, poisoned, different):
    job, outcomes = found(script, (["memory"], ["memory"]), (["memory", poisoned], [poisoned]))
    assert script.report([job], outcomes, {job: "PASS: nothing found"}) == different
    assert f"{1 - different} by poison in the padding" in capsys.readouterr().out


def test_the_same_access_is_one_in_the_same_kernel(script):
    def said(kernel):
        report = Report(kind="Invalid __global__ read of size 1 bytes", kernel=kernel, file="mxfp4.py", line=113)
        judgement = SimpleNamespace(findings=[Finding(first=report, often=3)], verdict=Verdict.FAIL, note="")
        return script._said(VIRTUAL, SimpleNamespace(judgement=judgement))

    assert said("_gemv").startswith(
        "FOUND in the same kernel: Invalid __global__ read of size 1 bytes in _gemv at mxfp4.py:113"
    )
    assert said("_gemv_other").startswith("FOUND elsewhere:")
    none = SimpleNamespace(judgement=SimpleNamespace(findings=[], verdict=Verdict.PASS, note=""))
    assert script._said(VIRTUAL, none) == "PASS: nothing found"


def test_a_lost_context_is_a_difference_where_the_virtual_gpu_finds_nothing(script):
    job, outcomes = found(script, (["memory", "poison:lanes"], ["poison:lanes"]), ([], [script.LOST]))
    assert list(script.differences(job, outcomes, {})) == []
    job, outcomes = found(script, (["memory", "poison:lanes"], []), ([], [script.LOST]))
    assert list(script.differences(job, outcomes, {})) == [(script.LOST, "PASS", "FAIL")]


OK, UNSURE, NEVER = "", "untrusted: oracle:out", "not begun: died with exit status 1: no module named x"


def whole_run(script, monkeypatch, file, ends, *arguments, failed=()):
    """The exit status of a run over one job for each (virtual end, device end) of ``ends``."""
    jobs = [script.Job("mxfp4_moe", "sglang-slot", f"Case({number})") for number in range(len(ends))]

    def run(jobs, workers, profile, impl):
        found = {}
        for number, job in enumerate(jobs):
            for lane in workers:
                ended = ends[number][script.LANES.index(lane)]
                judged = not ended or ended == UNSURE
                wrong = dict.fromkeys(failed, "why") if lane == "device" and judged else {}
                found[lane, job] = script.Outcome({"oracle:out"} if judged else set(), wrong, ended)
        return found

    monkeypatch.setattr(script, "plan", lambda options: jobs)
    monkeypatch.setattr(script, "run", run)
    monkeypatch.setattr(sys, "argv", ["lane_difference.py", "--json", str(file), *arguments])
    return script.main()


@pytest.mark.parametrize(
    ("ends", "failed", "expected"),
    [
        ([(OK, OK), (OK, UNSURE)], (), 0),
        ([(OK, OK), (OK, OK)], ("oracle:out",), 1),
        ([(OK, OK), (OK, NEVER)], (), 1),
        ([(OK, OK), ("died with exit status 139: segmentation fault", OK)], (), 1),
        ([(OK, OK), (OK, "late: nothing for 100 s")], (), 1),
        ([(OK, OK), (OK, "RuntimeError: x")], (), 1),
        ([(OK, NEVER), (OK, NEVER)], (), 2),
        ([(OK, NEVER), ("late: nothing for 100 s", OK)], (), 2),
        ([], (), 2),
    ],
)
def test_a_case_without_a_verdict_is_no_agreement(script, monkeypatch, tmp_path, capsys, ends, failed, expected):
    assert whole_run(script, monkeypatch, tmp_path / "f.json", ends, failed=failed) == expected
    lost = sum(any(end not in (OK, UNSURE) for end in both) for both in ends)
    assert f"{lost} not compared" in capsys.readouterr().out


@pytest.mark.parametrize(("ends", "expected"), [([OK, UNSURE], 0), ([OK, NEVER], 1), ([NEVER, NEVER], 2)])
def test_a_lane_alone_that_did_not_run_says_so(script, monkeypatch, tmp_path, capsys, ends, expected):
    file = tmp_path / "f.json"
    both = [(OK, end) for end in ends]
    assert whole_run(script, monkeypatch, file, both, "--lane", "device") == expected
    assert f"{ends.count(NEVER)} without a verdict" in capsys.readouterr().out
    # what was not judged there stays so in what goes on from it
    monkeypatch.setattr(sys, "argv", ["lane_difference.py", "--lane", "virtual", "--from", str(file)])
    assert script.main() == expected


def test_a_lost_context_is_a_verdict(script):
    assert script.Outcome(set(), {script.LOST: "why"}, "context lost").judged
