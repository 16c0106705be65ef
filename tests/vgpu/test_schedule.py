"""Programs that take turns: every interleaving gives what the kernel promises, and each can be had again."""

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import find, given, settings
from hypothesis import strategies as st

from harness.vgpu import Deadlock, HangDetected, Limits, Schedule, VirtualGPU, launch
from tests.vgpu import sync_kernels as kernels

CHOICES = st.lists(st.integers(0, 3), max_size=40).map(tuple)


@triton.jit
def lost_update_kernel(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) + 1)


@triton.jit
def producer_kernel(flag_ptr, x_ptr, out_ptr, HOW: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 1:
        tl.store(x_ptr, 42)
        tl.atomic_xchg(flag_ptr, 1)
    if pid == 0:
        if HOW == "volatile":
            while tl.load(flag_ptr, volatile=True) == 0:
                pass
        elif HOW == "cv":
            while tl.load(flag_ptr, cache_modifier=".cv") == 0:
                pass
        else:
            while tl.load(flag_ptr) == 0:
                pass
        tl.store(out_ptr, tl.load(x_ptr))


@triton.jit
def patient_kernel(flag_ptr, out_ptr, most):
    pid = tl.program_id(0)
    spins = 0
    if pid == 0:
        while (tl.atomic_add(flag_ptr, 0) == 0) & (spins < most):
            spins += 1
        tl.store(out_ptr, tl.load(flag_ptr))
    else:
        tl.atomic_xchg(flag_ptr, pid)


@triton.jit
def scale_kernel(x_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs) * 2)


@triton.jit
def count_for_ever_kernel(flag_ptr):
    pid = tl.program_id(0)
    while tl.atomic_add(flag_ptr + pid, 1) >= 0:
        pass


ALL = {
    "barrier": lambda: kernels.barrier(5),
    "lock": lambda: kernels.lock(5),
    "tickets": lambda: bool(kernels.tickets(5)),
    "chain": lambda: kernels.chain(5),
    "last block": lambda: kernels.last_block(5),
    "split k": lambda: kernels.split_k(2, 3),
    "histogram": lambda: kernels.histogram(5),
}


@pytest.mark.parametrize("name", ALL)
def test_every_kernel_keeps_its_promise_without_a_schedule(name):
    with VirtualGPU():
        assert ALL[name]()
    with VirtualGPU(batch=False):
        assert ALL[name]()


@pytest.mark.parametrize("name", ALL)
def test_every_kernel_keeps_its_promise_over_many_seeds(name):
    for seed in range(12):
        with VirtualGPU(schedule=Schedule(seed=seed, yield_at=("atomics", "memory")[seed % 2])):
            assert ALL[name](), f"seed {seed}"


@settings(max_examples=25, deadline=None)
@given(choices=CHOICES, name=st.sampled_from(sorted(ALL)))
def test_every_kernel_keeps_its_promise_whatever_is_chosen(choices, name):
    with VirtualGPU(schedule=Schedule(choices=choices, yield_at="memory")):
        assert ALL[name]()


@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled"])
@pytest.mark.parametrize("resident", [6, 7])
def test_a_chain_passes_in_any_launch_order_when_all_of_it_is_resident(order, resident):
    for seed in range(5):
        with VirtualGPU(schedule=Schedule(seed=seed, launch_order=order, resident=resident)):
            assert kernels.chain(6)


def test_a_chain_launched_backwards_needs_all_of_its_programs():
    with VirtualGPU(schedule=Schedule(launch_order="ascending", resident=2)):
        assert kernels.chain(6)
    with VirtualGPU(schedule=Schedule(launch_order="descending", resident=5)), pytest.raises(Deadlock) as caught:
        kernels.chain(6)
    assert (caught.value.resident, caught.value.never_launched, caught.value.finished) == (5, 1, 0)


def test_a_schedule_gives_the_same_interleaving_again():
    def orders(seed):
        with VirtualGPU(schedule=Schedule(seed=seed)):
            return [kernels.tickets(6) for _ in range(3)]

    assert orders(1) == orders(1)
    assert len({str(orders(seed)) for seed in range(5)}) == 5


def test_choices_decide_who_goes_next():
    def order(choices):
        with VirtualGPU(schedule=Schedule(choices=choices)):
            return kernels.tickets(4)

    assert order(()) == [0, 1, 2, 3]
    assert order((3,)) == [3, 0, 1, 2]
    assert order((2, 3)) == order((2, 3))


def test_hypothesis_finds_a_lost_update_and_shrinks_it_to_one_change_of_turn():
    def loses(choices):
        x = torch.zeros(1, dtype=torch.int32)
        with VirtualGPU(schedule=Schedule(choices=choices, yield_at="memory")):
            lost_update_kernel[(3,)](x)
        return x.item() < 3

    assert not loses(())
    found = find(CHOICES, loses, settings=settings(database=None, max_examples=300))
    assert sum(1 for choice in found if choice) == 1


@pytest.mark.parametrize("how", ["volatile", "cv", "plain"])
@pytest.mark.parametrize("batch", [True, False])
def test_a_program_may_wait_for_a_later_one_with_a_load(how, batch):
    flag, x, out = (torch.zeros(1, dtype=torch.int32) for _ in range(3))
    with VirtualGPU(batch=batch):
        producer_kernel[(2,)](flag, x, out, HOW=how)
    assert out.item() == 42


@pytest.mark.parametrize("batch", [True, False])
def test_a_wait_with_a_limit_does_not_run_out_while_others_can_still_go_on(batch):
    flag, out = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with VirtualGPU(batch=batch):
        patient_kernel[(3,)](flag, out, 1000)
    assert out.item() in (1, 2)


def test_kernels_that_do_not_synchronise_stay_in_step(monkeypatch):
    def refuse(*args):
        raise AssertionError("programs take turns")

    monkeypatch.setattr(launch, "Scheduler", refuse)
    x = torch.ones(256)
    with VirtualGPU(schedule=Schedule()):
        scale_kernel[(4,)](x, BLOCK=64)
    assert x.eq(2).all()
    with VirtualGPU():
        assert kernels.histogram(40)
        assert kernels.lock(5)
        assert kernels.barrier(150)


def test_what_ran_before_a_wait_was_seen_is_not_done_twice():
    with VirtualGPU(schedule=Schedule(seed=7)) as gpu:
        assert kernels.histogram(9, order="relaxed")
        assert gpu.launches[0].programs == 9


def test_programs_that_change_memory_for_ever_are_reported():
    flag = torch.zeros(2, dtype=torch.int32)
    gpu = VirtualGPU(limits=Limits(seconds=0.3), schedule=Schedule())
    with gpu, pytest.raises(HangDetected, match=r"none has ended for 0\.3 s") as caught:
        count_for_ever_kernel[(2,)](flag)
    assert not isinstance(caught.value, Deadlock)
    assert caught.value.line > count_for_ever_kernel.fn.__code__.co_firstlineno


def test_the_target_says_how_many_programs_are_resident():
    assert Schedule().on("sm_90").resident == 132
    assert Schedule(blocks_per_sm=2).on("sm_120").resident == 376
    assert Schedule(sm_count=10, blocks_per_sm=3).on("sm_90").resident == 30
    assert Schedule(resident=5, sm_count=10).on("sm_90").resident == 5


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"resident": 0}, "resident=0"), ({"yield_at": "loads"}, "'loads'"), ({"launch_order": "up"}, "'up'")],
)
def test_an_impossible_schedule_is_refused(wrong, named):
    with pytest.raises(ValueError, match=named):
        Schedule(**wrong)
