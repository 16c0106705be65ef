"""The grid barrier where orders of turns are drawn, or all there are, and what it is compiled to for CDNA.

What must hold of it in a few orders, and of a launch that uses it, policies say: `harness.policies.barrier`.
"""

import itertools
import tempfile

import pytest
import torch
import triton
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from harness.device import DEVICES
from harness.launch import Resources, barrier_safe_grid, grid_barrier
from harness.launch.physical import NoDevice
from harness.launch.sm_budget import available_sms
from harness.policies.barrier_kernel import Exchange, fresh_words
from harness.policies.barrier_kernel import exchange as exchange_kernel
from harness.vgpu import Deadlock, Schedule, VirtualGPU

HALF = DEVICES["MI400"].units_of("DPX")


@settings(max_examples=20, deadline=None)
@given(
    choices=st.lists(st.integers(0, 3), max_size=20).map(tuple),
    blocks=st.integers(1, 4),
    resident=st.integers(1, 4),
    polls=st.integers(0, 6),
    yield_at=st.sampled_from(["atomics", "memory"]),
)
def test_whatever_is_chosen_all_pass_or_all_give_up_and_the_words_are_clean(choices, blocks, resident, polls, yield_at):
    words = fresh_words()
    with VirtualGPU(schedule=Schedule(choices=choices, resident=resident, yield_at=yield_at), races=True):
        run = Exchange(words, (blocks,), polls=polls)
        assert run.clean
        assert run.right
        assert run.passed.sum().item() == (0 if run.report[0] else blocks)
        assert run.report[0] or blocks <= resident
        words[2:] = 0
        assert Exchange(words, (resident,)).good


def test_every_order_of_the_first_turns_of_two_blocks():
    """All 2**5 ways of choosing the next block, with waits so short that many of them time out."""
    outcomes = {}
    for choices in itertools.product((0, 1), repeat=5):
        with VirtualGPU(schedule=Schedule(choices=choices, resident=2), races=True):
            run = Exchange(fresh_words(), (2,), polls=1)
        assert run.clean
        assert run.right
        assert run.passed.sum().item() == (0 if run.report[0] else 2)
        key = tuple(run.report)
        outcomes[key] = outcomes.get(key, 0) + 1
    assert outcomes.keys() == {(0, 0, 0, 0, 0), (1, 0, 1, 1, 2), (1, 1, 1, 1, 2)}


def exchange(wanted, units):
    """Launch ``wanted`` blocks with the words of the device."""
    with grid_barrier.barrier_launch(torch.device("cpu"), kernel="exchange", reserve=0) as launch:
        assert launch.num_sms == units
        return Exchange(launch.words, (wanted,))


def test_256_blocks_on_96_units_deadlock_and_the_clamped_grid_passes():
    # 32 waves of 128 VGPRs: one workgroup a unit
    wide = Resources(num_warps=32, registers=128)
    with VirtualGPU(profile="gfx950", schedule=Schedule(sm_count=HALF)):
        with pytest.raises(Deadlock) as caught:
            exchange(256, HALF)
        assert (caught.value.resident, caught.value.never_launched, caught.value.total) == (96, 160, 256)
        safe = barrier_safe_grid(256, wide, DEVICES["MI400"], num_sms=available_sms())
        assert safe.grid == 96
        run = exchange(safe.grid, HALF)
    assert run.good


def test_a_clamp_by_count_deadlocks_where_another_stream_holds_two_units():
    wide = Resources(num_warps=32, registers=128)
    with VirtualGPU(schedule=Schedule(sm_count=10)), pytest.raises(Deadlock) as caught:
        exchange(min(256, 12), 10)
    assert (caught.value.resident, caught.value.never_launched) == (10, 2)
    with VirtualGPU(schedule=Schedule(sm_count=10)):
        safe = barrier_safe_grid(256, wide, DEVICES["MI400"], num_sms=12, reserved=2)
        assert exchange(safe.grid, 10).good


def test_every_wave_ends_its_stores_on_cdna():
    pointers = dict.fromkeys(("x_ptr", "out_ptr", "passed_ptr", "words_ptr"), "*i32")
    numbers = dict.fromkeys(("polls", "impatient", "looks", "absent", "first"), "i32")
    constants = {"PHASES": 1, "LANES": 256}
    source = ASTSource(exchange_kernel, pointers | numbers | dict.fromkeys(constants, "constexpr"), constants)
    with tempfile.TemporaryDirectory() as folder, triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        compiled = triton.compile(source, target=GPUTarget("hip", "gfx950", 64)).asm["amdgcn"]
    before = compiled.split("global_atomic_add", 1)[0]
    store = before.rindex("buffer_store") if "buffer_store" in before else before.rindex("global_store")
    assert "vmcnt(0)" in before[store : before.rindex("s_barrier")]


def test_a_virtual_gpu_says_how_many_units_it_has():
    for options, units in (
        ({"profile": "sm_121"}, 48),
        ({"profile": "sm_90"}, 132),
        ({"schedule": Schedule(sm_count=96)}, 96),
        ({"schedule": Schedule(sm_count=96, blocks_per_sm=2)}, 96),
        ({"schedule": Schedule(resident=7)}, 7),
    ):
        with VirtualGPU(**options):
            assert available_sms() == units
    with VirtualGPU(profile="sm_121"), pytest.raises(NoDevice, match="device 1: only device 0"):
        available_sms(1)
