"""What the grid barrier must do, as checks of an API: the real one, and in tests/teeth one with a fault.

Every check takes ``api`` with the members ``barrier``, the module ``harness.launch.grid_barrier``, and ``kernels``,
the module ``tests.unit.barrier_kernels`` on top of it.
"""

import contextvars
import itertools
import tempfile
import threading

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from harness.launch.lease import LeaseTimeout, lease_holders
from harness.launch.sm_budget import current_budget, sm_budget
from harness.vgpu import Deadlock, Schedule, VirtualGPU

CPU = torch.device("cpu")
NO_REPORT = [0, 0, 0, 0, 0]


def schedules(count, **options):
    """``count`` seeded schedules, changing turns before atomics or before every access by turns."""
    for seed in range(count):
        order = ("ascending", "descending", "shuffled")[seed % 3]
        yield Schedule(seed=seed, yield_at=("atomics", "memory")[seed % 2], launch_order=order, **options)


def good(run):
    """Nobody timed out, everybody saw everybody's data, and the words are ready for the next launch."""
    return run.all_passed and run.sums_are_right and run.clean and run.report == NO_REPORT


def passes_exactly_when_all_are_resident(api):
    for blocks, resident in itertools.product((1, 2, 3, 5), (1, 2, 3, 5, 6)):
        with VirtualGPU(schedule=Schedule(seed=blocks, resident=resident)):
            if blocks <= resident:
                assert good(api.kernels.Exchange(api.kernels.fresh_words(), blocks)), (blocks, resident)
                continue
            with pytest.raises(Deadlock, match=rf"words_ptr\[0\] = {resident}, which {resident} program") as caught:
                api.kernels.Exchange(api.kernels.fresh_words(), blocks)
            assert (caught.value.resident, caught.value.never_launched) == (resident, blocks - resident)


def launches_reuse_the_words(api):
    """Grids of other sizes and shapes, one and several phases, one after the other on one set of words."""
    words = api.kernels.fresh_words()
    for schedule in schedules(3, resident=6):
        with VirtualGPU(schedule=schedule, races=True):
            for grid, phases in ((3, 1), ((2, 2), 2), (2, 3), (1, 2)):
                assert good(api.kernels.Exchange(words, grid, phases=phases)), (schedule, grid, phases)


def nobody_passes_early(api):
    """Whoever passes sees what all others stored, whichever lags behind, and the race detector agrees."""
    for schedule in schedules(9, resident=4):
        with VirtualGPU(schedule=schedule, races=True):
            assert good(api.kernels.Exchange(api.kernels.fresh_words(), 4, phases=2)), schedule


def a_timeout_is_everybodys(api):
    """Blocks that look only so often all pass or all give up, one of them reports it, and the next launch is good."""
    outcomes = set()
    for polls, resident, schedule in itertools.product((0, 1, 4), (2, 3), schedules(5)):
        words = api.kernels.fresh_words()
        seed = Schedule(seed=schedule.seed, resident=resident, yield_at=schedule.yield_at)
        with VirtualGPU(schedule=seed, races=True):
            run = api.kernels.Exchange(words, 3, max_polls=polls)
            assert run.clean, (polls, seed)
            assert run.sums_are_right, (polls, seed)
            passed = run.passed.sum().item()
            assert passed in (0, 3), (polls, seed)
            reported, block, phase, arrived, wanted = run.report
            assert reported == (passed == 0), (polls, seed)
            if reported:
                assert block in range(3), run.report
                assert (phase, wanted) == (1, 3), run.report
                assert 1 <= arrived < 3, run.report
                assert arrived <= resident, run.report
            outcomes.add((resident, passed))
    assert outcomes == {(2, 0), (3, 0), (3, 3)}


def a_good_launch_follows_a_timeout(api):
    words = api.kernels.fresh_words()
    with VirtualGPU(schedule=Schedule(seed=1, resident=3), races=True):
        for _ in range(2):
            assert not api.kernels.Exchange(words, 5, phases=2, max_polls=3).passed.any()
            assert words[2].item() == 1
            words[2:] = 0
            assert good(api.kernels.Exchange(words, 3, phases=2))


def the_report_names_block_phase_and_count(api):
    """Block 4 of 2 x 3 leaves after the first phase: the others wait at the second one for it."""
    for seed in range(4):
        with VirtualGPU(schedule=Schedule(seed=seed, launch_order="shuffled", resident=6)):
            run = api.kernels.Exchange(api.kernels.fresh_words(), (2, 3), phases=3, max_polls=12, absent=4)
        assert (run.passed[0] == 1).all()
        assert run.passed[1].tolist() == [0, 0, 0, 0, -1, 0]
        assert run.clean
        reported, block, phase, arrived, wanted = run.report
        assert (reported, phase, arrived, wanted) == (1, 2, 5, 6), run.report
        assert block in (0, 1, 2, 3, 5), run.report
    with VirtualGPU(schedule=Schedule(resident=1)):
        run = api.kernels.Exchange(api.kernels.fresh_words(), (1, 2), max_polls=1)
        assert run.report == [1, 0, 1, 1, 2]
    with VirtualGPU(schedule=Schedule(resident=1, launch_order="descending")):
        run = api.kernels.Exchange(api.kernels.fresh_words(), (1, 2), max_polls=1)
        assert run.report == [1, 1, 1, 1, 2]


def launched(api, grid, *, reserve=0, **options):
    """Return an exchange in its ``barrier_launch`` and how many units that gave it."""
    with api.barrier.barrier_launch(CPU, kernel="exchange", reserve=reserve, timeout_s=0.05) as launch:
        return api.kernels.Exchange(launch.words, grid, **options), launch.num_sms


def the_host_raises_the_report_once(api):
    wanted = "grid barrier timeout: block 0, phase 1, arrived 2 of 3"
    with VirtualGPU(schedule=Schedule(resident=2)):
        with pytest.raises(api.barrier.GridBarrierTimeout, match=wanted) as caught:
            launched(api, 3, max_polls=3)
        error = caught.value
        assert (error.block, error.phase, error.arrived, error.wanted) == (0, 1, 2, 3)
        api.barrier.check_grid_barriers(CPU)
        assert good(launched(api, 2)[0])
        with api.barrier.barrier_launch(CPU, kernel="exchange", reserve=0) as launch:
            pass
        launch.words[2:7] = torch.tensor([1, 17, 1, 96, 256])
        with pytest.raises(api.barrier.GridBarrierTimeout, match="block 17, phase 1, arrived 96 of 256"):
            api.barrier.check_grid_barriers(CPU)
        api.barrier.check_grid_barriers(CPU)


def a_launch_that_was_stopped_leaves_nothing(api):
    """A deadlock ends on the virtual GPU in the middle of the count; the next launch gets words that are clean."""
    with VirtualGPU(schedule=Schedule(resident=4)):
        with pytest.raises(Deadlock):
            launched(api, 6)
        assert good(launched(api, 4)[0])
        assert lease_holders() == {}
        assert current_budget() is None


def a_launch_keeps_to_its_budget_and_holds_the_lease(api):
    with VirtualGPU(schedule=Schedule(resident=11)):
        with api.barrier.barrier_launch(CPU, kernel="outer") as launch:
            assert launch.num_sms == current_budget() == 8
            assert list(lease_holders()) == [0]
            refused = []
            # the context makes the other thread ask the same device
            other = threading.Thread(target=contextvars.copy_context().run, args=(_enter, api, refused))
            other.start()
            other.join()
            assert refused == ["launch lease of device 0"]
        with sm_budget(6):
            run, units = launched(api, 4, reserve=2)
            assert good(run)
            assert units == 4
        with pytest.raises(ValueError, match="1 of 11 SMs left"):
            launched(api, 2, reserve=10)


def assembly(api, target):
    """The assembly of ``exchange_kernel`` for a target of AMD's."""
    pointers = ("x_ptr", "out_ptr", "passed_ptr", "words_ptr")
    signature = {**dict.fromkeys(pointers, "*i32"), **dict.fromkeys(("max_polls", "reads", "absent"), "i32")}
    constants = {"PHASES": 1, "LANES": 256}
    source = ASTSource(api.kernels.exchange_kernel, signature | dict.fromkeys(constants, "constexpr"), constants)
    with tempfile.TemporaryDirectory() as folder, triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        return triton.compile(source, target=GPUTarget("hip", target, 64)).asm["amdgcn"]


def every_wave_ends_its_stores_on_cdna(api):
    before = assembly(api, "gfx950").split("global_atomic_add", 1)[0]
    store = before.rindex("buffer_store") if "buffer_store" in before else before.rindex("global_store")
    assert "vmcnt(0)" in before[store : before.rindex("s_barrier")]


def _enter(api, refused):
    try:
        with api.barrier.barrier_launch(CPU, kernel="inner", timeout_s=0.05):
            refused.append("entered")
    except LeaseTimeout as error:
        refused.append(str(error).partition(":")[0])


CHECKS = {
    check.__name__: check
    for check in (
        passes_exactly_when_all_are_resident,
        launches_reuse_the_words,
        nobody_passes_early,
        a_timeout_is_everybodys,
        a_good_launch_follows_a_timeout,
        the_report_names_block_phase_and_count,
        the_host_raises_the_report_once,
        a_launch_that_was_stopped_leaves_nothing,
        every_wave_ends_its_stores_on_cdna,
        a_launch_keeps_to_its_budget_and_holds_the_lease,
    )
}
