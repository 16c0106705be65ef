"""Family d, architectures: which form and which tile a target gets, and what does not fit it."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from harness.compiling import figures, verdicts
from harness.device import TARGETS, target_of
from harness.device.capabilities import TRITON_VERSIONS, shared_memory_per_block, tma_form
from harness.launch.constraints import Constraints, NoForm, choose_form
from harness.launch.current import pretending
from kernels import moe_scatter
from tests.bugs.cases import scatter
from tests.bugs.entry import Bug, Policy
from tests.bugs.running import Changed, Made, replaced
from tests.unit.compile_checks import compiled
from tests.unit.scatter_checks import FORMATS, arguments

CONSTRAINTS, CAPABILITIES = "harness.launch.constraints", "harness.device.capabilities"
_PARTS = SimpleNamespace(figures=figures)
_DATACENTRE = {"sm_100", "sm_103"}


def desktop_blackwell_scatters_nothing_by_tma() -> None:
    assert choose_form("sm_120", "3.7.1").name == "persistent-store"


def tile_scatter_is_taken_on_two_targets_only() -> None:
    for version in TRITON_VERSIONS:
        forms = {target.arch: choose_form(target, version, Constraints()).name for target in TARGETS.values()}
        assert {arch for arch, name in forms.items() if name == "persistent-scatter"} - {"gfx1250"} == _DATACENTRE


def a_scatter_that_does_not_compile_is_refused_beforehand() -> None:
    for arch in ("sm_90", "sm_120", "sm_121"):
        with pytest.raises(NoForm):
            choose_form(arch, "3.7.1", Constraints(epilogue="scatter"))


def both_desktop_targets_have_the_same_forms() -> None:
    for version in TRITON_VERSIONS:
        forms = [[tma_form(target_of(arch), name, version) for name in ("load", "store", "gather", "scatter")]
                 for arch in ("sm_120", "sm_121")]  # fmt: skip
        assert forms[0] == forms[1] == ["native", "native", "native", "refused"]


def every_name_is_its_own_target() -> None:
    assert {target_of(target.arch).marker for target in TARGETS.values()} == set(TARGETS)


def every_form_fits_its_target() -> None:
    wanted = Constraints(block_m=256, block_n=256)
    for target in TARGETS.values():
        for operands in moe_scatter.OPERANDS.values():
            with contextlib.suppress(NoForm):
                form = choose_form(target, "3.7.1", wanted, operands=operands)
                assert form.shared_bytes <= shared_memory_per_block(target), target.arch


def consumer_parts_have_99_kib() -> None:
    for arch in ("sm_86", "sm_89", "sm_120", "sm_121"):
        assert choose_form(arch, "3.7.1", Constraints(block_m=256, block_n=256)).shared_bytes <= 101_376, arch


def _judged(arch: str, shared: int) -> str:
    return verdicts.judge(compiled(_PARTS, shared=shared), target_of(arch)).message


def a_block_above_99_kib_exceeds_a_consumer_part() -> None:
    assert not _judged("sm_120", 101_376)
    assert "102400 bytes of shared memory, 1024 more than the 101376" in _judged("sm_120", 102_400)


def two_kib_above_the_lds_exceed_it() -> None:
    assert not _judged("gfx950", 163_840)
    assert "165888 bytes of LDS, 2048 more than the 163840" in _judged("gfx950", 165_888)


def all_weights_get_the_form_of_the_target() -> None:
    with pretending("sm_120"):
        forms = {moe_scatter.moe_scatter_form(**arguments(weights)).name for weights in FORMATS}
    assert forms == {"persistent-store"}


def persistence_can_be_asked_for_on_every_target() -> None:
    for arch in ("sm_80", "sm_100", "sm_120", "sm_121", "gfx942"):
        assert choose_form(arch, "3.7.1", Constraints(is_persistent=True)).name.startswith("persistent")


def _only_packed_weights(target, **options):
    return choose_form(target if options["operands"].scaled else target_of("sm_100"), **options)


BUGS = (
    Bug("B117", "sgl-project/sglang#30272", "blocks of expert -1 are followed", "moe_scatter", "non-persistent",
        Made("kernels/_moe_scatter_kernels.py", "slot_tile", "mask",
             "(expert >= 0) & (expert < num_experts)", "expert < num_experts"),
        "memory", scatter((0, 1), (0, 1))),
)  # fmt: skip

POLICIES = (
    Policy("B109", "sgl-project/sglang#31669", "tile scatter on a target that has none",
           Changed(CONSTRAINTS, 'if ("refused" in needed and not refused) or ', "if "),
           desktop_blackwell_scatters_nothing_by_tma),
    Policy("B110", "triton-lang/triton#11859", "the question about gather asked for scatter",
           Changed(CONSTRAINTS, 'for operation in ("gather", "scatter"))', 'for operation in ("gather", "gather"))'),
           tile_scatter_is_taken_on_two_targets_only),
    Policy("B111", "triton-lang/triton#11344", "scatter fails in the assembler instead of before",
           Changed(CAPABILITIES, "return _TMA[target.arch][version][_OPERATIONS.index(operation)]",
                   'return _TMA[target.arch][version][_OPERATIONS.index(operation)].replace("refused", "native")'),
           a_scatter_that_does_not_compile_is_refused_beforehand),
    Policy("B112", "sgl-project/sglang#18750", "sm_121 missed by a comparison with 120",
           Changed(CAPABILITIES, "return _TMA[target.arch][version][",
                   'return _TMA["sm_90" if target.arch == "sm_121" else target.arch][version]['),
           both_desktop_targets_have_the_same_forms),
    Policy("B115", "vllm-project/vllm#38484", "12.1 rewritten to 12.0",
           Changed("harness.device.targets", "return _BY_ARCH[arch]",
                   'return _BY_ARCH["sm_120" if arch == "sm_121" else arch]'),
           every_name_is_its_own_target),
    Policy("B116", "triton-lang/triton#8182", "configuration larger than the device's shared memory",
           Changed(CONSTRAINTS, "if needed <= limit:", "if needed <= max(limit, 232_448):"),
           every_form_fits_its_target),
    Policy("B122", "1CatAI/1Cat-vLLM#211", "102,400 bytes on a part with less",
           Changed("harness.compiling.verdicts", "if shared > most:", "if shared > 232_448:"),
           a_block_above_99_kib_exceeds_a_consumer_part),
    Policy("B124", "vllm-project/vllm#49779", "2 KiB above the LDS of a gfx950",
           Changed("harness.compiling.verdicts", "else limits.lds_per_workgroup",
                   "else limits.lds_per_workgroup + 2048"),
           two_kib_above_the_lds_exceed_it),
    Policy("B125", "sgl-project/sglang#4797", "block sizes of 163 KiB parts on 99 KiB parts",
           Changed(CONSTRAINTS, "limit = shared_memory_per_block(target)",
                   'limit = shared_memory_per_block(target_of("sm_80"))'),
           consumer_parts_have_99_kib),
    Policy("B126", "sgl-project/sglang#16975", "the fallback for one kind of weights only",
           replaced(moe_scatter, choose_form=_only_packed_weights), all_weights_get_the_form_of_the_target),
    Policy("B127", "sgl-project/sglang#9707", "a constraint that a target cannot satisfy",
           Changed(CONSTRAINTS,
                   '        if wanted.epilogue != "scatter":\n            names.append("persistent-store")\n',
                   ""),
           persistence_can_be_asked_for_on_every_target),
)  # fmt: skip
