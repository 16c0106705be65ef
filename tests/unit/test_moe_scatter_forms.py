"""The three forms of the scatter matmul: which one is chosen, what it launches, and what its compiler makes of it."""

from dataclasses import replace

import pytest

from harness import registry
from harness.cases import parse
from harness.compiling import lane, plan
from harness.device.targets import target_of
from harness.launch.constraints import Constraints, NoForm, choose_form
from harness.launch.scatter_shared import Tile, shared_bytes
from kernels import moe_scatter
from tests.unit import scatter_checks

#: metadata.shared of what the lane compiled on Triton 3.7.1: (arch, format, tile, gathers and scatters) -> bytes.
COMPILED = {
    ("sm_90", "e4m3", (64, 64, 64), False): 40_960,
    ("sm_90", "e4m3", (128, 64, 64), False): 65_536,
    ("sm_90", "e4m3", (128, 128, 64), False): 81_920,
    ("sm_90", "e4m3", (16, 128, 64), False): 20_480,
    ("sm_90", "e2m1", (64, 64, 64), False): 36_864,
    ("sm_90", "e2m1", (128, 128, 64), False): 73_728,
    ("sm_100", "e4m3", (64, 128, 64), True): 73_792,
    ("sm_100", "e4m3", (128, 128, 64), True): 114_752,
    ("sm_100", "e2m1", (128, 128, 64), True): 106_560,
    ("sm_80", "e4m3", (128, 128, 64), False): 49_152,
    ("sm_89", "e2m1", (64, 128, 64), False): 24_832,
    ("gfx942", "e2m1", (16, 128, 64), False): 20_480,
    ("gfx942", "e2m1", (128, 128, 64), False): 49_152,
    ("gfx950", "e4m3", (128, 128, 64), False): 49_152,
    ("gfx1100", "e2m1", (128, 128, 64), False): 49_152,
    ("gfx1250", "e4m3", (64, 128, 64), False): 32_768,
}


@pytest.mark.parametrize("check", scatter_checks.CHECKS)
def test_the_kernel_in_the_tree(check):
    registry.load(installed=False)
    scatter_checks.CHECKS[check](moe_scatter)


@pytest.mark.parametrize("key", COMPILED, ids=str)
def test_shared_memory_of_decoded_weights_is_never_below_the_compilers(key):
    arch, weights, tile, scatters = key
    bound = shared_bytes(
        target_of(arch), Tile(*tile), 3, moe_scatter.OPERANDS[weights], gathers=scatters, scatters=scatters
    )
    assert bound >= COMPILED[key]
    if arch.startswith("sm_"):
        # scales and the last place of barriers may be counted and not there
        assert bound - COMPILED[key] <= 1024


def test_a_refused_form_is_had_on_request_only():
    wanted = Constraints(is_persistent=True, epilogue="scatter")
    with pytest.raises(NoForm, match="tile scatter refused"):
        choose_form("sm_120", (3, 7), wanted)
    assert choose_form("sm_120", (3, 7), wanted, refused=True).name == "persistent-scatter"


#: One case of each kind of product, and what the lane must say about it.
VERDICTS = {
    ("auto", "sm_90"): "FITS",
    ("auto", "sm_100"): "FITS",
    ("auto", "sm_120"): "FITS",
    ("persistent-scatter", "sm_100"): "FITS",
    ("persistent-scatter", "sm_90"): "EXPECTED_REFUSED",
    ("persistent-scatter", "sm_120"): "EXPECTED_REFUSED",
    ("persistent-scatter", "sm_121"): "EXPECTED_REFUSED",
}
ONE_CASE = (
    "Case(routing=Routing(num_tokens=256, num_experts=4, rows=((0, 1),)), "
    'hidden_size=512, output_size=512, weights="e4m3")'
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Return what the compile lane says, by implementation and target."""
    registry.load(["kernels.moe_scatter"], installed=False)
    whole = registry.contract("moe_scatter")
    scatter = replace(whole, workloads=(parse(whole, ONE_CASE),), pinned=())
    found = {}
    # what the recorder makes torch import would set it for good
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        for one in registry.implementations("moe_scatter"):
            targets = [target_of(arch) for name, arch in VERDICTS if name == one.name]
            made = plan.make([(scatter, one)], targets)
            found |= {(one.name, use.use.target.arch): use for use in lane.carry_out(made, None, jobs=1, deadline=300)}
    return found


def test_the_lane_says_what_was_declared(judged):
    found = {key: one.judgement.verdict for key, one in judged.items()}
    assert found == VERDICTS, {key: one.judgement.message for key, one in judged.items()}


def test_ptxas_says_why_it_refuses(judged):
    for arch in ("sm_90", "sm_120", "sm_121"):
        said = judged["persistent-scatter", arch].judgement.message
        assert f"Feature '.tile::scatter4' not supported on .target '{arch}a'" in said


def test_the_chosen_form_takes_no_more_shared_memory_than_it_was_chosen_for(judged):
    for arch in ("sm_90", "sm_100", "sm_120"):
        figures = judged["auto", arch].result.figures
        given = scatter_checks.arguments("e4m3", tokens=256, depth=512, rows=512)
        assert figures.shared <= scatter_checks.form_on(moe_scatter, arch, given).shared_bytes


def test_descriptors_become_the_instructions_they_are_for(judged):
    instructions = {arch: judged["auto", arch].result.figures.instructions for arch in ("sm_90", "sm_100", "sm_120")}
    assert {arch: "TMA gather" in found for arch, found in instructions.items()} == {
        "sm_90": False, "sm_100": True, "sm_120": True,
    }  # fmt: skip
    assert [arch for arch, found in instructions.items() if "TMA scatter" in found] == ["sm_100"]
