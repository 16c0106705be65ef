"""What must hold for the sanitizer lane: checks that take the modules to check, so that teeth run them on planted ones.

The output they read was recorded on an H200 (``recordings/memcheck``), or is put together from lines of it.
"""

import importlib
import json
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import torch

from harness import discover, known_file, registry
from harness.contract import Implementation
from harness.device import Device, Machine
from harness.report.records import Verdict

RECORDED = Path(__file__).parent / "recordings" / "memcheck"
NATIVE = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<int>>(int, T2, T3)"


def recorded(name):
    return (RECORDED / f"{name}.txt").read_text()


def message(api, kind, **content):
    return f"{api.stream.MARK}{json.dumps({'kind': kind, **content})}\n"


def reports(*kernels, kind="Uninitialized __global__ memory read of size 4 bytes", file="a.py", line=7):
    """The lines of a report about each of ``kernels``; without ``file`` no place is known, as for a library's."""
    place = f" in {file}:{line}" if file else ""
    return "".join(
        f"========= {kind}\n=========     at {kernel}+0xf0{place}\n"
        f"=========     by thread ({number},0,0) in block (0,0,0)\n=========     Address 0x7fd4ec8000{number:02x}\n"
        "========= \n"
        for number, kernel in enumerate(kernels)
    )


def whole(api, *said, count=0, unprinted=0, raised=""):
    """What a run prints that launches two cases; ``said`` is printed during each of them in turn."""
    lines = ["========= COMPUTE-SANITIZER\n"]
    for number in range(max(2, len(said))):
        lines += [message(api, "case", case=f"Case({number})"), *said[number : number + 1]]
        lines.append(message(api, "raised", message=raised) if raised else message(api, "end"))
    lines += [message(api, "done"), f"========= ERROR SUMMARY: {count} error{'' if count == 1 else 's'}\n"]
    if unprinted:
        lines.append(
            f"========= ERROR SUMMARY: {unprinted} errors were not printed."
            " Use --print-limit option to adjust the number of printed errors\n"
        )
    return "".join(lines)


def judged(api, text, tool="memcheck", **options):
    return api.judge.judge(tool, api.stream.parse(text), **options)


def each_tools_report_is_read(api):
    for tool, name, kind, kernel, often in (
        ("memcheck", "out-of-bounds", "Invalid __global__ write of size 4 bytes", "copy_kernel", 1),
        ("racecheck", "race", "Race reported between Write access", "exchange_kernel", 512),
        ("initcheck", "unwritten", "Uninitialized __global__ memory read of size 4 bytes", "copy_kernel", 3),
        (
            "synccheck", "half-a-barrier", "Barrier error detected. Divergent thread(s) in warp.",
            "half_a_barrier_kernel", 3,
        ),
    ):  # fmt: skip
        judgement = judged(api, recorded(f"{tool}-{name}"), tool)
        assert judgement.verdict is Verdict.FAIL
        finding = judgement.findings[0]
        assert (finding.first.kind, finding.first.kernel, finding.often) == (kind, kernel, often)
        assert finding.first.file == "memcheck_plants.py"
        assert finding.first.line > 1
        assert finding.first.case == "Case(length=128)"
        assert str(finding).startswith(f"{kind} in {kernel} at memcheck_plants.py:{finding.first.line}")
        assert {fault.check for fault in judgement.faults} == {tool}


def an_address_is_read(api):
    first = judged(api, recorded("memcheck-out-of-bounds")).findings[0].first
    assert first.address.startswith("0x7")
    assert f"Access to {first.address} is out of bounds" in first.details
    assert api.stream.parse(whole(api, reports("mine"), count=1)).reports[0].address == "0x7fd4ec800000"


def a_clean_run_passes(api):
    for tool in ("memcheck", "racecheck"):
        judgement = judged(api, recorded(f"{tool}-clean"), tool)
        assert (judgement.verdict, judgement.cases, judgement.note) == (Verdict.PASS, 2, "")


def reports_belong_to_their_case(api):
    text = whole(api, reports("mine"), reports("mine", "mine"), count=3)
    assert [(one.first.case, one.often) for one in judged(api, text).findings] == [("Case(0)", 1), ("Case(1)", 2)]
    assert [fault.case for fault in judged(api, text).faults] == ["Case(0)", "Case(1)"]
    # a report that our own line follows at once
    assert [one.first.case for one in judged(api, text.replace("========= \n", "")).findings] == ["Case(0)", "Case(1)"]


def places_are_told_apart(api):
    text = whole(api, reports("mine", line=7) + reports("mine", line=8) + reports("other", line=8), count=3)
    assert [(one.first.kernel, one.first.line) for one in judged(api, text).findings] == [
        ("mine", 7), ("mine", 8), ("other", 8),
    ]  # fmt: skip


def noise_of_libraries_is_counted_and_not_judged(api):
    for tool, file in (("initcheck", ""), ("racecheck", ""), ("racecheck", "Copy.cuh")):
        judgement = judged(api, whole(api, reports(NATIVE, NATIVE, file=file), count=2), tool)
        assert judgement.verdict is Verdict.PASS
        assert judgement.note.startswith("2 reports about kernels of libraries do not count: at::native::vectorized_")
    both = judged(api, whole(api, reports(NATIVE, file="") + reports("mine"), count=2), "initcheck")
    assert [one.first.kernel for one in both.findings] == ["mine"]
    real = judged(api, recorded("initcheck-library"), "initcheck")
    assert real.verdict is Verdict.PASS
    assert real.note.startswith("5 reports about kernels of libraries do not count: at::native::vectorized_")


def a_kernel_in_python_counts_whatever_its_name(api):
    for name in ("gemm_kernel", "gemv", "sm90_decode", "cutlass_like", "volta_attend", "splitKreduce_mine"):
        assert api.judge.is_library(name), name
        for tool in ("initcheck", "racecheck"):
            judgement = judged(api, whole(api, reports(name, file="moe.py"), count=1), tool)
            assert (judgement.verdict, judgement.note) == (Verdict.FAIL, ""), name
            assert judged(api, whole(api, reports(name, file=""), count=1), tool).verdict is Verdict.PASS


def an_access_of_a_library_out_of_bounds_counts(api):
    for tool in ("memcheck", "synccheck"):
        assert judged(api, whole(api, reports(NATIVE, file=""), count=1), tool).verdict is Verdict.FAIL


def a_kernel_is_not_a_library_for_its_name(api):
    for name in ("_attend", "attention_kernel", "at_kernel", "cubic", "thrust_kernel", "my::at::kernel", "exchange"):
        assert not api.judge.is_library(name), name
    for name in (NATIVE, "at::cuda::copy", "void cub::DeviceScan<int>", "sm90_xmma_gemm_f16", "nvjet_hsh_128x8"):
        assert api.judge.is_library(name), name


def what_was_not_understood_is_no_pass(api):
    for text, said in (
        (whole(api, count=1), "the tool printed 1 reports, 0 were understood"),
        (whole(api).replace("ERROR SUMMARY", "ERRORS"), "no summary"),
        (whole(api).replace(message(api, "done"), "Killed\n"), "not all cases ran; last words: Killed"),
        (message(api, "done") + "========= ERROR SUMMARY: 0 errors\n", "no case ran"),
        (whole(api) + "========= Error: Device not supported. Please refer to the manual\n", "Device not supported"),
        ("", "not all cases ran; last words: nothing"),
    ):
        judgement = judged(api, text)
        assert judgement.verdict is Verdict.CRASH, text
        assert said in judgement.note


def reports_that_were_not_printed_may_count(api):
    text = whole(api, reports(NATIVE, file=""), count=3, unprinted=2)
    judgement = judged(api, text, "initcheck")
    assert judgement.verdict is Verdict.CRASH
    assert "the tool stopped printing" in judgement.note
    ours = judged(api, whole(api, reports("mine"), count=3, unprinted=2), "initcheck")
    assert ours.verdict is Verdict.FAIL
    assert "2 more reports were not printed" in ours.note


def a_ruler_of_equals_signs_is_not_the_tools(api):
    """Triton frames what ptxas says with one."""
    said = "=" * 64 + "\nInternal Triton PTX codegen error\n"
    judgement = judged(api, whole(api, said))
    assert (judgement.verdict, judgement.note) == (Verdict.PASS, "")


def an_end_before_its_time_is_no_pass(api):
    assert judged(api, whole(api), ended="killed by SIGKILL").verdict is Verdict.CRASH
    assert judged(api, whole(api), ended="late: not done after 9 s").verdict is Verdict.TIMEOUT
    found = judged(api, whole(api, reports("mine"), count=1), ended="exited with status 6")
    assert found.verdict is Verdict.FAIL
    assert "exited with status 6" in found.note


def a_launch_that_raises_fails(api):
    judgement = judged(api, whole(api, raised="ValueError: x"))
    assert judgement.verdict is Verdict.FAIL
    assert [(fault.check, fault.message) for fault in judgement.faults] == [("raises", "ValueError: x")] * 2
    # the report says it all
    stopped = judged(api, whole(api, reports("mine"), reports("mine"), count=2, raised="CUDA error"))
    assert {fault.check for fault in stopped.faults} == {"memcheck"}


def noise_explains_no_launch_that_raises(api):
    text = whole(api, reports(NATIVE, file=""), reports(NATIVE, file=""), count=2, raised="ValueError: x")
    judgement = judged(api, text, "initcheck")
    assert judgement.verdict is Verdict.FAIL
    assert [(fault.check, fault.case) for fault in judgement.faults] == [("raises", "Case(0)"), ("raises", "Case(1)")]


def known_failures_are_excused_by_case(api):
    text = whole(api, reports("mine"), reports("mine"), count=2)
    first = judged(api, text, excused=lambda case: case == "Case(0)")
    assert [one.first.case for one in first.findings] == ["Case(1)"]
    assert judged(api, text, excused=lambda case: True).verdict is Verdict.KNOWN
    assert judged(api, whole(api), excused=lambda case: True).verdict is Verdict.PASS


def cases_left_out_are_told(api):
    out = message(api, "left out", case="Case(9)", reason="its arguments take 99 MiB")
    judgement = judged(api, out + whole(api))
    assert (judgement.verdict, judgement.cases, judgement.left_out) == (Verdict.PASS, 2, 1)
    assert judgement.note == "1 cases left out: its arguments take 99 MiB"


def a_job_is_for_a_device_that_its_implementation_runs_on(api):
    devices = tuple(Device(index=i, vendor="cuda", arch=arch, units=8) for i, arch in enumerate(("sm_80", "sm_90")))

    def of(*targets, emulated=""):
        wanting = SimpleNamespace(requires=SimpleNamespace(targets=targets))
        with patch.object(api.command, "detect", lambda: Machine(devices=devices)):
            return api.command._device(wanting, emulated)

    assert (of(), of("sm90"), of("sm80", "sm90")) == (0, 1, 0)
    # an sm_80 cannot stand in for it
    assert of(emulated="sm_120") == 1


def a_child_uses_the_device_that_its_job_names(api):
    used = []

    def moved(given, device):
        used.append(device.index)
        raise KeyboardInterrupt

    contract = SimpleNamespace(name="a", inputs=lambda case, device, poison: {})
    implementation = SimpleNamespace(name="b")
    room = api._child.__name__.rpartition(".")[0]
    inputs, choice = (importlib.import_module(f"{room}.{name}") for name in ("inputs", "choice"))
    with (
        patch.object(torch.cuda, "set_device", lambda device: used.append(device.index)),
        patch.object(discover, "load", lambda modules, folder: None),
        patch.multiple(registry, contract=lambda name: contract, implementations=lambda name: [implementation]),
        patch.object(inputs, "moved", moved),
        patch.multiple(choice, of_job=lambda *asked: [0], instead=lambda *asked: iter(())),
        suppress(KeyboardInterrupt),
    ):
        api._child.main(vars(api.lane.Job(contract="a", implementation="b", device=1)) | {"modules": ()})
    assert used == [1, 1]


def sizes_alone_are_no_reason_to_do_nothing(api):
    large, other = (
        message(api, "left out", case="Case(9)", reason=reason)
        for reason in ("its arguments take 99 MiB", "needs sm_100, found sm_90")
    )
    end = message(api, "done") + "========= ERROR SUMMARY: 0 errors\n"
    judgement = judged(api, large + large + end)
    assert not judgement.idle
    assert not judgement.verdict.good
    assert "2 cases left out: its arguments take 99 MiB" in judgement.note
    assert judged(api, large + other + end).idle


def a_child_chooses_cases_by_what_a_file_excuses(api):
    told = []
    contract = SimpleNamespace(name="a", features=lambda case: frozenset())
    choice = importlib.import_module(f"{api._child.__name__.rpartition('.')[0]}.choice")
    entries = {"known.toml": (known_file.Entry(contract="a", issue="#5", kind="quarantine"),)}

    def of_job(contract, implementation, job):
        told.append([known.issue for known in implementation.known])
        return []

    with (
        patch.object(torch.cuda, "set_device", lambda device: None),
        patch.object(discover, "load", lambda modules, folder: None),
        patch.object(known_file, "read", lambda path: entries[str(path)]),
        patch.multiple(
            registry,
            contract=lambda name: contract,
            implementations=lambda name: [Implementation(contract="a", name="b", launch=None)],
        ),
        patch.multiple(choice, of_job=of_job, instead=lambda *asked: iter(())),
        patch.object(api._child, "say", lambda kind: None),
    ):
        for known in ("", "known.toml"):
            api._child.main(vars(api.lane.Job(contract="a", implementation="b", known=known)) | {"modules": ()})
    assert told == [[], ["#5"]]


def only_who_left_everything_out_was_idle(api):
    out = message(api, "left out", case="Case(9)", reason="needs sm_100, found sm_90")
    begun = message(api, "case", case="Case(1)")
    end = message(api, "done") + "========= ERROR SUMMARY: 0 errors\n"
    assert judged(api, out + end).idle
    assert judged(api, out + end).note == "needs sm_100, found sm_90"
    assert judged(api, out + end).verdict is Verdict.CRASH
    for text, ended in (
        (end, ""),
        (out + end, "exited with status 6"),
        (out + "========= ERROR SUMMARY: 0 errors\n", ""),
        (out + begun + message(api, "end") + end, ""),
        (out + begun + message(api, "raised", message="ValueError: x") + end, ""),
    ):
        assert not judged(api, text, ended=ended).idle, text


CHECKS = {
    check.__name__: check
    for check in (
        each_tools_report_is_read, an_address_is_read, a_clean_run_passes, reports_belong_to_their_case,
        places_are_told_apart, noise_of_libraries_is_counted_and_not_judged,
        a_kernel_in_python_counts_whatever_its_name, noise_explains_no_launch_that_raises,
        an_access_of_a_library_out_of_bounds_counts, a_kernel_is_not_a_library_for_its_name,
        what_was_not_understood_is_no_pass, a_ruler_of_equals_signs_is_not_the_tools,
        reports_that_were_not_printed_may_count,
        an_end_before_its_time_is_no_pass, a_launch_that_raises_fails, known_failures_are_excused_by_case,
        a_job_is_for_a_device_that_its_implementation_runs_on, a_child_uses_the_device_that_its_job_names,
        cases_left_out_are_told, sizes_alone_are_no_reason_to_do_nothing,
        a_child_chooses_cases_by_what_a_file_excuses, only_who_left_everything_out_was_idle,
    )
}  # fmt: skip
