"""Small kernels through the whole lane: launched, compiled without a GPU, judged."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import strategies as st

from harness import Compiles, Contract, Exact, Expected, Requires
from harness.compiling import lane, plan
from harness.compiling.cache import Cache
from harness.compiling.shapes import SMALL, ShapesOnly
from harness.contract import Implementation
from harness.device.targets import TARGETS
from tests.unit import compile_kernels

NO_SCATTER = "'.tile::scatter4' not supported"


@dataclass(frozen=True, kw_only=True)
class Case:
    """``x`` has ``shape``, its rows ``stride`` elements apart."""

    shape: tuple[int, ...]
    stride: int
    indexed: bool = False


def inputs(case, device, poison):
    x = torch.zeros(case.shape[0], case.stride, dtype=torch.bfloat16, device=device)[:, : case.shape[1]]
    return {"x": x, "index": torch.arange(case.shape[0], dtype=torch.int32)} if case.indexed else {"x": x}


def contract(name, *cases):
    return Contract(
        name=name, cases=lambda: st.sampled_from(cases), inputs=inputs, oracle=None, tolerance={"out": Exact()},
        workloads=cases,
    )  # fmt: skip


def implementation(name, launch, *targets, expected=()):
    return Implementation(
        contract=name,
        name="test",
        launch=launch,
        requires=Requires(targets=targets),
        compiles=Compiles(expected=expected),
    )


REFUSED = Expected(verdict="REFUSED", targets=("sm120",), says=NO_SCATTER, because="sm_120 has no tile scatter")
LOWERED = Expected(verdict="LOWERED", targets=("sm80",), says="scatter", because="sm_80 has no TMA")
PAIRS = [
    (
        contract("strided", Case(shape=(64, 64), stride=64), Case(shape=(64, 64), stride=67)),
        implementation("strided", compile_kernels.strided, "sm90", "gfx942"),
    ),
    (
        contract("scatter", Case(shape=(32, 64), stride=64, indexed=True)),
        implementation("scatter", compile_kernels.scatter, "sm90", "sm100", expected=(REFUSED, LOWERED)),
    ),
    (
        contract("wide", Case(shape=(128, 4096), stride=4096)),
        implementation("wide", lambda x: compile_kernels.wide(x, x), "sm120"),
    ),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return Cache(tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="module")
def judged(cache):
    made = plan.make(PAIRS, list(TARGETS.values()))
    return lane.carry_out(made, cache, jobs=1, deadline=300)


def of(judged, contract, arch):
    return [one for one in judged if (one.use.contract, one.use.target.arch) == (contract, arch)]


def test_every_implementation_is_compiled_where_it_runs_and_where_something_is_declared(judged):
    places = {name: [one.use.target.arch for one in judged if one.use.contract == name] for name in ("scatter", "wide")}
    assert places == {"scatter": ["sm_80", "sm_90", "sm_100", "sm_120"], "wide": ["sm_120"]}


def test_tile_scatter_is_what_each_target_makes_of_it(judged):
    found = {arch: of(judged, "scatter", arch)[0] for arch in ("sm_80", "sm_90", "sm_100", "sm_120")}
    assert {arch: (one.judgement.verdict, one.judgement.failing) for arch, one in found.items()} == {
        "sm_80": ("LOWERED", False),
        "sm_90": ("REFUSED", True),
        "sm_100": ("FITS", False),
        "sm_120": ("EXPECTED_REFUSED", False),
    }
    assert NO_SCATTER in found["sm_120"].judgement.message
    instructions = found["sm_100"].result.figures.instructions
    assert instructions["TMA scatter"] >= 1
    assert instructions["TMA load"] >= 1


def test_the_launched_stride_decides_what_is_compiled(judged):
    divisible, other = (one.result.figures for one in of(judged, "strided", "sm_90"))
    assert divisible.registers < other.registers


def test_an_amd_kernel_has_its_figures(judged):
    one = of(judged, "strided", "gfx942")[0]
    assert one.judgement.verdict == "FITS"
    assert one.result.figures.registers > 0
    assert one.result.figures.sgprs > 0
    assert one.judgement.residency.blocks_per_sm >= 1


def test_too_much_shared_memory_is_noticed_where_the_compilers_are_silent(judged):
    (one,) = of(judged, "wide", "sm_120")
    assert one.result.ending == "compiled"
    assert one.judgement.verdict == "EXCEEDS"
    assert f"{one.result.figures.shared - 101_376} more than the 101376 of a block on sm_120" in one.judgement.message
    assert "mma.sync" in one.result.figures.instructions


def test_what_is_cached_is_not_compiled_again(judged, cache, monkeypatch):
    begun = []
    monkeypatch.setattr(lane.workers, "run", lambda tasks, **options: begun.extend(tasks))
    again = lane.carry_out(plan.make(PAIRS, list(TARGETS.values())), cache, jobs=1)
    assert begun == []
    assert [one.judgement for one in again] == [one.judgement for one in judged]


def test_a_launch_that_raises_is_refused_in_its_words():
    def launch(x):
        raise ValueError("x: wanted a warmer day")

    made = plan.make([(PAIRS[0][0], implementation("strided", launch, "sm90"))], [TARGETS["sm90"], TARGETS["sm120"]])
    (one,) = lane.carry_out(made, None, jobs=1)
    assert (one.use.kernel, one.judgement.verdict) == ("(launch)", "REFUSED")
    assert "x: wanted a warmer day" in one.judgement.message


def test_pinned_cases_are_compiled_at_the_corners_only():
    cases = Case(shape=(64, 64), stride=64), Case(shape=(64, 64), stride=67)
    both = Contract(
        name="both", cases=lambda: st.sampled_from(cases), inputs=inputs, oracle=None, tolerance={"out": Exact()},
        workloads=cases[:1], pinned=cases[1:],
    )  # fmt: skip
    made = plan.make([(both, implementation("both", compile_kernels.strided))], [TARGETS["sm80"], TARGETS["sm90"]])
    assert [use.target.arch for use in made.uses] == ["sm_80", "sm_90", "sm_90"]


def test_large_tensors_have_shapes_and_cost_nothing():
    with ShapesOnly():
        large = torch.randint(0, 7, (1 << 20, 1 << 20), dtype=torch.uint8).view(torch.float8_e4m3fn)
        row = large[5]
        total = (large.float() * 2).sum(1)
        some, every = large.view(torch.uint8).any(), (large.view(torch.uint8) == 0).all(1)
        small = torch.arange(6).reshape(2, 3) + 1
        large.fill_(0)
    assert large.shape == (1 << 20, 1 << 20)
    assert (large.stride(), large.dtype, large.data_ptr() % 4096) == ((1 << 20, 1), torch.float8_e4m3fn, 0)
    assert row.storage_offset() == 5 << 20
    assert total.shape == (1 << 20,)
    assert (some.shape, some.dtype, bool(some)) == ((), torch.uint8, False)
    assert (every.shape, every.dtype) == ((1 << 20,), torch.bool)
    assert small.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert small.numel() < SMALL < large.numel()
