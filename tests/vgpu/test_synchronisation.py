"""Synchronisation of programs: no race where it is right, a race wherever a piece of it is missing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.vgpu import Race, Schedule, VirtualGPU
from tests.vgpu import sync_kernels as kernels


def unordered(**options):
    """Return a virtual GPU that looks for races."""
    return VirtualGPU(races=True, **options)


CORRECT = {
    "barrier": kernels.barrier,
    "barrier acq_rel": lambda n: kernels.barrier(n, arrive="acq_rel", wait="acq_rel"),
    "lock": kernels.lock,
    "lock acq_rel": lambda n: kernels.lock(n, take="acq_rel", free="acq_rel"),
    "tickets": lambda n: bool(kernels.tickets(n)),
    "chain": kernels.chain,
    "last block": kernels.last_block,
    "split k": lambda n: kernels.split_k(2, n),
    "histogram": kernels.histogram,
    "histogram relaxed": lambda n: kernels.histogram(n, order="relaxed"),
}
MUTANTS = {
    "barrier: arrives relaxed": lambda n: kernels.barrier(n, arrive="relaxed"),
    "barrier: waits relaxed": lambda n: kernels.barrier(n, wait="relaxed"),
    "barrier: no debug_barrier": lambda n: kernels.barrier(n, gather=False),
    "lock: freed relaxed": lambda n: kernels.lock(n, free="relaxed"),
    "lock: taken relaxed": lambda n: kernels.lock(n, take="relaxed"),
    "lock: no debug_barrier": lambda n: kernels.lock(n, gather=False),
    "tickets: waits relaxed": lambda n: kernels.tickets(n, wait="relaxed"),
    "tickets: frees relaxed": lambda n: kernels.tickets(n, free="relaxed"),
    "tickets: no debug_barrier": lambda n: kernels.tickets(n, gather=False),
    "chain: waits relaxed": lambda n: kernels.chain(n, wait="relaxed"),
    "chain: signals relaxed": lambda n: kernels.chain(n, signal="relaxed"),
    "chain: no debug_barrier": lambda n: kernels.chain(n, gather=False),
    "last block: counts relaxed": lambda n: kernels.last_block(n, order="relaxed"),
    "last block: only releases": lambda n: kernels.last_block(n, order="release"),
    "last block: only acquires": lambda n: kernels.last_block(n, order="acquire"),
    "last block: no debug_barrier": lambda n: kernels.last_block(n, gather=False),
}


@pytest.mark.parametrize("name", CORRECT)
def test_correct_synchronisation_is_no_race_over_fifty_schedules(name):
    with unordered():
        assert CORRECT[name](4)
    for seed in range(50):
        with unordered(schedule=Schedule(seed=seed, yield_at=("atomics", "memory")[seed % 2])):
            assert CORRECT[name](3), f"seed {seed}"


@pytest.mark.parametrize("name", MUTANTS)
def test_broken_synchronisation_is_a_race_under_every_schedule(name):
    schedules = [None, *(Schedule(seed=seed) for seed in range(6)), Schedule(choices=())]
    for schedule in schedules:
        with unordered(schedule=schedule), pytest.raises(Race) as caught:
            MUTANTS[name](4)
        hint = "tl.debug_barrier() comes between" in str(caught.value)
        assert hint is name.endswith("no debug_barrier"), str(caught.value)


@pytest.mark.parametrize("programs", [3, 8, 24])
def test_a_barrier_that_counts_one_too_few_is_a_race_under_some_schedules(programs):
    caught = []
    for seed in range(10):
        with unordered(schedule=Schedule(seed=seed)):
            try:
                kernels.barrier(programs, needed=programs - 1)
            except Race as fault:
                caught.append(fault.argument)
    assert caught.count("x_ptr") == len(caught) >= 3


@settings(max_examples=25, deadline=None)
@given(
    choices=st.lists(st.integers(0, 3), max_size=40).map(tuple),
    correct=st.sampled_from(sorted(CORRECT)),
    mutant=st.sampled_from(sorted(MUTANTS)),
)
def test_verdicts_do_not_depend_on_what_is_chosen(choices, correct, mutant):
    with unordered(schedule=Schedule(choices=choices, yield_at="memory")):
        assert CORRECT[correct](3)
        with pytest.raises(Race):
            MUTANTS[mutant](3)
