"""The grid barrier on the virtual GPU: who passes, what all have seen then, and what is said where not all come."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from functools import partial

import torch

from harness.launch import grid_barrier as barrier
from harness.launch.lease import LeaseTimeout, lease_holders
from harness.launch.sm_budget import current_budget
from harness.policies.barrier_kernel import Exchange, fresh_words
from harness.policies.saying import accepts, differs
from harness.vgpu import Deadlock, Schedule, VirtualGPU

CPU = torch.device("cpu")
#: Looks that are enough for all others to come, in the orders of turns below.
_ENOUGH = 12
#: Looks at a word that nobody changes after which the virtual GPU does not yet call it a deadlock (``vgpu/flow.py``).
_LOOKS = 17


def _schedules(count: int, resident: int) -> Iterator[Schedule]:
    """Orders of turns that change before atomics or before every access, launched in three orders."""
    for seed in range(count):
        order = ("ascending", "descending", "shuffled")[seed % 3]
        yield Schedule(
            seed=seed, resident=resident, yield_at=("memory", "atomics")[seed % 2], launch_order=order  # type: ignore[arg-type]
        )  # fmt: skip


def blocks_pass_exactly_when_all_are_resident() -> Iterator[str]:
    """One resident block too few is a deadlock, which says how many had come."""
    for blocks, resident in ((1, 1), (3, 3), (3, 5), (3, 2), (2, 1)):
        with VirtualGPU(schedule=Schedule(seed=blocks, resident=resident)):
            what = f"{blocks} blocks of which {resident} are resident"
            if blocks <= resident:
                yield from differs(what, Exchange(fresh_words(), (blocks,)).good, True)
                continue
            come = f"words_ptr[0] = {resident}, which {resident} program"
            yield from accepts(what, Deadlock, come, partial(Exchange, fresh_words(), (blocks,)))


def whoever_passes_has_seen_what_all_stored() -> Iterator[str]:
    """In every order of turns, in two phases, whatever the shape of the grid, on the same words again and again."""
    words = fresh_words()
    for number, schedule in enumerate(_schedules(6, 6)):
        with VirtualGPU(schedule=schedule, races=True):
            for grid in (((2, 1, 2), (3,)), ((1, 2), (2, 3)), ((1, 3, 2), (2,)))[number % 3]:
                yield from differs(f"{schedule} {grid}", Exchange(words, grid, phases=2).good, True)


def phases_may_come_to_nearly_2_to_the_30() -> Iterator[str]:
    """As many arrivals as are promised can be counted: phases times blocks below 2**30."""
    first = 2**30 // 3 - 1
    words = fresh_words()
    words[0] = (first - 1) * 3
    with VirtualGPU(schedule=Schedule(seed=1, resident=3)):
        yield from differs(f"phases {first} and {first + 1}", Exchange(words, (3,), phases=2, first=first).good, True)


def where_one_gives_up_all_do() -> Iterator[str]:
    """Blocks that look only so often all pass or none does; one reports it; the next launch on the words is good."""
    outcomes = set()
    for polls in (0, 1, 4):
        for resident in (2, 3):
            words = fresh_words()
            for schedule in _schedules(3, resident):
                with VirtualGPU(schedule=schedule, races=True):
                    run = Exchange(words, (3,), polls=polls)
                what = f"{polls} looks, {schedule}"
                passed = int(run.passed.sum())
                outcomes.add((resident, passed))
                reported, block, phase, arrived, wanted = run.report
                yield from differs(what, (run.right, run.clean, passed in (0, 3)), (True, True, True))
                yield from differs(f"{what}, reported", reported, int(passed == 0))
                if reported:
                    sound = 0 <= block < 3 and 1 <= arrived < 3 and arrived <= resident
                    yield from differs(f"{what}, {run.report}", (sound, phase, wanted), (True, 1, 3))
                words[2:] = 0
    yield from differs("passed, by how many are resident", outcomes, {(2, 0), (3, 0), (3, 3)})


def the_report_names_block_phase_and_counts() -> Iterator[str]:
    """Where one block leaves early and another loses patience, the report is of that other."""
    grid, absent = (2, 3, 2), 4
    for number, impatient in enumerate((0, 1, 3, 6, 8, 11)):
        with VirtualGPU(schedule=Schedule(seed=number, resident=12, launch_order="shuffled")):
            run = Exchange(fresh_words(), grid, phases=3, impatient=impatient, looks=_ENOUGH, absent=absent)
        yield from differs(f"block {impatient} gives up", run.report, [1, impatient, 2, 11, 12])
        later = [-1 if block == absent else 0 for block in range(12)]
        yield from differs("who passed", run.passed.tolist(), [[1] * 12, later, later])
        yield from differs("the words are clean", (run.clean, run.right), (True, True))


def a_block_looks_as_often_as_it_may() -> Iterator[str]:
    """A lone resident block gives up after so many looks in vain, the last before which the virtual GPU does."""
    with VirtualGPU(schedule=Schedule(resident=1)):
        run = Exchange(fresh_words(), (1, 2), polls=_LOOKS)
        yield from differs(f"{_LOOKS} looks", (run.report, run.clean), ([1, 0, 1, 1, 2], True))
        more = _LOOKS + 1
        yield from accepts(f"{more} looks", Deadlock, "", lambda: Exchange(fresh_words(), (1, 2), polls=more))
        run = Exchange(fresh_words(), (1, 2), polls=0)
        yield from differs("no second look", (run.report, run.clean), ([1, 0, 1, 1, 2], True))


def _launched(grid: tuple[int, ...], *, reserve: int = 0, polls: int = 1 << 20) -> Exchange:
    with barrier.barrier_launch(CPU, kernel="exchange", reserve=reserve, timeout_s=0.05) as launch:
        return Exchange(launch.words, grid, polls=polls)


def a_timeout_is_raised_once() -> Iterator[str]:
    """On leaving the launch, with what the report says; afterwards all is as if it had not been."""
    with VirtualGPU(schedule=Schedule(resident=2)):
        words = "grid barrier timeout: block 0, phase 1, arrived 2 of 3"
        try:
            _launched((3,), polls=3)
            yield "a launch of three blocks of which two are resident returns"
        except barrier.GridBarrierTimeout as error:
            told = (str(error), error.block, error.phase, error.arrived, error.wanted)
            yield from differs("the timeout", told, (words, 0, 1, 2, 3))
        barrier.check_grid_barriers(CPU)
        yield from differs("the next launch", _launched((2,)).good, True)
        with barrier.barrier_launch(CPU, kernel="exchange", reserve=0) as launch:
            pass
        launch.words[2:7] = torch.tensor([1, 17, 1, 96, 256])
        words = "block 17, phase 1, arrived 96 of 256"
        yield from accepts("a report", barrier.GridBarrierTimeout, words, lambda: barrier.check_grid_barriers(CPU))
        barrier.check_grid_barriers(CPU)


def a_launch_that_was_stopped_leaves_nothing() -> Iterator[str]:
    """A deadlock ends in the middle of the count; the next launch gets words that are clean."""
    with VirtualGPU(schedule=Schedule(resident=4)):
        yield from accepts("six blocks of which four are resident", Deadlock, "", lambda: _launched((6,)))
        yield from differs("the next launch", _launched((4,)).good, True)
        yield from differs("lease and budget", (lease_holders(), current_budget()), ({}, None))


def a_launch_keeps_to_its_budget_and_holds_the_lease() -> Iterator[str]:
    """Units are left free, and another thread's kernel with a barrier waits."""
    with VirtualGPU(schedule=Schedule(resident=11)):
        with barrier.barrier_launch(CPU, kernel="outer") as launch:
            units = (launch.num_sms, current_budget(), list(lease_holders()))
            yield from differs("units, budget, who holds leases", units, (8, 8, [0]))
            said: list[str] = []
            # the context makes the other thread ask the same device
            other = threading.Thread(target=contextvars.copy_context().run, args=(_enter, said))
            other.start()
            other.join()
            yield from differs("another thread", said, ["launch lease of device 0"])
        yield from accepts("a reserve of ten", ValueError, "1 of 11 SMs left", lambda: _launched((2,), reserve=10))


def _enter(said: list[str]) -> None:
    try:
        with barrier.barrier_launch(CPU, kernel="inner", timeout_s=0.05):
            said.append("entered")
    except LeaseTimeout as error:
        said.append(str(error).partition(":")[0])


RIGHT = (
    blocks_pass_exactly_when_all_are_resident,
    whoever_passes_has_seen_what_all_stored,
    phases_may_come_to_nearly_2_to_the_30,
    where_one_gives_up_all_do,
    the_report_names_block_phase_and_counts,
    a_block_looks_as_often_as_it_may,
    a_timeout_is_raised_once,
    a_launch_that_was_stopped_leaves_nothing,
    a_launch_keeps_to_its_budget_and_holds_the_lease,
)
