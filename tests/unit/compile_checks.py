"""What the compile lane must see, as checks of its modules: the real ones, and in tests/teeth ones with a fault.

Every check takes ``api``, whose attributes are the modules of ``harness.compiling``.
"""

import inspect
import os
import signal
import time
from dataclasses import replace
from functools import partial

import torch

from harness.contract import Compiles, Contract, Expected, Implementation
from harness.device.targets import target_of
from harness.tolerance import Exact
from tests.unit import compile_kernels
from tests.unit.compile_launch_checks import LAUNCH_CHECKS
from tests.unit.sharing_checks import SHARING_CHECKS
from tests.unit.wgmma_checks import WGMMA_CHECKS

SPILLING = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spilling' for 'sm_90a'
ptxas info    : Function properties for spilling
    1688 bytes stack frame, 4824 bytes spill stores, 6008 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 1688 bytes cumulative stack size
ptxas info    : Compile time = 14705.547 ms
"""
#: An indexed local array: a stack, and not a spill.
STACKED = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'stacked' for 'sm_90a'
ptxas info    : Function properties for stacked
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 9 registers, used 2 barriers, 8 bytes cumulative stack size, 512 bytes smem
ptxas info    : Compile time = 19.135 ms
"""
AMD = """\
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .offset:         0
    .group_segment_fixed_size: 0
    .max_flat_workgroup_size: 256
    .name:           kernel
    .private_segment_fixed_size: 24
    .sgpr_count:     30
    .sgpr_spill_count: 2
    .symbol:         kernel.kd
    .vgpr_count:     128
    .vgpr_spill_count: 6
    .wavefront_size: 64
"""
REFUSED = (
    "PTXASError",
    "PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\n"
    "ptxas /tmp/tmpab12cd34.ptx, line 118; error   : Feature '.tile::scatter4' not supported on .target 'sm_120a'\n"
    "ptxas /tmp/tmpab12cd34.ptx, line 131; error   : Feature '.tile::scatter4' not supported on .target 'sm_120a'\n"
    "ptxas fatal   : Ptx assembly aborted due to errors\n\n"
    "Repro command: /usr/lib/triton/ptxas -v --gpu-name=sm_120a /tmp/tmpab12cd34.ptx -o /tmp/tmpab12cd34.ptx.o\n",
)
WORDS = "Feature '.tile::scatter4' not supported on .target 'sm_120a'"


def figures(api, **changes):
    return api.figures.Figures(**{"registers": 64, "shared": 1024, "barriers": 1} | changes)


def compiled(api, **changes):
    return api.figures.Result(ending="compiled", figures=figures(api, **changes))


def a_stack_is_no_spill(api):
    stacked, spilling = api.ptxas.parse(STACKED), api.ptxas.parse(SPILLING)
    assert (stacked.stack, stacked.spill_stores, stacked.spill_loads) == (8, 0, 0)
    assert (stacked.registers, stacked.barriers, stacked.shared_static) == (9, 2, 512)
    assert (spilling.stack, spilling.spill_stores, spilling.spill_loads) == (1688, 4824, 6008)
    assert (spilling.registers, spilling.barriers, spilling.shared_static) == (24, 1, 0)


def amd_metadata_is_read(api):
    info = api.amdgcn.parse(AMD)
    assert (info.vgprs, info.sgprs, info.vgpr_spills, info.sgpr_spills, info.scratch) == (128, 30, 6, 2, 24)
    assert info.spill_bytes == 24


def each_limit_is_kept(api):
    """101,376 bytes fit a block of sm_120 and one byte more does not, whatever the compilers say."""
    sm_120, gfx942 = target_of("sm_120"), target_of("gfx942")
    assert api.verdicts.judge(compiled(api, shared=101_376), sm_120).verdict == "FITS"
    found = api.verdicts.judge(compiled(api, shared=131_104), sm_120)
    assert (found.verdict, found.failing) == ("EXCEEDS", True)
    assert "131104 bytes of shared memory, 29728 more than the 101376" in found.message
    found = api.verdicts.judge(compiled(api, shared=101_000, shared_static=377), sm_120)
    assert found.verdict == "EXCEEDS"
    assert "101377 bytes of shared memory, 1 more than" in found.message
    assert api.verdicts.judge(compiled(api, shared=65_537), gfx942).verdict == "EXCEEDS"
    assert api.verdicts.judge(compiled(api, registers=255, num_warps=16), sm_120).verdict == "EXCEEDS"
    assert api.verdicts.judge(compiled(api, registers=128, num_warps=16), sm_120).verdict == "FITS"


def a_spill_fails(api):
    found = api.verdicts.judge(compiled(api, spill_stores=8, spill_loads=4), target_of("sm_90"))
    assert (found.verdict, found.failing) == ("SPILLS", True)
    assert "8 bytes stored, 4 loaded" in found.message


def a_missing_instruction_is_noticed(api):
    found = api.verdicts.judge(compiled(api, asked=("load", "scatter"), lowered=("scatter",)), target_of("sm_100"))
    assert (found.verdict, found.failing) == ("LOWERED", True)
    assert "scatter" in found.message
    gather = "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%rd1];"
    counted = api.instructions.count(gather, ptx=True)
    assert counted == {"TMA gather": 1}
    assert api.instructions.lowered(["load", "gather", "scatter"], counted) == ["load", "scatter"]


def a_refusal_is_in_the_assemblers_words(api):
    kind, text = REFUSED
    assert api.messages.refusal((kind, text), "") == WORDS
    assert api.messages.refusal((kind, text.replace("ptxas ", "ptxas-blackwell ")), "") == WORDS
    mlir = "k.py:7:3: error: no matching intrinsic\n    acc = tl.dot(a, b)\n"
    assert api.messages.refusal(("RuntimeError", "PassManager::run failed"), mlir) == "no matching intrinsic"
    assert api.messages.refusal(("ValueError", "in /opt/x/k.py:\nno"), "") == "ValueError: in k.py: no"


def a_refusal_of_the_front_end_says_why_and_where(api):
    """Triton's own text begins with the function, and has no reason where the function is inlined into another."""
    (specialisation,) = recorded(api, compile_kernels.refused, "sm_90", x=torch.zeros(16))
    (ended,) = api.workers.run([partial(api.compiler.compile_one, specialisation)], jobs=1, deadline=60.0)
    line = inspect.getsource(compile_kernels).partition("tl.static_assert(ROWS")[0].count("\n") + 1
    said = f"compile_kernels.py:{line} in _refusing: 16 rows are wanted"
    result = api.lane.result_of(ended)
    assert (result.ending, result.message) == ("refused", said)


def a_contract_without_anything_to_launch_is_noticed(api):
    def pair(name, workloads=(), pinned=(), declared=()):
        contract = Contract(
            name=name, cases=None, inputs=None, oracle=None, tolerance={"out": Exact()}, workloads=workloads,
            pinned=pinned,
        )  # fmt: skip
        return contract, Implementation(contract=name, name="a", launch=None, compiles=Compiles(cases=declared))

    pairs = [pair("real", (1,)), pair("pinned", (), (1,)), pair("declared", (), (), ("1",)), pair("bare")]
    assert api.plan.without_cases(pairs) == ["bare"]


def a_crash_is_in_the_compilers_words(api):
    output = (
        "note: something\n"
        "LLVM ERROR: Illegal shared layout #blocked<{}> in /src/lib/Layout.cpp\n"
        "#0 0x00007f12ab34 clone\n"
    )
    words = "LLVM ERROR: Illegal shared layout #blocked<{}> in Layout.cpp"
    assert api.messages.crash("SIGABRT", output) == f"SIGABRT: {words}"


def a_declaration_that_is_not_true_fails(api):
    sm_120 = target_of("sm_120")
    expected = Expected(verdict="REFUSED", targets=("sm120",), says="scatter4", because="no tile scatter")
    refused = api.figures.Result(ending="refused", message=WORDS)
    other = replace(refused, message="out of registers")
    assert api.verdicts.judge(refused, sm_120).failing
    found = api.verdicts.judge(refused, sm_120, expected=expected)
    assert (found.verdict, found.failing) == ("EXPECTED_REFUSED", False)
    found = api.verdicts.judge(compiled(api), sm_120, expected=expected)
    assert (found.verdict, found.failing) == ("STALE", True)
    assert "no tile scatter" in found.message
    found = api.verdicts.judge(other, sm_120, expected=expected)
    assert (found.verdict, found.failing) == ("REFUSED", True)
    assert "scatter4" in found.message


def recorded(api, launch, arch, **inputs):
    return api.recording.record(launch, inputs, target_of(arch))


def what_is_launched_is_what_is_compiled(api):
    """Divisibility, alignment, ones and every surviving configuration are those of the launch."""
    (even,) = recorded(api, compile_kernels.copy, "sm_90", x=torch.zeros(256))
    assert dict(even.arguments) == {"x_ptr": "*fp32:D", "out_ptr": "*fp32:D", "n": "i32:D"}
    (odd,) = recorded(api, compile_kernels.copy, "sm_90", x=torch.zeros(260)[1:])
    assert dict(odd.arguments) == {"x_ptr": "*fp32", "out_ptr": "*fp32:D", "n": "i32"}
    (one,) = recorded(api, compile_kernels.copy, "sm_90", x=torch.zeros(1))
    assert one.constants["n"] == 1
    hinted = [
        sum(["tt.divisibility", 16] in hints for hints in found.source.attrs.values()) for found in (even, odd, one)
    ]
    assert hinted == [3, 1, 2]
    tuned = recorded(api, compile_kernels.tuned, "sm_90", x=torch.zeros(256))
    assert [(found.constants["BLOCK"], found.options["num_warps"]) for found in tuned] == [(64, 1), (128, 2)]
    (described,) = recorded(api, compile_kernels.described, "sm_90", x=torch.zeros(32, 64))
    assert described.arguments["x"].startswith("tensordesc<fp32[32")


def the_launch_sees_the_target(api):
    blocks = {
        arch: recorded(api, compile_kernels.by_target, arch, x=torch.zeros(256))[0].constants["BLOCK"]
        for arch in ("sm_90", "sm_120", "gfx942")
    }
    assert blocks == {"sm_90": 256, "sm_120": 128, "gfx942": 128}


def a_result_is_kept_under_all_that_it_depends_on(api):
    (one,) = recorded(api, compile_kernels.copy, "sm_80", x=torch.zeros(256))
    key = api.naming.parts_of(one)
    assert api.cache.key_of(key) == api.cache.key_of(dict(reversed(key.items())))
    others = {
        "target": replace(one, target=target_of("sm_90")),
        "options": replace(one, options={**one.options, "num_warps": 8}),
        "constant": recorded(api, lambda x: compile_kernels.copy(x, 256), "sm_80", x=torch.zeros(256))[0],
        "hint": recorded(api, compile_kernels.copy, "sm_80", x=torch.zeros(260)[1:])[0],
        "type": recorded(api, compile_kernels.copy, "sm_80", x=torch.zeros(256, dtype=torch.bfloat16))[0],
    }
    keys = {name: api.cache.key_of(api.naming.parts_of(other)) for name, other in others.items()}
    assert api.cache.key_of(key) not in keys.values()
    assert len(set(keys.values())) == len(keys)
    assert key.keys() == {
        "source", "signature", "constants", "hints", "options", "target", "triton", "backend", "environment"
    }  # fmt: skip
    for part in key:
        assert api.cache.key_of({**key, part: "another"}) != api.cache.key_of(key), part


def a_key_is_the_same_whatever_was_hashed_before(api):
    """Triton's own hash of a kernel depends on who called its callee first."""

    def keys(*launches):
        compile_kernels.forget_hashes()
        x = torch.zeros(256)
        return {launch: api.naming.parts_of(recorded(api, launch, "sm_80", x=x)[0]) for launch in launches}

    launches = (compile_kernels.copy, compile_kernels.fill)
    assert keys(*launches) == keys(*reversed(launches))


def what_a_kernel_calls_and_reads_is_in_its_key(api):
    """A helper's text and a constant of the module's count; where the text stands in the file does not."""
    before = api.sources.digest(compile_kernels.copy_kernel)
    scale, source = compile_kernels._SCALE, compile_kernels._scaled.src
    try:
        compile_kernels._SCALE = type(scale)(3)
        assert api.sources.digest(compile_kernels.copy_kernel) != before
        compile_kernels._SCALE = scale
        compile_kernels._scaled._unsafe_update_src(source.replace("x *", "x +"))
        assert api.sources.digest(compile_kernels.copy_kernel) != before
    finally:
        compile_kernels._SCALE = scale
        compile_kernels._scaled._unsafe_update_src(source)
    assert api.sources.digest(compile_kernels.copy_kernel) == before


def _changed(api, before, now):
    rows = [{"kernel": {"config": {"sm_90": row}}} for row in (before, now)]
    return [(change.figure, change.failing) for change in api.baseline.compare(*rows)]


def every_figure_is_compared(api):
    assert _changed(api, (100, 4096, 0), (100, 4096, 0)) == []
    assert _changed(api, (100, 4096, 0), (110, 4096, 0)) == [("registers", False)]
    assert _changed(api, (100, 4096, 0), (111, 4096, 0)) == [("registers", True)]
    assert _changed(api, (100, 4096, 0), (100, 4097, 0)) == [("shared", True)]
    assert _changed(api, (100, 4096, 0), (100, 4096, 4)) == [("spilled", True)]
    assert _changed(api, (100, 4096, 8), (90, 1024, 0)) == [
        ("registers", False), ("shared", False), ("spilled", False)
    ]  # fmt: skip


def a_configuration_on_one_side_only_fails(api):
    def judged(config, arch="sm_90", **ending):
        target = target_of(arch)
        use = api.plan.Use(
            contract="c", implementation="i", target=target, kernel="kernel", config=config, key=config, case=""
        )
        result = api.figures.Result(**ending) if ending else compiled(api)
        return api.lane.Judged(use=use, result=result, judgement=api.verdicts.judge(result, target))

    def found(before, *now, whole=True):
        missing = api.baseline.unlisted({"kernel": before}, now, whole=whole)
        assert all(one.failing for one in missing)
        return [(one.config, one.target, one.new) for one in missing]

    row = {"sm_90": (64, 1024, 0)}
    assert found({"a": row}, judged("a")) == []
    assert found({"a": row}, judged("a"), judged("b")) == [("b", "sm_90", True)]
    assert found({"a": row, "b": row}, judged("a")) == [("b", "sm_90", False)]
    assert found({"a": row, "b": row}, judged("a"), whole=False) == []
    # what does not compile is in no baseline, and is not gone either
    assert found({"a": row}, judged("a"), judged("b", ending="refused", message="no")) == []
    assert found({"a": row}, judged("a", ending="refused", message="no")) == []
    # nothing is known about the kernel on that target, or nothing was compiled there
    assert found({"a": row}, judged("b", "sm_120")) == []
    assert found({}, judged("a")) == []


def a_spill_is_excused_by_the_baseline_alone(api):
    use = api.plan.Use(
        contract="c", implementation="i", target=target_of("sm_100"), kernel="kernel", config="config", key="", case=""
    )
    result = compiled(api, spill_stores=8)
    one = api.lane.Judged(use=use, result=result, judgement=api.verdicts.judge(result, use.target))
    same, smaller, elsewhere = {"sm_100": (64, 1024, 8)}, {"sm_100": (64, 1024, 4)}, {"sm_90": (64, 1024, 8)}
    for known, failing in ((same, False), (smaller, True), (elsewhere, True), ({}, True)):
        (found,) = api.baseline.excused([one], {"kernel": {"config": known}})
        assert (found.judgement.verdict, found.judgement.failing) == ("SPILLS", failing)
        # an update says so of what it excuses, once
        (now,) = api.baseline.newly_excused(
            [one, one], {"kernel": {"config": known}}, {"kernel": {"config": same}}
        ) or (None,)
        assert (now is not None) == failing
        if now is not None:
            was = known.get("sm_100", (0, 0, 0))[2]
            assert str(now) == f"kernel [config] on sm_100: spilled {was} -> 8"
    result = compiled(api, shared=240_000)
    over = replace(one, result=result, judgement=api.verdicts.judge(result, use.target))
    (found,) = api.baseline.excused([over], {"kernel": {"config": {"sm_100": (64, 240_000, 0)}}})
    assert (found.judgement.verdict, found.judgement.failing) == ("EXCEEDS", True)
    assert api.baseline.newly_excused([over], {}, {"kernel": {"config": {"sm_100": (64, 240_000, 0)}}}) == []


def _abort():
    os.write(2, b"LLVM ERROR: planted\n")
    os.kill(os.getpid(), signal.SIGABRT)
    return {}


def _hang():
    time.sleep(4)
    return {}


def _raise():
    raise ValueError("planted")


def a_crash_or_a_hang_costs_one_task(api):
    tasks = [lambda: {"n": 1}, _abort, _hang, _raise, lambda: {"n": 5}]
    ended = api.workers.run(tasks, jobs=1, deadline=1.0)
    assert [end.how for end in ended] == ["returned", "crashed", "late", "raised", "returned"]
    assert [end.value for end in ended] == [{"n": 1}, {}, {}, {}, {"n": 5}]
    assert ended[1].signal == "SIGABRT"
    assert "LLVM ERROR: planted" in ended[1].output
    assert ended[3].error == ("ValueError", "planted")


CHECKS = (
    {
        check.__name__: check
        for check in (
            a_stack_is_no_spill,
            amd_metadata_is_read,
            each_limit_is_kept,
            a_spill_fails,
            a_missing_instruction_is_noticed,
            a_refusal_is_in_the_assemblers_words,
            a_refusal_of_the_front_end_says_why_and_where,
            a_contract_without_anything_to_launch_is_noticed,
            a_crash_is_in_the_compilers_words,
            a_declaration_that_is_not_true_fails,
            what_is_launched_is_what_is_compiled,
            the_launch_sees_the_target,
            a_result_is_kept_under_all_that_it_depends_on,
            a_key_is_the_same_whatever_was_hashed_before,
            what_a_kernel_calls_and_reads_is_in_its_key,
            every_figure_is_compared,
            a_configuration_on_one_side_only_fails,
            a_spill_is_excused_by_the_baseline_alone,
            a_crash_or_a_hang_costs_one_task,
        )
    }
    | SHARING_CHECKS
    | LAUNCH_CHECKS
    | WGMMA_CHECKS
)
