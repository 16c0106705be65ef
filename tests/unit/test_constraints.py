"""Constraints stay in their scope, and each target gets a form that it can do and that fits."""

import itertools
import threading

import pytest

from harness.device import TARGETS, target_of
from harness.device.capabilities import TRITON_VERSIONS, shared_memory_per_block, tma_form
from harness.injector import cross_threads, inject
from harness.launch.constraints import (
    Constraints,
    NoForm,
    Operands,
    choose_form,
    constraints,
    current_constraints,
)
from harness.launch.scatter_shared import Tile, shared_bytes

ALL = [
    pytest.param(target, version, id=f"{target.arch}-{version[0]}.{version[1]}")
    for target, version in itertools.product(TARGETS.values(), TRITON_VERSIONS)
]


def test_scopes_nest_field_by_field():
    with constraints(num_stages=2, block_m=64):
        with constraints(num_stages=1, is_persistent=False) as inner:
            assert inner == current_constraints() == Constraints(num_stages=1, block_m=64, is_persistent=False)
        with constraints(block_m=None):
            assert current_constraints() == Constraints(num_stages=2)
        assert current_constraints() == Constraints(num_stages=2, block_m=64)
    assert current_constraints() == Constraints()


@pytest.mark.parametrize("exception", [ValueError, KeyboardInterrupt])
def test_a_scope_is_left_by_any_exception(exception):
    with pytest.raises(exception), constraints(num_stages=2), constraints(num_stages=1):
        raise exception
    assert current_constraints() == Constraints()


def test_an_interrupt_at_any_step_leaves_nothing_behind():
    injection = inject(lambda: constraints(num_stages=2), lambda value: current_constraints())
    assert len(injection.steps) > 20
    assert not injection.leaks, str(injection)


def test_threads_have_their_own_scopes():
    stages = itertools.count(1)
    crossing = cross_threads(lambda: constraints(num_stages=next(stages) % 8 + 1), current_constraints)
    assert not crossing.problems, str(crossing)
    assert not crossing.refused
    assert not crossing.waited


def test_a_new_thread_is_not_constrained_by_another():
    seen = []
    with constraints(is_persistent=False):
        thread = threading.Thread(target=lambda: seen.append(current_constraints()))
        thread.start()
        thread.join()
    assert seen == [Constraints()]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("block_size_m", r"no constraint 'block_size_m' \(did you mean 'block_m'\?\); there are: is_persistent, "),
        ("persistent", r"did you mean 'is_persistent'"),
        ("zzz", r"no constraint 'zzz'; there are: "),
    ],
)
def test_an_unknown_constraint_is_rejected_at_once(name, said):
    with pytest.raises(TypeError, match=said), constraints(**{name: 1}):
        pytest.fail("the scope was entered")
    assert current_constraints() == Constraints()


@pytest.mark.parametrize(
    ("values", "error", "said"),
    [
        ({"is_persistent": 1}, TypeError, "is_persistent: want bool, got 1"),
        ({"num_stages": True}, TypeError, "num_stages: want int, got True"),
        ({"num_stages": 2.0}, TypeError, "num_stages: want int, got 2.0"),
        ({"epilogue": 3}, TypeError, "epilogue: want str, got 3"),
        ({"num_stages": 0}, ValueError, "num_stages: want one of 1, 2, "),
        ({"block_m": 48}, ValueError, "block_m: want one of 16, 32, 64, 128, 256, got 48"),
        ({"num_warps": 3}, ValueError, "num_warps: want one of 1, 2, 4, 8, 16, got 3"),
        ({"epilogue": "tma"}, ValueError, "epilogue: want one of scatter, store, got 'tma'"),
        ({"is_persistent": False, "epilogue": "scatter"}, ValueError, "contradicts epilogue='scatter'"),
        ({"is_persistent": False, "num_warps": 1}, ValueError, "at least 2 warps, got 1"),
    ],
)
def test_a_value_that_is_not_offered_is_rejected_at_once(values, error, said):
    with pytest.raises(error, match=said), constraints(**values):
        pytest.fail("the scope was entered")


def test_a_contradiction_between_scopes_is_rejected():
    with (
        constraints(epilogue="scatter"),
        pytest.raises(ValueError, match="contradicts"),
        constraints(is_persistent=False),
    ):
        pass


@pytest.mark.parametrize(
    ("arch", "form"),
    [
        ("sm_80", "non-persistent"),
        ("sm_86", "non-persistent"),
        ("sm_89", "non-persistent"),
        ("sm_90", "non-persistent"),
        ("sm_100", "persistent-scatter"),
        ("sm_103", "persistent-scatter"),
        ("sm_120", "persistent-store"),
        ("sm_121", "persistent-store"),
        ("gfx942", "non-persistent"),
        ("gfx950", "non-persistent"),
        ("gfx1100", "non-persistent"),
    ],
)
@pytest.mark.parametrize("version", ["3.6.0", "3.7.1", "3.8.0", "3.9.0"])
def test_the_form_of_each_target(arch, form, version):
    chosen = choose_form(arch, version)
    assert chosen.name == form
    assert arch in chosen.reason


@pytest.mark.parametrize(
    ("version", "form"),
    [
        ((3, 6), "non-persistent"),
        ((3, 7), "non-persistent"),
        ((3, 8), "persistent-scatter"),
        ((3, 9), "persistent-scatter"),
    ],
)
def test_the_form_of_gfx1250_depends_on_triton(version, form):
    assert choose_form("gfx1250", version).name == form


@pytest.mark.parametrize(("target", "version"), ALL)
def test_what_is_chosen_is_native_fits_and_has_more_than_one_warp(target, version):
    form = choose_form(target, version)
    used = {"persistent-scatter": ("gather", "scatter"), "persistent-store": ("gather",), "non-persistent": ()}[
        form.name
    ]
    assert all(tma_form(target, operation, version) == "native" for operation in used)
    assert form.shared_bytes <= shared_memory_per_block(target)
    assert form.num_stages >= 1
    assert form.num_warps >= 4


@pytest.mark.parametrize("arch", ["sm_90", "sm_120", "sm_121"])
def test_a_scatter_that_ptxas_refuses_is_refused_before_the_launch(arch):
    with constraints(epilogue="scatter"), pytest.raises(NoForm, match=rf"{arch} .*tile scatter refused"):
        choose_form(arch, "3.7.1")


def test_a_persistent_form_can_be_had_by_pointers_on_request():
    with constraints(is_persistent=True):
        form = choose_form("sm_80", "3.7.1")
    assert form.name == "persistent-scatter"
    assert "as asked, by pointers" in form.reason


def test_a_persistent_form_without_gather_is_refused():
    with constraints(is_persistent=True), pytest.raises(NoForm, match=r"persistent-store: sm_90.*gather refused"):
        choose_form("sm_90", "3.7.1")


def test_the_seed_wish_of_no_persistent_kernel_is_honoured():
    with constraints(is_persistent=False):
        assert choose_form("sm_100", "3.7.1").name == "non-persistent"
    with constraints(epilogue="store"):
        assert choose_form("sm_100", "3.7.1").name == "persistent-store"


def test_one_warp_never_falls_through_to_the_non_persistent_form():
    with constraints(num_warps=1):
        assert choose_form("sm_120", "3.7.1").num_warps == 1
        with pytest.raises(NoForm, match="at least 2 warps, got 1"):
            choose_form("sm_90", "3.7.1")


def test_stages_are_given_up_until_the_form_fits():
    with constraints(block_k=128):
        form = choose_form("sm_120", "3.7.1")
    assert (form.name, form.num_stages, form.shared_bytes) == ("persistent-store", 2, 65_544)


def test_stages_that_were_asked_for_are_not_given_up():
    with constraints(is_persistent=True, num_stages=4):
        assert choose_form("sm_120", "3.7.1").shared_bytes == 98_328
    said = "131104 bytes of shared memory with num_stages=5 and a tile of 128 x 128 x 64, sm_120 has 101376"
    with constraints(is_persistent=True, num_stages=5), pytest.raises(NoForm, match=said):
        choose_form("sm_120", "3.7.1")


def test_a_tile_that_fits_nowhere_is_refused_with_every_reason():
    with (
        constraints(block_m=256, block_n=256, block_k=256),
        pytest.raises(NoForm, match=r"persistent-store: \d+ bytes.*non-persistent: \d+ bytes"),
    ):
        choose_form("sm_120", "3.7.1")


def test_narrower_weights_leave_room_for_more_stages():
    with constraints(block_k=128):
        wide = choose_form("sm_120", "3.7.1")
        narrow = choose_form("sm_120", "3.7.1", operands=Operands(weights=4, scaled=True))
    assert narrow.num_stages > wide.num_stages


@pytest.mark.parametrize("version", ["3", "x.y", "3.5.0", (4, 0)])
def test_a_triton_that_nobody_tried_is_refused(version):
    with pytest.raises(ValueError, match="triton"):
        choose_form("sm_120", version)


# metadata.shared of the three forms compiled without a GPU, bf16, Triton 3.9.0 (3.6 to 3.8 agree on NVIDIA):
# (arch, tile, stages, gathers, scatters) -> bytes
EXACT = {
    ("sm_90", (128, 128, 64), 3, False, False): 98_304,
    ("sm_100", (128, 128, 64), 3, True, True): 131_120,
    ("sm_120", (128, 128, 64), 3, True, False): 65_552,
    ("sm_120", (128, 128, 64), 4, True, False): 98_328,
    ("sm_120", (128, 128, 64), 5, True, False): 131_104,
    ("sm_80", (64, 128, 64), 2, False, False): 24_576,
    ("sm_80", (64, 128, 64), 4, False, False): 73_728,
    ("sm_90", (64, 128, 64), 2, False, False): 49_152,
    ("sm_90", (64, 128, 64), 4, False, False): 98_304,
    ("sm_90", (32, 64, 64), 3, False, False): 24_576,
    ("sm_100", (64, 128, 64), 2, True, True): 65_568,
    ("sm_100", (64, 128, 64), 3, True, True): 90_160,
    ("sm_100", (64, 128, 64), 3, True, False): 73_776,
    ("sm_100", (32, 64, 64), 3, True, True): 28_688,
    ("sm_103", (32, 64, 64), 3, True, False): 24_592,
    ("sm_120", (64, 128, 64), 2, True, False): 24_584,
    ("sm_120", (64, 128, 64), 4, True, False): 73_752,
    ("sm_121", (32, 64, 64), 3, True, False): 24_592,
    ("gfx942", (64, 128, 64), 3, False, False): 49_152,
    ("gfx1100", (32, 64, 64), 3, False, False): 24_576,
}
BELOW_THE_BOUND = {
    ("sm_80", (64, 128, 64), 1, False, False): 24_576,
    ("sm_100", (64, 128, 64), 1, True, True): 24_584,
    ("sm_100", (64, 128, 64), 4, True, True): 114_736,
    ("sm_100", (64, 128, 64), 3, False, False): 73_744,
    ("sm_120", (64, 128, 64), 1, True, False): 16_392,
    ("gfx942", (64, 128, 64), 1, False, False): 16_384,
    ("gfx950", (64, 128, 64), 3, False, False): 74_848,
    ("gfx950", (32, 64, 64), 3, False, False): 37_232,
    ("gfx1250", (32, 64, 64), 3, False, False): 39_136,
    ("gfx1250", (32, 64, 64), 3, True, False): 41_424,
    ("gfx1250", (32, 64, 64), 3, True, True): 41_424,
    ("gfx1250", (64, 128, 64), 1, True, True): 35_792,
}


def bound(key):
    arch, tile, stages, gathers, scatters = key
    return shared_bytes(target_of(arch), Tile(*tile), stages, gathers=gathers, scatters=scatters)


@pytest.mark.parametrize("key", EXACT, ids=str)
def test_shared_memory_is_the_compilers(key):
    assert bound(key) == EXACT[key]


@pytest.mark.parametrize("key", BELOW_THE_BOUND, ids=str)
def test_shared_memory_is_never_below_the_compilers(key):
    assert bound(key) >= BELOW_THE_BOUND[key]
